"""Where the server listens: binding with errors that say what to do, and the addresses a robot may use.

Knows sockets and nothing of HTTP.
"""

from __future__ import annotations

import contextlib
import errno
import socket

from server.commands.failures import PortError
from server.commands.terminal import own_command
from server.config import Settings
from server.run_file import read_run_file


def bind(settings: Settings) -> socket.socket:
    """The bound socket. Raises `PortError` saying what to do."""
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise PortError(
            f"{host} is not an address of this machine ({error}).",
            code="host_invalid",
            hint="Use 127.0.0.1 for this machine only, or --lan for the robot's network.",
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Two listeners may bind one address with SO_REUSEADDR; the second one fails here, before models load.
        listener.listen()
    except OSError as error:
        listener.close()
        raise _port_error(error, settings) from error
    return listener


def _port_error(error: OSError, settings: Settings) -> PortError:
    host, port = settings.host, settings.port
    if error.errno == errno.EADDRINUSE:
        run = read_run_file(settings.data_dir)
        if run is not None and run.url.endswith(f":{port}"):
            return PortError(
                f"A StackChan server already runs at {run.url} (process {run.pid}).",
                code="data_in_use",
                hint=f'Talk to it: {own_command()} talk "こんにちは". To stop it: kill {run.pid}',
            )
        return PortError(
            f"Port {port} is already in use by another program.",
            code="port_in_use",
            hint=f"Choose another one: {own_command()} serve --port {port % 65535 + 1} (0: any free one).",
        )
    if error.errno == errno.EACCES:
        return PortError(
            f"Port {port} may not be opened by this user.",
            code="port_forbidden",
            hint=f"Choose one from 1024: {own_command()} serve --port 8000",
        )
    return PortError(
        f"Cannot listen on {host}, port {port}: {error.strerror}.",
        code="host_invalid",
        hint="Use 127.0.0.1 for this machine only, or --lan for the robot's network.",
    )


def http_url(host: str, port: int, *, tls: bool = False) -> str:
    """The address as a browser takes it."""
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def reachable_host(host: str) -> str:
    """An address for programs of this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    return host in ("localhost", "::1") or host.startswith("127.")


def lan_addresses(host: str) -> list[str]:
    """Addresses under which the robot may find a server that listens on `host`, likeliest first."""
    if host not in ("0.0.0.0", "::"):
        return [host]
    found: list[str] = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Sends nothing: it only asks the system which of its addresses leads out of here.
        probe.connect(("192.0.2.1", 9))
        found.append(probe.getsockname()[0])
    with contextlib.suppress(OSError):
        found += [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return [address for address in dict.fromkeys(found) if not is_loopback(address) and address != "0.0.0.0"]
