"""`stackchan serve`: one process, told step by step, stopped cleanly.

Loads settings and persona, binds the address, builds the engines and runs the application. What the server is made of
is `app.py`'s matter; here is what its owner sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from server.commands.address import bind, http_url, is_loopback, lan_addresses, reachable_host
from server.commands.failures import ExitCode, exit_code_of
from server.commands.logs import set_up_logging
from server.commands.terminal import Terminal, own_command
from server.config import DATA_DIR, Settings, load_settings
from server.errors import StackChanError

if TYPE_CHECKING:
    from server.commands.certificate import Identity
    from server.commands.web_server import Shown

_log = logging.getLogger(__name__)

_STEP_TITLES = {
    "vad": "finding speech",
    "asr": "hearing",
    "llm": "thinking",
    "tts": "speaking",
    "embedding": "meaning",
    "prompt": "learning the persona",
    "apologies": "preparing apologies",
}


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What was given on the command line; None: from the environment, the file or the default."""

    host: str | None = None
    port: int | None = None
    lan: bool = False
    profile: str | None = None
    data_dir: Path | None = None
    tls: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None


def serve(options: ServeOptions, terminal: Terminal) -> ExitCode:
    """Run the server until it is told to stop. Raises `StackChanError` when it cannot start."""
    host = options.host or ("0.0.0.0" if options.lan else None)
    settings = load_settings(
        host=host,
        port=options.port,
        profile=options.profile,
        data_dir=options.data_dir,
        tls=options.tls or None,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
    )
    terminal = set_up_logging(settings, terminal)
    try:
        with _termination_as_interrupt(), bind(settings) as listener:
            _serve(settings, listener, terminal)
    except KeyboardInterrupt:
        pass
    except StackChanError as error:
        if settings.log_format == "text":
            raise
        _log.critical("%s", error, extra={"code": error.code})
        return exit_code_of(error)
    terminal.note("Stopped. / 終了しました。")
    return ExitCode.OK


def _serve(settings: Settings, listener: socket.socket, terminal: Terminal) -> None:
    from server.persona import find_persona, load_persona

    began = time.perf_counter()
    persona = load_persona(find_persona(settings.data_dir, settings.persona_path))
    terminal.say(f"StackChan ({persona.name}) is starting. / 起動しています…", style="bold")
    with terminal.waiting("Checking the model files…"):
        from server.engines.registry import build_engines

        engines = build_engines(settings, persona)
    with terminal.waiting("Loading the server…"):
        from server.app import create_app
        from server.commands.certificate import identity_of
        from server.commands.web_server import new_event_loop, run_app

        port: int = listener.getsockname()[1]
        identity = identity_of(settings, datetime.now(UTC))
        url = http_url(reachable_host(settings.host), port, tls=identity is not None)
        app = create_app(
            settings, persona, engines, url=url, certificate=identity.certificate if identity is not None else None
        )
    start_view = StartView(terminal)
    app.state.readiness.listeners.append(start_view)

    def on_ready() -> None:
        start_view.close()
        tokens = Tokens(new=app.state.new_owner_token, boot=app.state.boot_token)
        show_banner(settings, tokens, port, time.perf_counter() - began, terminal, identity)

    def on_stopping(hurry: bool) -> None:
        start_view.close()
        if hurry:
            terminal.note("Stopping; a reply that is being made is cut off, what was said is kept.", style="yellow")
            terminal.note("終了しています…（返事は途中でも止めます。話した言葉は残ります）", style="yellow")
        else:
            terminal.note("Stopping; turns in progress may finish. / 終了しています…", style="yellow")

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            error = runner.run(
                run_app(
                    app,
                    listener,
                    app.state.readiness,
                    on_ready=on_ready,
                    on_stopping=on_stopping,
                    shown=_shown(settings, identity),
                ),
            )
    finally:
        start_view.close()
    if error is not None:
        raise error


