"""The labelled utterances that judge when memory is searched: balanced, and none close to what a prompt shows.

`search_decision.json` was frozen before any tuning: `dev` chooses, `held_out` only scores.
`search_decision_train.json` may be tuned or trained on, so nothing in it is close to either half.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from server.context.prompts import example_messages
from server.engines.base import LlmCapabilities
from server.memory.tools import SEARCH_MEMORY
from server.persona import default_persona_path, load_persona

pytestmark = pytest.mark.unit

DATA = Path(__file__).parent / "data"
FROZEN_SHA256 = "59bcafcf6fc58ac06b123ce5a5d56f88ce2439420a73d618c38d414001259002"
TOO_CLOSE = 0.8
# A prompt's example says the answer itself: stricter.
TOO_CLOSE_TO_PROMPT = 0.65
HARD_SHARE = 0.4


def read(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def normalised(text):
    """Letters and digits only, as speech recognition may write them either way."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in folded if unicodedata.category(char)[0] in "LN")


def close_pairs(items, texts, limit=TOO_CLOSE):
    """Each item whose text is nearly one of `texts`, with that text; `limit`: the similarity from which it is."""
    others = [(text, normalised(text)) for text in texts]
    found = []
    for item in items:
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(normalised(item["text"]))
        for text, plain in others:
            matcher.set_seq1(plain)
            if matcher.quick_ratio() >= limit and matcher.ratio() >= limit:
                found.append((item["id"], text))
    return found


def shown_texts():
    """What the prompt shows as heard (its examples and the persona's glossary), and the utterances that tune it."""
    shows_all = LlmCapabilities(native_tools=False, max_tools=8, streams=True, context_tokens=8192)
    examples = example_messages(load_persona(default_persona_path()), shows_all, (SEARCH_MEMORY,))
    shown = [message.content for message in examples if message.role == "user"]
    for name in ("commands_and_feelings.json", "commands_and_feelings_dev.json"):
        shown += [item["text"] for group in read(name).values() if isinstance(group, list) for item in group]
    return shown


FROZEN = read("search_decision.json")
TRAIN = read("search_decision_train.json")
DEV = [item for item in FROZEN if item["half"] == "dev"]
HELD_OUT = [item for item in FROZEN if item["half"] == "held_out"]


def test_the_measure_finds_a_near_duplicate():
    item = {"id": "x", "text": "左を見て！"}
    assert close_pairs([item], ["左を見てよ"]) == [("x", "左を見てよ")]
    assert close_pairs([item], ["今日は雨だね"]) == []


def test_the_limit_decides_what_is_close():
    item = {"id": "x", "text": "What is nine minus four?"}
    text = "What is ten minus one?"
    assert close_pairs([item], [text]) == []
    assert close_pairs([item], [text], TOO_CLOSE_TO_PROMPT) == [("x", text)]


def test_the_frozen_file_is_as_it_was_frozen():
    # Its text: a checkout may write line ends of its own.
    text = (DATA / "search_decision.json").read_text(encoding="utf-8")
    found = hashlib.sha256(text.encode()).hexdigest()
    assert found == FROZEN_SHA256, "it judges the prompt: write a new file beside it instead of changing it"


def test_the_prompt_shows_something_to_compare_with():
    assert len(shown_texts()) > 100


def cell(item):
    return item["language"], item.get("half", "train"), item["search"]


@pytest.mark.parametrize("item", FROZEN + TRAIN, ids=lambda item: item["id"])
def test_an_utterance_has_its_fields(item):
    half = item.get("half", "train")
    assert set(item) == {"id", "language", "text", "search", "kind"} | ({"half"} if half != "train" else set())
    assert item["id"].startswith(f"{item['language']}-{half[0]}-")
    assert isinstance(item["search"], bool)
    assert item["text"] == item["text"].strip()
    assert item["text"].isascii() == (item["language"] == "en")
    assert item["kind"]


def test_each_part_is_balanced_in_both_languages():
    counts = {"ja": {"dev": 35, "held_out": 35, "train": 80}, "en": {"dev": 25, "held_out": 25, "train": 60}}
    assert Counter(cell(item) for item in FROZEN + TRAIN) == {
        (language, part, search): count
        for language, parts in counts.items()
        for part, count in parts.items()
        for search in (True, False)
    }


def test_four_in_ten_are_hard_in_each_cell():
    cells = Counter(cell(item) for item in FROZEN + TRAIN)
    hard = Counter(cell(item) for item in FROZEN + TRAIN if item["kind"].startswith("hard_"))
    assert {key: hard[key] / count for key, count in cells.items()} == dict.fromkeys(cells, HARD_SHARE)


def test_no_kind_stands_on_both_sides():
    searched = {item["kind"] for item in FROZEN + TRAIN if item["search"]}
    assert not searched & {item["kind"] for item in FROZEN + TRAIN if not item["search"]}


def test_ids_and_texts_are_unique():
    everything = FROZEN + TRAIN
    assert len({item["id"] for item in everything}) == len(everything)
    assert len({normalised(item["text"]) for item in everything}) == len(everything)


def test_no_frozen_utterance_is_close_to_what_the_prompt_shows():
    assert close_pairs(FROZEN, shown_texts(), TOO_CLOSE_TO_PROMPT) == []


def test_the_halves_are_not_close_to_each_other():
    assert close_pairs(DEV, [item["text"] for item in HELD_OUT]) == []


def test_no_training_utterance_is_close_to_a_frozen_one():
    assert close_pairs(TRAIN, [item["text"] for item in FROZEN]) == []
