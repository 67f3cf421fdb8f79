"""`stackchan token reset`: a new token for the owner, the old ones void at once, also for a server that runs.

Tokens are looked up with every request, so changing the database is enough. Knows no rights and no devices.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from server.commands.client import ServerClient, target_of
from server.commands.failures import ExitCode, RefusedError
from server.commands.terminal import Terminal
from server.config import Settings, load_settings
from server.errors import ConfigError
from server.run_file import RunFile, hold_data_dir, read_run_file

if TYPE_CHECKING:
    from server.storage.database import Database

_ASK = "/v1/memory/status"
"""Something that only the owner may ask for."""


def reset_token(data_dir: Path | None, terminal: Terminal, *, as_json: bool) -> ExitCode:
    """Make a token and end the older ones. Raises `ConfigError` where one set by hand counts, `StorageError`."""
    settings = load_settings(data_dir=data_dir)
    if settings.token is not None:
        raise _set_by_hand("The owner's token is set by hand here")
    run = read_run_file(settings.data_dir)
    if run is None:
        with hold_data_dir(settings.data_dir):
            token = asyncio.run(_reset_held(settings))
    else:
        token = _reset_running(settings, run, terminal)
    if as_json:
        terminal.say_json({"token": token})
    else:
        terminal.say(token, style="bold cyan")
    terminal.note("Shown only this once; the old one is void. Give it to the page and the robot.")
    terminal.note("表示は今回だけです。前のトークンはもう使えません。ページとロボットに設定してください。")
    return ExitCode.OK


async def _reset_held(settings: Settings) -> str:
    from server.storage.database import SERVER_DATABASE, Database

    return await _replace(await Database.open(settings.data_dir / SERVER_DATABASE, "server"))


def _reset_running(settings: Settings, run: RunFile, terminal: Terminal) -> str:
    from server.storage.database import SERVER_DATABASE, Database
    from server.storage.sqlite import open_engine

    # Until it has answered, its database may still be in the making.
    _lets_in(run, run.token, terminal)
    # Not upgraded: the schema is the running server's.
    path = settings.data_dir / SERVER_DATABASE
    token = asyncio.run(_replace(Database(path, open_engine(path))))
    if not _lets_in(run, token, terminal):
        # Nobody has seen this one; without any, the next start makes one and shows it.
        asyncio.run(_revoke(Database(path, open_engine(path))))
        raise _set_by_hand("The running server was given its token by hand")
    return token


def _lets_in(run: RunFile, token: str, terminal: Terminal) -> bool:
    """Whether the server takes the token, once it is ready. Raises `StackChanError` when it cannot be asked."""
    with ServerClient(target_of(run, token), on_wait=terminal.note) as client:
        try:
            client.call("GET", _ASK)
        except RefusedError as error:
            # Any other refusal comes after the door.
            return error.status not in (401, 403)
    return True


async def _replace(database: Database) -> str:
    from server.storage import tokens

    now = datetime.now(UTC)
    try:
        async with database.session() as db:
            await tokens.revoke_owner_tokens(db, now=now)
            return await tokens.create_token(db, kind="owner", now=now)
    finally:
        await database.close()


async def _revoke(database: Database) -> None:
    from server.storage import tokens

    try:
        async with database.session() as db:
            await tokens.revoke_owner_tokens(db, now=datetime.now(UTC))
    finally:
        await database.close()


def _set_by_hand(what: str) -> ConfigError:
    return ConfigError(
        f"{what} (STACKCHAN_TOKEN, or token in stackchan.toml); only that one counts.",
        code="token_set_by_hand",
        hint="Change it there and start the server again, or remove it to have one made.",
    )
