"""What a small model may say after it was to forget something: only what is true."""

from __future__ import annotations

from typing import Any

import pytest

from server.context.forget_replies import replies_to_forgetting
from server.context.prompts import answer_schema
from server.memory.forget_tool import ASK_WHAT, TAKEN_BACK
from server.persona import default_persona_path, load_persona

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("result", "japanese", "english"),
    [
        ({"forgotten": 2}, "わかった、忘れたよ。", "Okay, I have forgotten it."),
        ({"forgotten": 0, "note": "nothing found"}, "それは覚えていないよ。", "I do not remember anything like that."),
        ({"forgotten": 0, "note": ASK_WHAT}, "なにを忘れればいい？", "What shall I forget?"),
        ({"forgotten": 0, "note": TAKEN_BACK}, "わかった、そのままにしておくね。", "All right, I will keep it."),
        (
            {"forgotten": 1, "still_remembered": ["会社のパソコンは八万円。"]},
            "それは忘れたよ。「会社のパソコンは八万円」は覚えているよ。",
            "I forgot it. I still know “会社のパソコンは八万円”.",
        ),
        (
            {
                "forgotten": 0,
                "which": [{"memory_id": "m1", "summary": "赤い自転車。"}, {"turn_id": 3, "text": "Blue bike!"}],
            },
            "どれのこと？「赤い自転車」と「Blue bike」があるよ。",
            "Which one do you mean? There is “赤い自転車” and “Blue bike”.",
        ),
    ],
)
def test_the_reply_says_what_the_result_says(result: dict[str, Any], japanese: str, english: str) -> None:
    assert replies_to_forgetting(result, "ja")[0] == japanese
    assert replies_to_forgetting(result, "en")[0] == english


def test_long_and_many_memories_are_told_in_short() -> None:
    which = [{"summary": f"{number} " + "あ" * 100} for number in range(9)]
    (reply,) = replies_to_forgetting({"forgotten": 0, "which": which}, "ja")
    assert len(reply) < 160
    assert "2 あ" in reply
    assert "3 あ" not in reply


@pytest.mark.parametrize(
    "result", [{}, {"error": "no"}, {"forgotten": "2"}, {"forgotten": 1, "error": "x"}, {"forgotten": None}]
)
def test_a_result_that_is_none_leaves_the_reply_free(result: dict[str, Any]) -> None:
    assert replies_to_forgetting(result, "ja") == ()


@pytest.mark.parametrize("odd", [None, "text", [None, 3, {}, {"summary": None}], [{"summary": " 。"}]])
def test_odd_entries_are_left_out(odd: Any) -> None:
    assert replies_to_forgetting({"forgotten": 1, "still_remembered": odd}, "en")[0] == "Okay, I have forgotten it."


def test_the_schema_holds_the_reply_to_them() -> None:
    persona = load_persona(default_persona_path())
    schema = answer_schema(persona, "ja", None, ("うん、忘れたよ。",))
    assert schema["properties"]["reply"] == {"type": "string", "enum": ["うん、忘れたよ。"]}
    assert "pattern" in answer_schema(persona, "ja")["properties"]["reply"]
