"""The checks of `stackchan doctor`: each looks at one thing and says what it found and what to do.

Every check is independent and takes only what it needs; none imports a model library. Measuring is `machine.py` and
`bench.py`; order, drawing and the exit code are `doctor.py`.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import httpx2

from server import __version__
from server.commands import machine, sound
from server.commands.models import hub_model_states, model_state, needed_model_ids
from server.commands.terminal import own_command
from server.commands.trust import trusting
from server.config import Settings
from server.config_sections import LOCAL_MEMORIES
from server.errors import ConfigError, StackChanError
from server.pipeline.trace_facts import mapping
from server.run_file import RunFile, read_run_file
from server.storage.at_rest import count_memories

State = Literal["ok", "info", "warn", "fail"]

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 13)
NEEDED_MEMORY_BYTES = 2_000_000_000
"""The embedded profile's models and the server, with something left for a conversation."""
SPARE_DISK_BYTES = 1_000_000_000
# What an endpoint may send as its list of models; the address may be anybody's.
_BODY_BYTES = 1024**2
_BODY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. `fail`: the robot cannot talk until it is put right; `warn`: something will not work."""

    check: str
    state: State
    detail: str
    todo: str | None = None
    """What to do, as a command where there is one."""


def check_python() -> Finding:
    found = sys.version_info[:2]
    detail = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, stackchan {__version__}"
    if PYTHON_FROM <= found < PYTHON_BELOW:
        return Finding("Python", "ok", detail)
    return Finding("Python", "fail", detail, "Install Python 3.11 or 3.12, then run scripts/start again.")


def check_machine() -> Finding:
    cores, memory = machine.processor_count(), machine.memory_bytes()
    detail = f"{cores} {'core' if cores == 1 else 'cores'} ({machine.processor_name()})"
    if memory is None:
        return Finding("Machine", "info", detail)
    total, free = memory
    detail += f", memory {_gigabytes(total)}, {_gigabytes(free)} free"
    if total < NEEDED_MEMORY_BYTES:
        return Finding(
            "Machine", "warn", detail, f"The models want about {_gigabytes(NEEDED_MEMORY_BYTES)}: expect swapping."
        )
    if free < NEEDED_MEMORY_BYTES:
        return Finding("Machine", "warn", detail, "Close other programs before you start the server.")
    return Finding("Machine", "ok", detail)


def check_disk(settings: Settings) -> Finding:
    from server.engines import downloads
    from server.engines.catalogue import load_catalogue
    from server.engines.model_files import free_bytes

    needed = needed_model_ids(settings, load_catalogue())
    missing = sum(state.size_bytes for state in downloads.status(settings.model_dir, needed) if state.state != "ok")
    # Wheels and assembled files are on the disk together for a while.
    wanted = 2 * missing + SPARE_DISK_BYTES
    free = min(free_bytes(settings.model_dir), free_bytes(settings.data_dir))
    detail = f"{_gigabytes(free)} free"
    if free < wanted:
        return Finding(
            "Disk", "fail" if missing else "warn", detail, f"Free some space: {_gigabytes(wanted)} is wanted."
        )
    return Finding("Disk", "ok", detail)


def check_data_dir(settings: Settings) -> Finding:
    folder = settings.data_dir
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    where = f"{folder}" if existing == folder else f"{folder} (will be made)"
    if not existing.is_dir():
        return Finding(
            "Data folder", "fail", f"{existing} is not a folder.", "Set STACKCHAN_DATA_DIR to another place."
        )
    try:
        if existing == folder:
            with tempfile.TemporaryFile(dir=folder):
                pass
        elif not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        todo = "Check its owner and permissions, or set STACKCHAN_DATA_DIR to another place."
        return Finding("Data folder", "fail", f"{where}: cannot be written ({error.strerror}).", todo)
    return Finding("Data folder", "ok", where)


def check_memory(settings: Settings) -> Finding:
    if not settings.memory.enabled:
        return Finding("Memory", "info", "turned off (memory.enabled)")
    count = count_memories(settings.data_dir / "worlds" / settings.world / "session.sqlite")
    if count is None:
        return Finding("Memory", "info", "nothing remembered yet")
    detail = f"{count:,} memories, index kind {settings.memory.index_kind}"
    if settings.memory.index_kind == "local" and count > LOCAL_MEMORIES:
        detail += f": above {LOCAL_MEMORIES:,} edge is recommended, local reads all vectors into memory at each start"
        todo = f"Set memory.index_kind to edge, then / edge に設定してから: {own_command()} memory rebuild"
        return Finding("Memory", "warn", f"{detail} / local は起動のたびに全部のベクトルをメモリーに読み込みます", todo)
    return Finding("Memory", "ok", detail)


def check_settings(settings: Settings, problem: StackChanError | None) -> Finding:
    if problem is not None:
        return Finding("Settings", "fail", problem.message, _correct(problem))
    place = str(settings.toml_path) if settings.toml_path.exists() else "defaults and environment (no stackchan.toml)"
    return Finding("Settings", "ok", f"{place}; profile {settings.profile}")


def check_persona(settings: Settings) -> Finding:
    from server.persona import find_persona, load_persona

    path = find_persona(settings.data_dir, settings.persona_path)
    try:
        persona = load_persona(path)
    except StackChanError as error:
        return Finding("Persona", "fail", error.message, _correct(error))
    return Finding("Persona", "ok", f"{persona.name} ({', '.join(persona.languages)}), {path}")


def check_clock(settings: Settings, now: datetime | None = None) -> Finding:
    """Whose time the robot tells. `now`: this computer's, in its own zone."""
    from server.persona import find_persona, load_persona

    try:
        zone = load_persona(find_persona(settings.data_dir, settings.persona_path)).zone
    except StackChanError:
        return Finding("Clock", "info", "unknown: the persona cannot be read")
    here = now or datetime.now().astimezone()
    there = here.astimezone(ZoneInfo(zone))
    detail = f"{there:%H:%M} in {zone}, the house's time zone"
    if there.utcoffset() == here.utcoffset():
        return Finding("Clock", "ok", detail)
    return Finding(
        "Clock",
        "info",
        f"{detail}; this computer's is {here:%H:%M} ({here:%Z})",
        "If the robot lives elsewhere, set zone in persona.yaml. / 住む所と違うなら persona.yaml の zone を直します。",
    )


