"""In which slot a prompt is read: conversations that take turns keep what was read of each."""

from __future__ import annotations

import pytest

from server.engines.llm.prompt_slots import PromptSlots

pytestmark = pytest.mark.unit

PREFIX = [{"role": "system", "content": "君はロボット。"}, {"role": "user", "content": "やあ"}]


DAY, TIME = ({"role": "system", "content": text} for text in ("今日は7月24日。", "今は6時29分。"))


def talk(*said):
    """A prompt: what was said before, and the newest words after the time."""
    before = [{"role": "user", "content": word} for word in said[:-1]]
    return [*PREFIX, DAY, *before, TIME, {"role": "user", "content": said[-1]}]


def other(word):
    return [{"role": "system", "content": f"Summarise: {word}"}]


def test_two_conversations_that_take_turns_have_a_slot_each():
    slots = PromptSlots(2)
    slots.begin(PREFIX, ready=2)
    kitchen, study = slots.choose(talk("おはよう")), slots.choose(talk("Good morning"))
    assert {kitchen, study} == {0, 1}
    for turn in range(4):
        assert slots.choose(talk("おはよう", *(f"k{n}" for n in range(turn)))) == kitchen
        assert slots.choose(talk("Good morning", *(f"s{n}" for n in range(turn)))) == study


def test_a_third_conversation_takes_the_slot_unused_longest():
    slots = PromptSlots(2)
    slots.begin(PREFIX, ready=2)
    first, second = slots.choose(talk("a")), slots.choose(talk("b"))
    slots.choose(talk("a", "more"))
    assert slots.choose(talk("c")) == second
    assert slots.choose(talk("a", "more", "and more")) == first
    assert slots.choose(talk("b", "again")) == second


def test_what_is_no_conversation_has_a_slot_of_its_own():
    slots = PromptSlots(2)
    slots.begin(PREFIX, ready=2)
    held = slots.choose(talk("a"))
    assert [slots.choose(other(word)) for word in ("x", "y", "x")] == [2, 2, 2]
    assert slots.choose([]) == 2
    assert slots.choose(PREFIX[:1]) == 2
    assert slots.choose(talk("a", "more")) == held


def test_a_slot_that_has_not_read_the_prefix_is_not_used():
    slots = PromptSlots(3)
    slots.begin(PREFIX, ready=1)
    assert [slots.choose(talk(word)) for word in ("a", "b", "c")] == [0, 0, 0]
    slots.begin(PREFIX, ready=3)
    assert {slots.choose(talk(word)) for word in ("a", "b", "c")} == {0, 1, 2}


def test_before_a_prefix_is_known_everything_goes_into_the_first_slot():
    slots = PromptSlots(2)
    assert [slots.choose(one) for one in (other("x"), talk("a"), other("y"))] == [0, 0, 0]


def test_another_prefix_forgets_what_was_read():
    slots = PromptSlots(2)
    slots.begin(PREFIX, ready=2)
    slots.choose(talk("a"))
    slots.begin(other("new")[:1], ready=2)
    assert slots.choose(talk("a", "more")) == 2
    assert slots.choose([*other("new"), *talk("a")]) == 0


def test_what_every_prompt_says_of_the_day_makes_no_conversation():
    slots = PromptSlots(2)
    slots.begin(PREFIX, ready=2)
    first = slots.choose(talk("おはよう"))
    # The day is read in the first slot already, and yet this is somebody else.
    assert slots.choose(talk("Good morning")) != first
    ahead = [*PREFIX, DAY, {"role": "user", "content": "おはよう"}, {"role": "user", "content": ""}]
    assert slots.choose(ahead) == first


def test_small_talk_that_two_conversations_share_confuses_them_not():
    slots = PromptSlots(2)
    slots.begin(PREFIX, ready=2)
    first, second = slots.choose(talk("犬が走った")), slots.choose(talk("The sea is blue"))
    assert slots.choose(talk("犬が走った", "いいね。", "そう")) == first
    assert slots.choose(talk("The sea is blue", "いいね。", "そう")) == second
    assert slots.choose(talk("犬が走った", "いいね。", "そう", "うん。", "ねえ")) == first


def test_a_window_that_has_moved_on_is_the_same_conversation():
    slots = PromptSlots(2)
    slots.begin(PREFIX, ready=2)
    first, second = slots.choose(talk("a", "b", "c", "d")), slots.choose(talk("e", "f", "g", "h"))
    assert slots.choose(talk("g", "h", "i")) == second
    assert slots.choose(talk("c", "d", "e")) == first


def test_a_model_without_a_slot_for_talk_is_none():
    with pytest.raises(ValueError, match="slot"):
        PromptSlots(0)
