"""The documents say what is true: error codes they name exist, and both READMEs tell the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.api.problems import status_of
from server.errors import (
    AudioError,
    AuthError,
    BusyError,
    GoneError,
    NotFoundError,
    OverloadError,
    RequestError,
    StackChanError,
    StorageError,
)

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "server").rglob("*.py")))
KINDS: dict[int, tuple[type[StackChanError], ...]] = {
    400: (RequestError,),
    401: (AuthError,),
    403: (AuthError,),
    404: (NotFoundError,),
    405: (RequestError,),
    408: (RequestError,),
    409: (BusyError,),
    410: (GoneError,),
    413: (AudioError, RequestError),
    415: (AudioError, RequestError),
    422: (AudioError, RequestError),
    429: (OverloadError,),
    503: (StackChanError,),
    507: (StorageError,),
    500: (StackChanError,),
}
# README: the first cell of a row of the table of troubles. http-api.md: status, then codes.
README_ROW = re.compile(r"^\| ((?:outcome )?`[a-z_]+`[^|]*) \|", re.MULTILINE)
STATUS_ROW = re.compile(r"^\| (\d{3}) \| ([^|]+) \|", re.MULTILINE)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def readme_codes(name: str) -> list[str]:
    troubles = text(name).partition("stackchan doctor`")[2].partition("\n## ")[0]
    return [code for row in README_ROW.findall(troubles) for code in re.findall(r"`([a-z_]+)`", row)]


def status_codes() -> list[tuple[int, str]]:
    rows = STATUS_ROW.findall(text("docs/http-api.md"))
    return [(int(status), code) for status, codes in rows for code in re.findall(r"`([a-z_]+)`", codes)]


def test_the_tables_are_found() -> None:
    assert len(readme_codes("README.md")) > 15
    assert {status for status, _ in status_codes()} == set(KINDS)


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_error_codes_of_a_readme_exist(name: str) -> None:
    assert [code for code in readme_codes(name) if f'"{code}"' not in SOURCES] == []


def test_both_readmes_tell_the_same() -> None:
    # A page that is there in both languages is linked in the reader's.
    english, japanese = text("README.md"), text("README.ja.md").replace(".ja.md)", ".md)")
    assert readme_codes("README.md") == readme_codes("README.ja.md")
    for block in (r"^```(?:bash|json)?\n(.*?)^```", r"\]\((?!README)([^)]+)\)", r"(STACKCHAN_[A-Z_]+)"):
        found = [sorted(set(re.findall(block, each, re.MULTILINE | re.DOTALL))) for each in (english, japanese)]
        assert found[0] == found[1], block
    assert len(re.findall(r"^## ", english, re.MULTILINE)) == len(re.findall(r"^## ", japanese, re.MULTILINE))


@pytest.mark.parametrize(("status", "code"), status_codes())
def test_an_error_code_has_the_status_that_the_document_says(status: int, code: str) -> None:
    assert f'"{code}"' in SOURCES
    assert status in {status_of(kind(code, code=code)) for kind in KINDS[status] if kind is not OverloadError} or (
        status == 429 and status_of(OverloadError(code)) == 429
    )
