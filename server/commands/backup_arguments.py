"""`stackchan backup`, `restore` and `token`: what can be typed and its help. Each is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.commands.terminal import open_terminal

token_app = typer.Typer(
    help="The owner's token. / 持ち主のトークン。",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="Folder of settings and memory. [dim](STACKCHAN_DATA_DIR)[/]"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, for programs.")]


def add_backup_commands(app: typer.Typer) -> None:
    """Let `app` know `backup` and `restore`."""
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to: a .tar.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Everything that is remembered, in one file; the server may go on running. / バックアップします。

    It holds what was said in plain text, but no token that opens anything:
    keep it where only you can read it.

    Example:

      stackchan backup stackchan-2026-11-30.tar
    """
    from server.commands.backup import save_backup

    raise typer.Exit(save_backup(file, data_dir, open_terminal(), force=force, as_json=as_json))


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `stackchan backup` wrote.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Put a backup back, here or on a new computer, while no server runs. / バックアップから戻します。

    What is there now is moved aside, not deleted. What was forgotten since
    the backup stays forgotten.
    """
    from server.commands.backup import restore_backup

    raise typer.Exit(restore_backup(file, data_dir, open_terminal(), yes=yes, as_json=as_json))


@token_app.command("reset")
def token_reset(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Make a new owner's token, show it once, and end the old one. / トークンを作り直します。

    With or without a running server, which refuses the old one at once.
    Tokens of devices stay.
    """
    from server.commands.token import reset_token

    raise typer.Exit(reset_token(data_dir, open_terminal(), as_json=as_json))
