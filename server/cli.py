"""`stackchan`: the commands, their arguments and their help.

Declares what can be typed and turns errors into messages and exit codes. What a command does is in
`server/commands`, imported when the command runs, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from server import __version__
from server.commands.backup_arguments import add_backup_commands, token_app
from server.commands.failures import ExitCode, exit_code_of
from server.commands.memory_arguments import memory_app
from server.commands.service_arguments import service_app
from server.commands.terminal import give_up_output, open_terminal, show_error
from server.errors import StackChanError

_EPILOG = (
    "[bold]Exit codes:[/]  0 ok   1 failed   2 wrong use   3 no server runs   4 the server refused\n\n"
    "[bold]Begin:[/]  stackchan models pull   then   stackchan serve   and in another terminal   "
    'stackchan talk "こんにちは"'
)
_CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="stackchan",
    help="Talk with StackChan, the small desk robot: it hears, answers and speaks on your own machine. / "
    "自分のパソコンで動く、スタックチャンの声のサーバーです。",
    epilog=_EPILOG,
    context_settings=_CONTEXT,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(
    help="The models on this machine: see them, pull them, prove them. / モデルの管理。",
    no_args_is_help=True,
    context_settings=_CONTEXT,
)
app.add_typer(models_app, name="models")
app.add_typer(memory_app, name="memory")
app.add_typer(token_app, name="token")
app.add_typer(service_app, name="service")

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="FOLDER",
        help="Folder of settings, memory and the running server's address. [dim](STACKCHAN_DATA_DIR)[/]",
    ),
]
ModelIds = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Models; without any, those this profile needs.")
]


def main() -> None:
    """Run the command line. Known errors become a red message and an exit code, never a traceback."""
    terminal = open_terminal()
    try:
        app(prog_name="stackchan")
    except StackChanError as error:
        show_error(terminal, error)
        sys.exit(exit_code_of(error))
    except OSError as error:
        # Commands name the files they fail on; what is left is the output itself: a full disk, a vanished terminal.
        give_up_output()
        reason = f"The output cannot be written ({error.strerror or error})."
        show_error(terminal, StackChanError(reason, code="output_failed", hint="Was all of the answer to be kept?"))
        sys.exit(ExitCode.FAILED)


def _show_version(wanted: bool) -> None:
    if wanted:
        open_terminal().say(f"stackchan {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def serve(
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on. [dim](127.0.0.1; STACKCHAN_HOST)[/]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one. [dim](8000; STACKCHAN_PORT)[/]"),
    ] = None,
    lan: Annotated[bool, typer.Option("--lan", help="Let the robot and other machines of this network in.")] = False,
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak HTTPS, so that the page may use a phone's microphone.")
    ] = False,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Your own certificate (PEM) instead.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of --tls-cert (PEM, no password).")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="embedded (no key, no GPU) or qwen. [dim](embedded; STACKCHAN_PROFILE)[/]"),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Start the server and keep it running until Ctrl-C. / サーバーを起動します。

    Only this machine can reach it unless --lan is given.
    The first start makes a token and shows it once.

    Examples:

      stackchan serve
      stackchan serve --lan
      stackchan serve --lan --tls
      stackchan serve --port 0 --data-dir /tmp/try
    """
    from server.commands.serve import ServeOptions
    from server.commands.serve import serve as run

    raise typer.Exit(run(ServeOptions(host, port, lan, profile, data_dir, tls, tls_cert, tls_key), open_terminal()))


