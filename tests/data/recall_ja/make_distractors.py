"""Writes `distractors.jsonl`: 2,000 made-up household memories that stand in the way of the right ones.

Deterministic: the same seed gives the same bytes. The templates of `distractor_parts.json` are filled in turn from its
word lists; a filled one is dropped when `asked_pairs.json` says it could answer a question. Knows nothing of the
server: standard library only.

Run it from anywhere: `python tests/data/recall_ja/make_distractors.py`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SEED = 20261130
COUNT = 2000
ATTEMPTS_PER_MEMORY = 200

# Memories of the household itself end before the first conversation, so that no "last month" or "tomorrow" finds them.
OWN_FIRST, OWN_LAST = date(2025, 9, 1), date(2026, 2, 10)
OTHERS_FIRST, OTHERS_LAST = date(2025, 4, 1), date(2026, 11, 14)

# Slots that hold no name of anything.
NOT_ENTITIES = frozenset({"coat", "weekday", "colour", "body"})


class Template(NamedTuple):
    """One way to say a memory; each `{slot}` is filled."""

    domain: str
    memory_type: str
    topic: str
    summary: str

    @property
    def others(self) -> bool:
        """Whether it is about somebody outside the household."""
        return "{who}" in self.summary


def pick(rng: random.Random, words: Sequence[str]) -> str:
    """One of `words`. Only `random()` is promised to stay the same between versions of Python."""
    return words[int(rng.random() * len(words))]


def between(rng: random.Random, low: int, high: int) -> int:
    return low + int(rng.random() * (high - low + 1))


def price(yen: int) -> str:
    """As it is said and heard: 4万9800円, 980円."""
    tens_of_thousands, rest = divmod(yen, 10_000)
    return (f"{tens_of_thousands}万" if tens_of_thousands else "") + (f"{rest}円" if rest else "円")


def fill(rng: random.Random, template: Template, parts: dict[str, Any]) -> tuple[dict[str, str], date]:
    """A value for every slot a template may use, and the day it happened."""
    first, last = (OTHERS_FIRST, OTHERS_LAST) if template.others else (OWN_FIRST, OWN_LAST)
    day = first + timedelta(days=between(rng, 0, (last - first).days))
    name = pick(rng, parts["outsiders"])
    slots = {slot: pick(rng, words) for slot, words in parts["words"].items()}
    slots |= {
        "name": name,
        "relation": pick(rng, parts["relations"]),
        "who": name,
        "date": f"{day.year}年{day.month}月{day.day}日",
        "monthday": f"{between(rng, 1, 12)}月{between(rng, 1, 28)}日",
        "time": f"{between(rng, 8, 19)}時{pick(rng, ('', '半', '15分', '45分'))}",
        "price": price(between(rng, 100, 2500) * 100),
        "fee": price(between(rng, 6, 199) * 50),
        "ram": pick(rng, ("4", "8", "16", "32", "64", "128")),
        "kilo": f"{between(rng, 2, 7)}.{between(rng, 1, 9)}",
        "fishtaste": pick(rng, ("まぐろ", "ささみ", "白身魚", "かつお", "チキン", "鮭")),
        "years": str(between(rng, 1, 6)),
        "klass": str(between(rng, 1, 5)),
        "number": str(between(rng, 2, 30)),
        "few": str(between(rng, 2, 9)),
        "minutes": str(between(rng, 10, 95)),
        "pressure": str(between(rng, 105, 165)),
        "shoe": f"{between(rng, 22, 29)}.{pick(rng, ('0', '5'))}",
        "degree": str(between(rng, 22, 29)),
        "phone": f"{between(rng, 1000, 9999)}",
    }
    return slots, day


def answers_a_question(text: str, outsider: bool, rules: dict[str, Any]) -> bool:
    """Whether the rules forbid this text: a name that is asked about, or somebody with what is asked of them."""
    if any(name in text for name in rules["specific_names"]):
        return True
    if outsider:
        return False
    if any(name in text for name in rules["public_names"]):
        return True
    return any(
        any(entity in text for entity in pair["entities"]) and any(word in text for word in pair["attributes"])
        for pair in rules["pairs"]
    )


def memories(parts: dict[str, Any], rules: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`COUNT` different memories, the templates in turn. RuntimeError when a template has no new one left."""
    rng = random.Random(SEED)
    templates = [Template(**template) for template in parts["templates"]]
    names = ({"name", "who"} | set(parts["words"])) - NOT_ENTITIES
    seen: set[str] = set()
    for index in range(COUNT):
        template = templates[index % len(templates)]
        for _ in range(ATTEMPTS_PER_MEMORY):
            slots, day = fill(rng, template, parts)
            topic, summary = (
                template.topic.format(**slots),
                template.summary.replace("{who}", "{relation}{who}").format(**slots),
            )
            if summary not in seen and not answers_a_question(f"{topic} {summary}", template.others, rules):
                break
        else:
            raise RuntimeError(f"no new memory left for the template {template.summary!r}: give it more words")
        seen.add(summary)
        used = [slot for slot in re.findall(r"{(\w+)}", template.topic + template.summary) if slot in names]
        yield {
            "key": f"d-{index + 1:04d}",
            "topic": topic,
            "summary": summary,
            "entities": list(dict.fromkeys(slots[slot] for slot in used)),
            "memory_type": template.memory_type,
            "occurred_at": f"{day.isoformat()}T{between(rng, 7, 22):02d}:{between(rng, 0, 59):02d}:00+09:00",
            "source_turns": [],
            "speakers": [pick(rng, ("tsumugu", "tokiwa"))],
            "status": "active",
            "superseded_by": None,
            "resolved_dates": [],
        }


def render() -> bytes:
    """The whole file, one memory a line, UTF-8."""
    parts, rules = (
        json.loads((HERE / name).read_text(encoding="utf-8")) for name in ("distractor_parts.json", "asked_pairs.json")
    )
    lines = (json.dumps(memory, ensure_ascii=False, separators=(",", ":")) for memory in memories(parts, rules))
    return "".join(f"{line}\n" for line in lines).encode()


if __name__ == "__main__":
    (HERE / "distractors.jsonl").write_bytes(render())
