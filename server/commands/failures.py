"""How a command may fail, and the exit code of each way.

Errors of the server's own tree count as "failed"; the ones here exist only on the command line. Knows no terminal.
"""

from __future__ import annotations

from enum import IntEnum

from server.errors import StackChanError


class ExitCode(IntEnum):
    """What `stackchan` returns to the shell; part of its interface."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_SERVER = 3
    REFUSED = 4


class UsageFailure(StackChanError):
    """The arguments make no sense together, or name something that is not there."""

    default_code = "usage"


class NoServerError(StackChanError):
    """No server runs for this data folder, or none answers at the address."""

    default_code = "server_not_running"


class RefusedError(StackChanError):
    """The server answered no. `status`: HTTP; `body`: its whole JSON answer, for `--json`."""

    default_code = "refused"

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        hint: str | None = None,
        retryable: bool = False,
        body: object = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, retryable=retryable)
        self.status = status
        self.body = body


class PortError(StackChanError):
    """The address cannot be listened on. Codes: `port_in_use`, `port_forbidden`, `host_invalid`."""

    default_code = "port_in_use"


class SoundError(StackChanError):
    """No microphone or loudspeaker can be used at this computer."""

    default_code = "sound_unavailable"


def exit_code_of(error: StackChanError) -> ExitCode:
    """The exit code for an error that ends a command."""
    if isinstance(error, UsageFailure):
        return ExitCode.USAGE
    if isinstance(error, NoServerError):
        return ExitCode.NO_SERVER
    if isinstance(error, RefusedError):
        return ExitCode.REFUSED
    return ExitCode.FAILED