@app.command()
def talk(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECORDING|WORDS|-]...", help="A recording, words, or - for text from a pipe."),
    ] = None,
    as_text: Annotated[bool, typer.Option("--text", help="The argument is words, whatever it looks like.")] = False,
    as_file: Annotated[bool, typer.Option("--file", help="The argument is a recording.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the answer's sound: .wav, .ogg (Opus) or .pcm (16-bit)."),
    ] = None,
    no_play: Annotated[bool, typer.Option("--no-play", help="Do not play the answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the server's answer, as JSON.")] = False,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="Conversation to go on with; another name starts a new one.")
    ] = None,
    device_id: Annotated[str, typer.Option(metavar="ID", help="Device to speak as.")] = "cli",
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="A server elsewhere; without it the one of the data folder.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Token for --url. [dim](STACKCHAN_TOKEN)[/]")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Say something to the robot and hear its answer. / ロボットに話しかけます。

    A WAV, FLAC, Ogg or MP3 file is sent as it is, other words as text.
    Without an argument it listens to the microphone, or, where there is
    none, reads what is typed; /new there ends the conversation and begins
    another, /help says so and /quit ends. Below an answer stand its turn
    and its session.

    Examples:

      stackchan talk "左を見て"
      stackchan talk question.wav --out answer.wav
      stackchan talk
      echo "Hello" | stackchan talk - --json
    """
    from server.commands.talk import TalkOptions
    from server.commands.talk import talk as run

    options = TalkOptions(
        words=tuple(words or ()),
        as_text=as_text,
        as_file=as_file,
        url=url,
        token=token,
        data_dir=data_dir,
        device_id=device_id,
        session=session,
        out=out,
        play=not no_play,
        as_json=as_json,
    )
    raise typer.Exit(run(options, open_terminal()))


@app.command()
def simulate(
    wav: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="What they say: a recording of one utterance. Without it Open JTalk says a sentence."
        ),
    ] = None,
    robots: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="How many talk at the same time.")] = 1,
    turns: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="How often each of them talks.")] = 3,
    opus: Annotated[bool, typer.Option("--opus", help="Send Opus instead of PCM.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="A server elsewhere; without it the one of the data folder.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Token for --url. [dim](STACKCHAN_TOKEN)[/]")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Let robots of software talk to a server, in real time. / ソフトウェアのロボットを何台も話させます。

    Shows how long after the end of speech the first sound of the answer
    came, what failed, and how often a robot ran out of sound. Each is a
    device of its own, simulated-1 and so on, and its turns are stored.

    Examples:

      stackchan simulate
      stackchan simulate --wav question.wav
      stackchan simulate --robots 16 --turns 5 --wav question.wav
    """
    from server.commands.simulate import SimulateOptions
    from server.commands.simulate import simulate as run

    options = SimulateOptions(wav, robots, turns, opus, url, token, data_dir, as_json)
    raise typer.Exit(run(options, open_terminal()))


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    bench: Annotated[
        bool, typer.Option("--bench", help="Also run the real models: hear 3 s, write 20 tokens, speak, find a memory.")
    ] = False,
    profile: Annotated[str | None, typer.Option(metavar="NAME", help="Check this profile.")] = None,
    data_dir: DataDir = None,
) -> None:
    """What is missing, how fast this machine is, and what to do next. / 困ったときはこれを。

    Exit code 1 when something must be put right before the robot can talk.

    Examples:

      stackchan doctor
      stackchan doctor --bench
    """
    from server.commands.doctor import doctor as run

    raise typer.Exit(run(open_terminal(), as_json=as_json, bench=bench, profile=profile, data_dir=data_dir))


add_backup_commands(app)


@models_app.command("list")
def models_list(data_dir: DataDir = None) -> None:
    """Show every model, its size, and whether it is here. / モデルの一覧。"""
    from server.commands.models import list_models

    raise typer.Exit(list_models(data_dir, open_terminal()))


@models_app.command("pull")
def models_pull(
    ids: ModelIds = None,
    pull_all: Annotated[bool, typer.Option("--all", help="Every model of the list.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Bring models here, proven by their SHA-256. / モデルを取得します。

    Whatever interrupts it, running it again goes on where it stopped.
    """
    from server.commands.models import pull_models

    raise typer.Exit(pull_models(ids or (), pull_all, data_dir, open_terminal()))


@models_app.command("verify")
def models_verify(ids: ModelIds = None, data_dir: DataDir = None) -> None:
    """Read every file again and compare its SHA-256. / モデルを検査します。"""
    from server.commands.models import verify_models

    raise typer.Exit(verify_models(ids or (), data_dir, open_terminal()))


@models_app.command("path")
def models_path(data_dir: DataDir = None) -> None:
    """Print the folder the models are in. / モデルの場所。"""
    from server.commands.models import show_model_path

    raise typer.Exit(show_model_path(data_dir, open_terminal()))


if __name__ == "__main__":
    main()