def check_packages(settings: Settings) -> Finding:
    from server.engines import registry

    names, problems = [], []
    for kind in registry.engine_names(settings):
        try:
            registry.find_engine(settings, kind)
        except StackChanError as error:
            problems.append(error)
        else:
            names.append(registry.engine_names(settings)[kind])
    if not problems:
        return Finding("Engines", "ok", ", ".join(names))
    detail = "\n".join(dict.fromkeys(problem.message for problem in problems))
    return Finding("Engines", "fail", detail, problems[0].next_step)


def check_models(settings: Settings) -> Finding:
    from server.engines import downloads
    from server.engines.catalogue import load_catalogue

    needed = needed_model_ids(settings, load_catalogue())
    states = {model: model_state(downloads.status(settings.model_dir, [model])) for model in needed}
    states |= hub_model_states(settings)
    bad = {model: state for model, state in states.items() if state in ("missing", "wrong")}
    detail = "\n".join(f"{model}: {_MODEL_STATES[state]}" for model, state in states.items())
    if settings.profile == "qwen" and not needed:
        detail = "this profile's models are not pulled by the server"
    if bad:
        return Finding("Models", "fail", detail, f"{own_command()} models pull")
    if "unverified" in states.values():
        return Finding("Models", "info", detail, f"{own_command()} models verify   (the next start does it too)")
    return Finding("Models", "ok", detail)


def check_endpoint(settings: Settings, *, transport: httpx2.BaseTransport | None = None) -> Finding:
    """Whether the language model's endpoint answers, takes the key and has the model. Raises `ConfigError`."""
    from server.engines.llm.openai_errors import status_error, transport_error
    from server.engines.llm.presets import choose_model, resolve_endpoint

    name = "Language model"
    endpoint = resolve_endpoint(settings.llm)
    where = f"{endpoint.name} at {endpoint.base_url}"
    try:
        with (
            httpx2.Client(timeout=5.0, trust_env=not endpoint.loopback, transport=transport) as client,
            client.stream("GET", f"{endpoint.base_url}/models", headers=endpoint.headers()) as answer,
        ):
            body = _beginning(answer)
        offered = _listed_models(body) if answer.is_success else None
    except httpx2.HTTPError as error:
        failure = transport_error(error, endpoint)
        return Finding(name, "fail", failure.message, failure.next_step)
    if not answer.is_success:
        failure = status_error(answer.status_code, answer.headers, body.decode("utf-8", "replace"), endpoint)
        if answer.status_code in (404, 405) and endpoint.model is not None:
            detail = f"{where}, model {endpoint.model}; it has no list of models to look in"
            return Finding(
                name, "warn", detail, f"{failure.next_step} Then: {own_command()} doctor --bench   (asks it)"
            )
        return Finding(name, "warn" if failure.retryable else "fail", failure.message, failure.next_step)
    if offered is None:
        todo = "Check llm.base_url (STACKCHAN_LLM__BASE_URL); most end in /v1."
        return Finding(name, "fail", f"{where} answers, but not as a language model.", todo)
    model = endpoint.model or choose_model(offered)
    if model is None:
        return Finding(name, "fail", f"{where} has no model.", "Load one there; see docs/endpoints.md.")
    if not {model, f"{model}:latest"} & set(offered):
        shown = ", ".join(offered[:8]) or "nothing"
        todo = f"Set llm.model (STACKCHAN_LLM__MODEL) to one it has: {shown}"
        return Finding(name, "fail" if endpoint.local else "warn", f"{where} does not list the model {model}", todo)
    tools = "natively" if endpoint.native_tools else "as text"
    return Finding(name, "ok", f"{where}, model {model}, calls tools {tools}")


