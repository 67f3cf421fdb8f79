"""Which of the prompts that were read is gone on with, which is copied, and which are let go."""

from __future__ import annotations

import pytest

from server.engines.llm.beginnings import common_length
from server.engines.llm.kept_prompts import KeptPrompts

pytestmark = pytest.mark.unit

PERSONA = list(range(1000, 1400))
ONE, OTHER = list(range(2000, 2600)), list(range(3000, 3600))


class FakeState:
    """Ten bytes a token."""

    def __init__(self, tokens=(), croppable=True):
        self.tokens = list(tokens)
        self.croppable = croppable

    @property
    def size_bytes(self):
        return 10 * len(self.tokens)

    def crop(self, length):
        assert self.croppable
        del self.tokens[length:]

    def copy(self, length):
        return FakeState(self.tokens[:length] if self.croppable else self.tokens, self.croppable)


def shelf(most_tokens=100_000, croppable=True):
    return KeptPrompts(lambda: FakeState(croppable=croppable), most_bytes=10 * most_tokens)


def read(kept, prompt, written=()):
    """Read a whole prompt and write on; how many of its tokens were saved."""
    state = kept.take(prompt)
    saved = len(state.tokens)
    assert state.tokens == prompt[:saved]
    state.tokens[saved:] = [*prompt[saved:], *written]
    kept.put(state)
    return saved


def test_common_beginnings():
    assert common_length([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common_length([1, 2], [1, 2, 3]) == common_length([1, 2, 3], [1, 2]) == 2
    assert common_length([], [1]) == common_length([2], [1]) == 0


def test_the_next_turn_reads_only_what_is_new():
    kept = shelf()
    prompt = [*PERSONA, *ONE]
    assert read(kept, prompt, written=[1, 2, 3]) == 0
    assert read(kept, [*prompt, 1, 2, 9, 9]) == len(prompt) + 2
    assert read(kept, [*prompt, 5]) == len(prompt)


def test_the_last_token_is_always_read_again():
    kept = shelf()
    read(kept, PERSONA)
    assert read(kept, PERSONA) == len(PERSONA) - 1


def test_a_prompt_without_anything_in_common_begins_anew():
    kept = shelf()
    read(kept, ONE)
    assert read(kept, OTHER) == 0
    assert read(kept, [*ONE, 1]) == len(ONE)


def test_another_conversation_gets_a_copy_of_what_is_shared():
    kept = shelf()
    assert read(kept, [*PERSONA, *ONE]) == 0
    assert read(kept, [*PERSONA, *OTHER]) == len(PERSONA)
    assert read(kept, [*PERSONA, *ONE, 1]) == len(PERSONA) + len(ONE)
    assert read(kept, [*PERSONA, *OTHER, 1]) == len(PERSONA) + len(OTHER)


@pytest.mark.parametrize("croppable", [True, False])
def test_the_stable_prefix_and_the_newest_prompt_stay_when_there_is_no_room(croppable):
    kept = shelf(most_tokens=1, croppable=croppable)
    kept.put(FakeState(PERSONA, croppable), stable=True)
    assert read(kept, [*PERSONA, *ONE]) == len(PERSONA)
    assert read(kept, [*PERSONA, *ONE, 1]) == len(PERSONA) + len(ONE)
    assert read(kept, [*PERSONA, *OTHER]) == len(PERSONA)
    assert read(kept, OTHER) == 0
    assert read(kept, [*PERSONA, *ONE]) == len(PERSONA)


def test_the_oldest_goes_first():
    kept = shelf(most_tokens=1300)
    summary = list(range(9000, 9600))
    read(kept, ONE)
    read(kept, OTHER)
    read(kept, summary)
    assert kept.take([*ONE, 1]).tokens == []
    assert read(kept, [*OTHER, 1]) == len(OTHER)
    assert read(kept, [*summary, 1]) == len(summary)


def test_a_new_stable_prefix_replaces_the_old_one():
    kept = shelf(most_tokens=1)
    kept.put(FakeState(ONE), stable=True)
    kept.put(FakeState(OTHER), stable=True)
    read(kept, PERSONA)
    assert read(kept, [*ONE, 1]) == 0
    assert read(kept, [*OTHER, 1]) == len(OTHER)


def test_what_cannot_be_cropped_is_only_gone_on_with():
    kept = shelf(croppable=False)
    read(kept, [*PERSONA, *ONE])
    assert read(kept, [*PERSONA, 1, 2]) == 0
    assert read(kept, [*PERSONA, *ONE, 3]) == len(PERSONA) + len(ONE)
    assert read(kept, [*PERSONA, *ONE, 4]) == len(PERSONA) + len(ONE)


def test_nothing_read_is_nothing_kept_and_everything_can_be_forgotten():
    kept = shelf()
    kept.put(FakeState())
    read(kept, ONE)
    kept.put(FakeState(PERSONA), stable=True)
    kept.clear()
    assert read(kept, [*ONE, 1]) == read(kept, [*PERSONA, 1]) == 0
