"""What schemathesis makes of the API's own document: requests that fit it, and requests that just do not.

Turns its cases into bytes and knows which statuses the document declares for each operation; judges nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode

from tests.soaks.wire import CLOSE, Headers, Malformed, request_bytes, whole

_BATCH = 60
"""Cases of one operation and kind before the next one's turn."""


@dataclass(frozen=True, slots=True)
class ApiCase:
    """A request and the statuses its operation declares."""

    request: Malformed
    declared: frozenset[int]


def api_cases(
    document: dict[str, Any], seed: int, url: str, auth: Headers, device: Callable[[], str]
) -> Iterator[ApiCase]:
    """Cases without end, of every operation in turn, positive and negative ones."""
    chance = random.Random(seed)
    schema = schemathesis.openapi.from_dict(document, config=schemathesis.Config())
    operations = [result.ok() for result in schema.get_all_operations()]
    for round_number in count():
        for operation in operations:
            declared = frozenset(int(status) for status in operation.definition.raw["responses"] if status.isdigit())
            for mode in GenerationMode:
                size = _BATCH if round_number else 10
                for case in _cases(operation, mode, seed + round_number, size):
                    if chance.random() < 0.9:  # else its own token, and nothing behind the door is seen
                        case.headers.pop("Authorization", None)
                    if "turn_id" in case.path_parameters and chance.random() < 0.5:
                        case.path_parameters["turn_id"] = chance.randint(1, 40)
                    wire = _wire(case, url, dict([*auth, ("Device-Id", device()), CLOSE]))
                    if wire is not None:
                        name = f"{mode.value} {operation.method.upper()} {operation.path}"
                        yield ApiCase(whole("api", name, wire, "maybe"), declared)


def _cases(operation: Any, mode: GenerationMode, seed: int, size: int) -> list[Any]:
    found: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=size,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def collect(case: Any) -> None:
        found.append(case)

    try:
        collect()
    except hypothesis.errors.Unsatisfiable:  # an operation that takes nothing has no wrong request
        return found
    return found


def _wire(case: Any, url: str, headers: dict[str, str]) -> bytes | None:
    """A case as bytes; None when it cannot be written as a request at all."""
    own = {name: value for name, value in headers.items() if name not in case.headers}
    try:
        ready = requests.Request(**case.as_transport_kwargs(base_url=url, headers=own)).prepare()
    except (requests.RequestException, UnicodeError, ValueError):
        return None
    body = ready.body or b""
    if not isinstance(body, str | bytes):
        body = b"".join(body)
    fields = [(name, value) for name, value in ready.headers.items() if name.lower() != "content-length"]
    raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    try:
        encoded = [(_latin(name), _latin(value)) for name, value in fields]
        return request_bytes(ready.method or "GET", ready.path_url, [("Host", "x"), *encoded], raw)
    except UnicodeError:
        return None


def _latin(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")
