"""Reading a LoCoMo file defensively: turns, ready-made observations and questions of each conversation.

The data is CC BY-NC and stays where its owner put it. Evidence is written in several broken ways there ("D8:6; D9:17",
"D:11:26", "D"); what names no turn of the conversation is counted and left out. Knows no ranking.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WINDOW_TURNS = 4
_TURN_ID = re.compile(r"D?:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_TOKENS_PER_WORD = 1.3


@dataclass(frozen=True, slots=True)
class Turn:
    turn_id: str
    session: int
    speaker: str
    said_on: dt.date
    text: str
    """`Speaker: words`, with the caption of a picture that was shown."""

    @property
    def tokens(self) -> float:
        return len(self.text.split()) * _TOKENS_PER_WORD


@dataclass(frozen=True, slots=True)
class Observation:
    summary: str
    speaker: str
    turns: tuple[int, ...]
    """Places in `Conversation.turns`."""


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    category: int
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class Conversation:
    name: str
    speakers: tuple[str, ...]
    turns: tuple[Turn, ...]
    observations: tuple[Observation, ...]
    questions: tuple[Question, ...]
    windows: tuple[tuple[int, ...], ...]
    """Four turns each within one session, one beginning at every turn that has three after it."""
    unreadable_evidence: int
    without_evidence: int
    """Questions that could not be counted."""

    def window_text(self, window: tuple[int, ...]) -> str:
        return "\n".join(self.turns[index].text for index in window)


def read(path: Path) -> list[Conversation]:
    """Every conversation of the file. Raises `OSError`, `ValueError` when it is no LoCoMo file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, list) or not all(isinstance(item, dict) and "conversation" in item for item in data):
        raise ValueError(f"{path} is not a LoCoMo file: a list of conversations was expected.")
    return [_conversation(item, str(item.get("sample_id", number))) for number, item in enumerate(data, 1)]


def _conversation(item: dict[str, Any], name: str) -> Conversation:
    said = item["conversation"]
    sessions = sorted(
        (int(found[1]), turns)
        for key, turns in said.items()
        if (found := _SESSION.fullmatch(key)) and isinstance(turns, list)
    )
    turns: list[Turn] = []
    windows: list[tuple[int, ...]] = []
    for session, lines in sessions:
        day = _day(str(said.get(f"session_{session}_date_time", "")))
        first = len(turns)
        turns += [_turn(line, session, day) for line in lines]
        last = len(turns)
        windows += [
            tuple(range(start, min(start + WINDOW_TURNS, last)))
            for start in range(first, max(first + 1, last - WINDOW_TURNS + 1))
        ]
    places = {turn.turn_id: index for index, turn in enumerate(turns)}
    observations = [
        Observation(str(entry[0]), str(speaker), found)
        for session in (item.get("observation") or {}).values()
        for speaker, entries in session.items()
        for entry in entries
        if isinstance(entry, list) and len(entry) >= 2 and (found := _places(entry[1:], places)[0])
    ]
    questions, unreadable, without = [], 0, 0
    for asked in item.get("qa") or []:
        evidence, lost = _places(asked.get("evidence") or [], places)
        unreadable += lost
        if not evidence:
            without += 1
            continue
        questions.append(Question(str(asked["question"]), int(asked["category"]), frozenset(evidence)))
    speakers = tuple(str(said[key]) for key in ("speaker_a", "speaker_b") if key in said)
    return Conversation(
        name, speakers, tuple(turns), tuple(observations), tuple(questions), tuple(windows), unreadable, without
    )


def _turn(line: dict[str, Any], session: int, day: dt.date) -> Turn:
    text = f"{line['speaker']}: {line.get('text', '')}"
    if caption := line.get("blip_caption"):
        text += f" [picture: {caption}]"
    return Turn(_plain_id(str(line["dia_id"])), session, str(line["speaker"]), day, text)


def _places(named: Any, places: dict[str, int]) -> tuple[tuple[int, ...], int]:
    """The places of the turns named in any nest of texts, and how many texts named none."""
    if isinstance(named, list):
        found = [_places(one, places) for one in named]
        return tuple(dict.fromkeys(place for some, _ in found for place in some)), sum(lost for _, lost in found)
    ids = [f"{int(session)}:{int(turn)}" for session, turn in _TURN_ID.findall(str(named))]
    known = tuple(dict.fromkeys(places[one] for one in ids if one in places))
    return known, 0 if known else 1


def _plain_id(dia_id: str) -> str:
    found = _TURN_ID.search(dia_id)
    return f"{int(found[1])}:{int(found[2])}" if found else dia_id


def _day(written: str) -> dt.date:
    """`1:56 pm on 8 May, 2023`."""
    return dt.datetime.strptime(written.split(" on ")[-1].replace(",", ""), "%d %B %Y").date()
