"""`stackchan service`: what can be typed and its help. Each is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.commands.terminal import open_terminal

service_app = typer.Typer(
    help="Start the server at login or boot, by systemd, without root. / 自動で起動します。",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@service_app.command("install")
def install(
    lan: Annotated[bool, typer.Option("--lan", help="Let the robot and other machines of this network in.")] = False,
    tls: Annotated[bool, typer.Option("--tls", help="Speak HTTPS.")] = False,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port to listen on.")] = None,
    yes: Yes = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", metavar="FOLDER", help="Folder of settings and memory. [dim](STACKCHAN_DATA_DIR)[/]"
        ),
    ] = None,
) -> None:
    """Write the unit, start it, and start it by itself from now on. / サービスとして登録します。

    Shows what it writes, and asks. Again: with other options.
    At boot, before anybody logs in, it starts only when you run
    `sudo loginctl enable-linger $USER` once.

    Examples:

      stackchan service install --lan
      stackchan service install --lan --tls --yes
    """
    from server.commands.service import ServiceOptions
    from server.commands.service import install as run

    raise typer.Exit(run(ServiceOptions(lan, tls, port, data_dir), open_terminal(), yes=yes))


@service_app.command("uninstall")
def uninstall(yes: Yes = False) -> None:
    """Stop it and remove the unit; settings and memory stay. / サービスの登録をやめます。"""
    from server.commands.service import uninstall as run

    raise typer.Exit(run(open_terminal(), yes=yes))


@service_app.command("status")
def status() -> None:
    """Whether it is installed, starts by itself, and runs (exit code 1: it does not). / サービスの状態。"""
    from server.commands.service import status as run

    raise typer.Exit(run(open_terminal()))
