"""What people say in the tests of making memories, and what the scripted summarizer notes down of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from server.engines.base import LlmRequest
from tests.memory.making import note

BOUGHT = "昨日、富士通のパソコンを三万円で買ったよ"
NOTES = {
    BOUGHT.replace("昨日", "昨日(2026年11月29日)"): [
        note("昨日、富士通のパソコンを30,000円で買った。", "富士通", "パソコン")
    ],
    "富士通のパソコン、違う、二万五千円だった": [note("富士通のパソコンを25,000円で買った。", "富士通", "パソコン")],
    "富士通のパソコンは二万五千円だったんだよね": [note("富士通のパソコンを25,000円で買った。", "パソコン", "富士通")],
    "猫のコムギが家に来た": [note("猫のコムギが家に来た。", "コムギ")],
    "辛いものが好き": [note("辛いものが好き。", memory_type="preference")],
    "辛いものは好きじゃない": [note("辛いものは好きじゃない。", memory_type="preference")],
    "コムギは三歳": [note("コムギは5歳。", "コムギ", "ミケ", memory_type="fact")],
    "I bought a used Fujitsu desktop for thirty thousand yen": [
        note("The user bought a used Fujitsu desktop for 30,000 yen.", "Fujitsu")
    ],
    "No, actually the Fujitsu desktop was 25,000 yen": [
        note("The used Fujitsu desktop was 25,000 yen.", "Fujitsu", memory_type="fact")
    ],
}


def summaries(said: list[str], request: LlmRequest) -> Sequence[Mapping[str, Any]]:
    found = []
    for place, text in enumerate(said, start=1):
        found += [{**one, "about": [place]} for one in NOTES.get(text, [])]
    return found


def summary_of(found: Sequence[Any], status: str = "active") -> list[str]:
    return [one.summary for one in found if one.status == status]


def files_with(folder: Path, *secrets: str) -> list[str]:
    contents = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return [name for name, content in contents.items() if any(secret.encode() in content for secret in secrets)]