def _shown(settings: Settings, identity: Identity | None) -> Shown | None:
    if identity is None:
        return None
    from server.commands.certificate import identity_of
    from server.commands.web_server import Shown

    def renew() -> None:
        identity_of(settings, datetime.now(UTC))

    return Shown(identity.certificate, identity.key, renew)


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM before the event loop runs ends the start just as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class StartView:
    """Tells the steps of the start: a line for each one done, and on a terminal what is still going on."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._pending: list[str] = []
        self._spinner = terminal.err.status("") if terminal.can_draw else None

    def __call__(self, step: str, seconds: float | None) -> None:
        """A step began (`seconds` None) or is done."""
        kind, _, name = step.partition(" ")
        title = _STEP_TITLES.get(kind, kind)
        if seconds is None:
            self._pending.append(title)
        else:
            if title in self._pending:
                self._pending.remove(title)
            label = f"{title} ({name})" if name else title
            self._terminal.note(f"  {label:<44} {seconds:6.1f} s", style="dim")
        if self._spinner is not None and self._pending:
            self._spinner.update(f"Loading: {', '.join(self._pending)}…")
            self._spinner.start()
        elif self._spinner is not None:
            self._spinner.stop()

    def close(self) -> None:
        """Nothing more is going on, whatever was pending."""
        if self._spinner is not None:
            self._spinner.stop()


@dataclass(frozen=True, slots=True)
class Tokens:
    """`new`: the owner's token, if this start made it. `boot`: the admin token of this boot."""

    new: str | None
    boot: str


def show_banner(
    settings: Settings,
    tokens: Tokens,
    port: int,
    ready_seconds: float,
    terminal: Terminal,
    identity: Identity | None = None,
) -> None:
    """What the owner must know once the server is ready; the token only when this start made it."""
    say = terminal.say
    say(f"Ready in {ready_seconds:.1f} s. / 準備ができました。", style="bold green")
    say("")
    tls = identity is not None
    page = f"{http_url(reachable_host(settings.host), port, tls=tls)}/"
    # Whoever sees this terminal owns the machine; a log file may go further, so there the link has no token.
    say(
        f"  Page / ページ          {page}#token={tokens.boot}"
        if terminal.can_draw
        else f"  Page / ページ          {page}"
    )
    if terminal.can_draw:
        say("                         (this link works until the server stops / このリンクはサーバーを終えるまで有効)")
    elsewhere = (
        "" if settings.data_dir == Path(DATA_DIR).expanduser() else f" --data-dir {shlex.quote(str(settings.data_dir))}"
    )
    say(f'  Talk / 話す            {own_command()} talk{elsewhere} "こんにちは"')
    say("                         (in another terminal; a recording in place of the words, or nothing to converse)")
    say(f"  Data / データ          {settings.data_dir}")
    say("  Stop / 終了            Ctrl-C")
    if not is_loopback(settings.host):
        say("")
        for address in lan_addresses(settings.host):
            say(f"  {'Phone / スマホ' if tls else 'Robot / ロボット'}       {http_url(address, port, tls=tls)}")
        say("  Every machine on this network can reach the server and only the token protects it:", style="yellow")
        say("  use it at home, never on a public network. / 公衆の Wi-Fi では使わないでください。", style="yellow")
        if not tls:
            say("  On other machines the page gets a microphone only with --tls.")
            say("  他の端末のブラウザーでマイクを使うには --tls が必要です。")
    if identity is not None:
        _show_identity(identity, terminal)
    if settings.log_private_text:
        say("")
        say(
            "  The log holds what is said and answered (log_private_text). / 会話の内容がログに残ります。",
            style="yellow",
        )
    if tokens.new is not None:
        say("")
        say(f"  Token / トークン       {tokens.new}", style="bold cyan")
        say("  Shown only this once: keep it for the page and the robot. This machine's command line needs none.")
        say("  表示は今回だけです。ページとロボットの設定に使うので、控えておいてください。")
    say("")


def _show_identity(identity: Identity, terminal: Terminal) -> None:
    """By what people know that it is this server, and what they do once."""
    say = terminal.say
    say("")
    say(f"  Certificate / 証明書   {identity.certificate}")
    half = len(identity.fingerprint) // 2 + 1
    say(f"  SHA-256                {identity.fingerprint[:half]}")
    say(f"                         {identity.fingerprint[half:]}")
    if identity.own:
        say(f"                         ends / 期限 {identity.ends_at:%Y-%m-%d}")
        return
    say("  No authority has signed it, so a browser warns once: compare the SHA-256, then go on to the page")
    say("  (Advanced, Proceed). A program takes the file as its authority (curl --cacert FILE).")
    say("  初回だけブラウザーが警告します。SHA-256 が同じことを確かめ、「詳細設定」から進んでください。")
