"""What the page's files promise, without a browser: nothing inline, nothing from elsewhere, all translated."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from server.api.metrics import error_codes
from server.next_steps import NEXT_STEPS

pytestmark = pytest.mark.unit

WEB = Path(__file__).parents[2] / "server" / "web"
FILES = sorted(WEB.iterdir())


def texts() -> dict[str, list[str]]:
    lines = re.findall(r'^ {2}("[\w.]+"): (\[.*\]),$', (WEB / "text.js").read_text(encoding="utf-8"), re.MULTILINE)
    return {json.loads(key): json.loads(value) for key, value in lines}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    addresses = re.findall(r"(?:https?:)?//[\w-]+\.[\w./-]+", path.read_text(encoding="utf-8"))
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}


def test_the_page_has_no_inline_script_style_or_handler() -> None:
    page = (WEB / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", page) == []


def test_files_the_page_names_exist() -> None:
    page = (WEB / "index.html").read_text(encoding="utf-8")
    modules = "".join(path.read_text(encoding="utf-8") for path in FILES if path.suffix == ".js")
    named = re.findall(r'(?:src|href)="([^"]+)"', page) + re.findall(r'from "\./([^"]+)"', modules)
    named += re.findall(r'new URL\("([^"]+)", import', modules)
    assert "microphone-worklet.js" in named
    assert [name for name in named if not (WEB / name).is_file()] == []
    assert {path.name for path in FILES} - {"index.html"} == set(named)


def test_server_words_enter_as_text_only() -> None:
    scripts = "".join(path.read_text(encoding="utf-8") for path in FILES if path.suffix == ".js")
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", scripts) == []


def test_every_word_exists_in_both_languages() -> None:
    for key, words in texts().items():
        assert len(words) == 2, key
        assert all(words), key
        holes = [sorted(re.findall(r"\{\w+\}", each)) for each in words]
        assert holes[0] == holes[1], key


def test_every_word_asked_for_exists() -> None:
    page = (WEB / "index.html").read_text(encoding="utf-8")
    app = "".join(path.read_text(encoding="utf-8") for path in FILES if path.suffix == ".js" and path.name != "text.js")
    asked = re.findall(r'data-t(?:-label|-placeholder)?="([^"]+)"', page) + re.findall(r'\btext\("([\w.]+)"', app)
    asked += [f"error.{code}" for code in re.findall(r'"((?:mic|sound)_\w+)"', app)]
    asked += [f"server.{state}" for state in re.findall(r'showServer\("(\w+)"', app)]
    asked += [f"again.{state}" for state in ("waiting", "replaced", "refused")]
    asked += [f"state.{state}" for state in ("listening", "thinking", "speaking")]
    asked += re.findall(r'say\((?:\$\("[^"]*"\)[^,"]*|\w+|add\([^()]*\)), "([\w.]+)"', app)
    asked += [f"error.{code}" for code in re.findall(r'new Problem\("(\w+)"\)', app)]
    asked += re.findall(r'"(trace\.\w+)"', (WEB / "waterfall.js").read_text(encoding="utf-8"))
    asked += [f"trace.{name}" for name in ("silence", "receive", "queued", "vad", "asr", "llm", "tool", "tts")]
    asked += [f"trace.{name}" for name in ("words_stored", "first_token", "first_clause", "first_audio")]
    assert len(asked) > 20
    assert sorted(set(asked) - set(texts())) == []


def test_every_error_that_a_page_may_meet_has_its_reason_in_japanese() -> None:
    told = dict(re.findall(r'^  (\w+): "([^"]+)",$', (WEB / "reasons.js").read_text(encoding="utf-8"), re.MULTILINE))
    told |= {key.removeprefix("error."): words[1] for key, words in texts().items() if key.startswith("error.")}
    # Of turns, of the live protocol, and of every request; what follows in the table is of commands only.
    of_commands = list(NEXT_STEPS)[list(NEXT_STEPS).index("usage") :]
    of_files = ("backup_", "import_", "export_", "rebuild_", "memory_missing")
    met = [code for code in NEXT_STEPS if code not in of_commands and not code.startswith(of_files)]
    assert sorted((set(met) | error_codes()) - set(told)) == []
    for code, reason in told.items():
        assert re.search(r"[\u3041-\u30ff\u4e00-\u9fff]", reason), code
        assert reason.endswith(("。", "）")), code


def test_the_emotions_and_actions_of_the_default_persona_have_words() -> None:
    emotions = ["neutral", "happy", "sad", "angry", "doubt", "sleepy", "surprised"]
    actions = ["nod", "shake", "look_left", "look_right", "look_up", "look_down", "tilt", "dance", "sleep"]
    wanted = {f"emotion.{name}" for name in emotions} | {f"action.{name}" for name in actions}
    assert wanted <= set(texts())