def check_sound() -> Finding:
    devices = sound.DeviceProbe().result()
    if devices.problem is not None:
        return Finding(
            "Sound",
            "info",
            f"{devices.problem} Recordings and typed text work without it.",
            "For a microphone here install PortAudio: sudo apt-get install libportaudio2 (Debian, Ubuntu)",
        )
    parts = [f"microphone: {devices.microphone or 'none'}", f"loudspeaker: {devices.loudspeaker or 'none'}"]
    complete = devices.microphone is not None and devices.loudspeaker is not None
    return Finding("Sound", "ok" if complete else "info", ", ".join(parts))


def check_server(settings: Settings, *, transport: httpx2.BaseTransport | None = None) -> Finding:
    """The running server, or whether its port is free for one."""
    run = read_run_file(settings.data_dir)
    if run is not None:
        return _check_running(run, transport)
    if settings.port == 0:
        return Finding("Server", "info", "not running; any free port will do", f"{own_command()} serve")
    try:
        # Bound as the server will bind it, and let go at once.
        with socket.create_server((settings.host, settings.port), family=_family(settings.host)):
            pass
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            todo = f"Stop that program, or choose another port: {own_command()} serve --port 0"
            return Finding("Server", "fail", f"not running; port {settings.port} is used by another program", todo)
        todo = "Set another address or port: STACKCHAN_HOST, STACKCHAN_PORT"
        return Finding("Server", "fail", f"cannot listen on {settings.host}:{settings.port} ({error.strerror})", todo)
    return Finding("Server", "info", f"not running; port {settings.port} is free", f"{own_command()} serve")


def check_hub(transport_timeout_seconds: float = 3.0) -> Finding:
    """Whether the model hub can be reached, for a better model than the package index has."""
    from server.engines.catalogue import load_catalogue
    from server.engines.hub import Hub, HubMiss

    hub = Hub(transport_timeout_seconds)
    known = next(file for entry in load_catalogue() for file in entry.files if file.hub is not None)
    try:
        hub.locate(known)
    except HubMiss:
        if hub.down_reason is not None:
            return Finding("Model hub", "info", f"{hub.down_reason}; the models come from the package index")
    return Finding("Model hub", "ok", "in reach")


def _check_running(run: RunFile, transport: httpx2.BaseTransport | None) -> Finding:
    who = f"process {run.pid} at {run.url}"
    try:
        # Without the token it does not say why it could not start.
        headers = {"Authorization": f"Bearer {run.token}"}
        verify = trusting(Path(run.certificate)) if run.certificate else True
        with httpx2.Client(
            base_url=run.url, headers=headers, timeout=5.0, trust_env=False, transport=transport, verify=verify
        ) as client:
            health = mapping(client.get("/healthz").json())
            ready = mapping(client.get("/readyz").json())
    except (httpx2.TransportError, httpx2.InvalidURL, ConfigError, ValueError):
        return Finding(
            "Server", "fail", f"{who} does not answer", f"Stop it (kill {run.pid}), then: {own_command()} serve"
        )
    version, state = health.get("version"), ready.get("status")
    detail = f"{who}, version {version}, {state}"
    if state == "failed":
        error = mapping(ready.get("error"))
        todo = f"Stop it (kill {run.pid}), put this right, start it again"
        return Finding("Server", "fail", f"{detail}: {error.get('message', '')}", todo)
    if version != __version__:
        return Finding("Server", "warn", f"{detail} (this is {__version__})", "Restart it to run this version.")
    return Finding("Server", "ok", detail)


def _beginning(answer: httpx2.Response) -> bytes:
    """The body, or as much of it as may come. Raises `httpx2.ReadTimeout` when it drips."""
    body = bytearray()
    end = time.monotonic() + _BODY_SECONDS
    for piece in answer.iter_bytes():
        body += piece
        if len(body) >= _BODY_BYTES:
            break
        if time.monotonic() > end:
            raise httpx2.ReadTimeout("the list of models does not come to its end", request=answer.request)
    return bytes(body[:_BODY_BYTES])


def _listed_models(body: bytes) -> list[str] | None:
    """The names in an endpoint's list of models; None when it is no such list."""
    from server.engines.http_client import names_in

    try:
        listed = mapping(json.loads(body)).get("data")
    except (ValueError, RecursionError):
        return None
    return names_in(listed)


def _correct(problem: StackChanError) -> str:
    """The first of the mistakes to put right, with the place."""
    return f"Correct {problem.message.splitlines()[0]}" + (f" {problem.hint}" if problem.hint else "")


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


_MODEL_STATES = {
    "ok": "here and proven",
    "here": "here",
    "unverified": "here, not proven yet",
    "missing": "missing",
    "wrong": "not the right file",
}


def _gigabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB"
