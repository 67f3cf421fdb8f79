"""The Japanese recall set is what its README says: complete, consistent, and with one right answer a question."""

from __future__ import annotations

import importlib.util
import json
import re
import unicodedata
from collections import Counter
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

DATA = Path(__file__).parent / "data" / "recall_ja"
KINDS = {
    *("name", "number", "date", "relative_date", "correction", "ambiguous", "two_people"),
    *("paraphrase", "asr_misspelling", "never_said", "preference", "decision", "event"),
}
MEMORY_FIELDS = {
    *("key", "topic", "summary", "entities", "memory_type", "occurred_at", "source_turns"),
    *("speakers", "status", "superseded_by", "resolved_dates"),
}
WEEKDAYS = "月火水木金土日"
# Kanji that carry no subject of their own: asking for a time, a person or a thing.
FUNCTION_KANJI = set("何今日時間人行来言見思前後誰")
# So many characters in a row shared with the summary are its wording, not only a name and its particle.
COPIED_CHARS = 11
MIB = 1024 * 1024


def plain(text):
    return unicodedata.normalize("NFKC", text)


def read(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def generator():
    spec = importlib.util.spec_from_file_location("recall_ja_make_distractors", DATA / "make_distractors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONVERSATIONS = read("conversations.json")
TURNS = {f"{one['conversation_id']}:{turn['turn']}": turn for one in CONVERSATIONS for turn in one["exchanges"]}
MEMORIES = {memory["key"]: memory for memory in read("memories.json")}
QUESTIONS = read("questions.json")
ASKED = [question for question in QUESTIONS if question["kind"] != "never_said"]
DISTRACTORS = [json.loads(line) for line in (DATA / "distractors.jsonl").read_text(encoding="utf-8").splitlines()]
RULES = read("asked_pairs.json")
PARTS = read("distractor_parts.json")
SPOKEN = read("spoken_names.json")
NAMES = {speaker["id"]: speaker["name"] for speaker in read("speakers.json")}
LAST_SAID = max(datetime.fromisoformat(turn["at"]) for turn in TURNS.values())

each_memory = pytest.mark.parametrize("memory", MEMORIES.values(), ids=lambda memory: memory["key"])
each_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])


def of_kind(kind):
    chosen = [question for question in QUESTIONS if question["kind"] == kind]
    return pytest.mark.parametrize("question", chosen, ids=lambda question: question["id"])


def source(memory):
    """What people said in a memory's source turns; the robot's lines prove nothing."""
    return plain(" ".join(TURNS[turn]["user"] for turn in memory["source_turns"]))


def said_at(turn_id):
    return datetime.fromisoformat(TURNS[turn_id]["at"])


def resolve(said, spoken_on):
    """The month and day that `said` means on the day it was spoken; a bare month ("先月") has no day."""
    days = {"今日": 0, "昨日": -1, "おととい": -2, "明日": 1}
    if said in days:
        moved = spoken_on + timedelta(days=days[said])
        return moved.month, moved.day
    if week := re.fullmatch(f"(先|今|来)週の([{WEEKDAYS}])曜", said):
        monday = spoken_on - timedelta(days=spoken_on.weekday())
        moved = monday + timedelta(weeks="先今来".index(week[1]) - 1, days=WEEKDAYS.index(week[2]))
        return moved.month, moved.day
    if said in ("先月", "今月"):
        return spoken_on.month - (said == "先月"), None
    if day := re.fullmatch(r"(\d+)日", said):
        near = (spoken_on + timedelta(days=offset) for offset in (*range(0, 45), *range(-1, -28, -1)))
        found = [one for one in near if one.day == int(day[1])]
        return [(one.month, one.day) for one in found]
    raise AssertionError(f"no rule for {said!r}")


def content_overlap(question, text):
    """Kanji and pairs of katakana that the question shares with the text."""
    kanji = {char for char in re.findall("[一-龯]", question) if char not in FUNCTION_KANJI and char in text}
    runs = re.findall("[ァ-ヴー]{2,}", question)
    return kanji | {run[at : at + 2] for run in runs for at in range(len(run) - 1) if run[at : at + 2] in text}


def test_the_conversations_are_long_and_spread_over_the_year():
    assert len(CONVERSATIONS) >= 12
    assert all(len(conversation["exchanges"]) >= 40 for conversation in CONVERSATIONS)
    starts = [datetime.fromisoformat(conversation["session_date"]) for conversation in CONVERSATIONS]
    assert starts == sorted(starts)
    assert {start.month for start in starts} == set(range(3, 12))
    assert len({start.hour for start in starts}) >= 8
    assert all(len({turn["speaker"] for turn in one["exchanges"]}) >= 2 for one in CONVERSATIONS)


def test_turn_ids_are_unique_and_times_run_forward():
    assert len(TURNS) == sum(len(conversation["exchanges"]) for conversation in CONVERSATIONS)
    for conversation in CONVERSATIONS:
        assert [turn["turn"] for turn in conversation["exchanges"]] == list(
            range(1, len(conversation["exchanges"]) + 1)
        )
        times = [datetime.fromisoformat(turn["at"]) for turn in conversation["exchanges"]]
        assert times[0] == datetime.fromisoformat(conversation["session_date"])
        assert all(earlier < later for earlier, later in pairwise(times))
        assert {time.utcoffset() for time in times} == {timedelta(hours=9)}
        assert len({time.date() for time in times}) == 1


def test_every_turn_has_a_known_speaker_and_two_lines():
    for turn in TURNS.values():
        assert set(turn) == {"turn", "speaker", "user", "robot", "at"}
        assert turn["speaker"] in NAMES
        assert turn["user"].strip()
        assert turn["robot"].strip()
    punctuated = [turn for turn in TURNS.values() if re.search("[。、]", turn["user"])]
    assert len(punctuated) < len(TURNS) / 10


def test_every_conversation_has_three_to_seven_memories_and_some_filler():
    counts = Counter(memory["source_turns"][0].partition(":")[0] for memory in MEMORIES.values())
    assert {conversation["conversation_id"] for conversation in CONVERSATIONS} == set(counts)
    assert all(3 <= count <= 7 for count in counts.values())
    remembered = {turn for memory in MEMORIES.values() for turn in memory["source_turns"]}
    assert 0.3 < len(remembered) / len(TURNS) < 0.7


@each_memory
def test_a_memory_has_its_fields(memory):
    assert set(memory) == MEMORY_FIELDS
    assert memory["memory_type"] in {"episode", "preference", "decision", "fact"}
    assert memory["source_turns"] == sorted(memory["source_turns"], key=lambda turn: int(turn.partition(":")[2]))
    assert len({turn.partition(":")[0] for turn in memory["source_turns"]}) == 1
    assert set(memory["speakers"]) == {TURNS[turn]["speaker"] for turn in memory["source_turns"]}
    assert datetime.fromisoformat(memory["occurred_at"]) <= said_at(memory["source_turns"][-1])
    assert 1 <= memory["summary"].count("。") <= 3


@each_memory
def test_what_a_summary_states_was_said(memory):
    said, summary = source(memory), plain(memory["summary"])
    for name in memory["entities"]:
        assert plain(name) in summary
        assert plain(name) in said or name in {NAMES[speaker] for speaker in memory["speakers"]}
    for speaker, name in NAMES.items():
        assert name not in summary or name in said or speaker in memory["speakers"]
    for resolved in memory["resolved_dates"]:
        assert plain(resolved["written"]) in summary
        summary = summary.replace(plain(resolved["written"]), "")
    year = memory["source_turns"] and said_at(memory["source_turns"][0]).year
    summary = re.sub(rf"{year}年(?=\d+月)", "", summary)
    spoken = set(re.findall(r"\d+(?:\.\d+)?", said))
    assert set(re.findall(r"\d+(?:\.\d+)?", summary)) <= spoken
    assert all(count in said for count in re.findall("[一二三四五六七八九十]+[年回杯人匹階連度番日]", summary))


@each_memory
def test_a_relative_date_is_resolved_against_the_day_it_was_said(memory):
    for resolved in memory["resolved_dates"]:
        turn = next(turn for turn in memory["source_turns"] if resolved["said"] in plain(TURNS[turn]["user"]))
        written = re.fullmatch(r"(?:2026年)?(\d+)月(?:(\d+)日)?", plain(resolved["written"]))
        expected = int(written[1]), int(written[2]) if written[2] else None
        meant = resolve(resolved["said"], said_at(turn).date())
        assert expected in meant if isinstance(meant, list) else expected == meant


def test_the_resolver_knows_a_week_from_the_next():
    friday = date(2026, 3, 27)
    assert resolve("来週の金曜", friday) == (4, 3)
    assert resolve("先週の日曜", friday) == (3, 22)
    assert resolve("おととい", friday) == (3, 25)


@each_memory
def test_a_superseded_memory_leads_to_a_later_one_that_is_active(memory):
    assert (memory["status"] == "superseded") == (memory["superseded_by"] is not None)
    assert memory["status"] in {"active", "superseded"}
    followed = memory
    for _ in range(len(MEMORIES)):
        if followed["superseded_by"] is None:
            break
        newer = MEMORIES[followed["superseded_by"]]
        assert said_at(newer["source_turns"][0]) > said_at(followed["source_turns"][-1])
        followed = newer
    assert followed["status"] == "active"


def test_corrections_happen_within_a_conversation_and_across():
    pairs = [(old, MEMORIES[old["superseded_by"]]) for old in MEMORIES.values() if old["superseded_by"]]
    same = [old["source_turns"][0].partition(":")[0] == new["source_turns"][0].partition(":")[0] for old, new in pairs]
    assert len(pairs) >= 10
    assert set(same) == {True, False}


def test_there_are_enough_questions_of_each_kind():
    counts = Counter(question["kind"] for question in QUESTIONS)
    assert len(QUESTIONS) >= 170
    assert set(counts) == KINDS
    assert min(counts.values()) >= 10
    assert counts["never_said"] >= 25
    assert [question["id"] for question in QUESTIONS] == [f"q-{number + 1:03d}" for number in range(len(QUESTIONS))]
    assert len({plain(question["text"]) for question in QUESTIONS}) == len(QUESTIONS)


@each_question
def test_a_question_resolves(question):
    fields = {"id", "text", "asked_on", "kind", "evidence_turns", "memory_keys", "answer"}
    assert set(question) - {"speaker"} == fields
    assert question.get("speaker", "tokiwa") in NAMES
    asked_on = datetime.fromisoformat(question["asked_on"])
    assert asked_on.utcoffset() == timedelta(hours=9)
    assert asked_on > LAST_SAID
    if question["kind"] == "never_said":
        assert question["evidence_turns"] == question["memory_keys"] == []
        return
    behind = {key: set(MEMORIES[key]["source_turns"]) for key in question["memory_keys"]}
    assert behind
    assert question["evidence_turns"]
    assert set(question["evidence_turns"]) <= set().union(*behind.values())
    assert all(turns & set(question["evidence_turns"]) for turns in behind.values())
    assert all(MEMORIES[key]["status"] == "active" for key in behind)


def test_the_numbers_of_an_answer_stand_in_its_memories():
    for question in ASKED:
        summaries = plain(" ".join(MEMORIES[key]["summary"] for key in question["memory_keys"]))
        missing = set(re.findall(r"\d+", plain(question["answer"]))) - set(re.findall(r"\d+", summaries))
        assert (question["id"], missing) == (question["id"], set())


def test_a_question_does_not_repeat_the_summary():
    for question in ASKED:
        text = plain(question["text"])
        parts = {text[at : at + COPIED_CHARS] for at in range(max(1, len(text) - COPIED_CHARS + 1))}
        summaries = plain(" ".join(MEMORIES[key]["summary"] for key in question["memory_keys"]))
        assert (question["id"], [part for part in parts if part in summaries]) == (question["id"], [])


@of_kind("paraphrase")
def test_a_paraphrase_shares_no_content_word(question):
    for key in question["memory_keys"]:
        memory = MEMORIES[key]
        robot = " ".join(TURNS[turn]["robot"] for turn in memory["source_turns"])
        assert (
            content_overlap(question["text"], f"{memory['topic']} {memory['summary']} {source(memory)} {robot}")
            == set()
        )


def test_the_overlap_of_content_is_seen():
    assert content_overlap("猫のナギサは何キロ", "ナギマルの猫は5キロ") == {"猫", "ナギ", "キロ"}
    assert content_overlap("何日に行くの", "何日に行った") == set()


@of_kind("asr_misspelling")
def test_a_misheard_name_is_not_written_as_in_memory(question):
    names = {name for key in question["memory_keys"] for name in MEMORIES[key]["entities"]}
    rare = names & {*RULES["specific_names"], *RULES["public_names"]}
    assert rare
    assert [name for name in rare if name in question["text"]] == []


@of_kind("ambiguous")
def test_an_ambiguous_question_has_several_memories(question):
    assert len(question["memory_keys"]) >= 2


@of_kind("correction")
def test_a_correction_asks_for_a_memory_that_superseded_another(question):
    newer = {memory["superseded_by"] for memory in MEMORIES.values()}
    assert set(question["memory_keys"]) <= newer


def test_the_rules_for_distractors_cover_every_question():
    words = {word for pair in RULES["pairs"] for word in pair["attributes"]}
    words |= {*RULES["specific_names"], *RULES["public_names"]}
    for question in QUESTIONS:
        texts = [question["text"], *(MEMORIES[key]["summary"] for key in question["memory_keys"])]
        assert (question["id"], any(word in text for text in texts for word in words)) == (question["id"], True)


def test_the_rules_name_every_entity_once():
    entities = {name for memory in MEMORIES.values() for name in memory["entities"]}
    groups = [RULES[name] for name in ("household", "public_names", "common_names", "specific_names")]
    assert Counter(name for group in groups for name in group) == dict.fromkeys(entities, 1)


def test_there_are_two_thousand_different_distractors():
    assert len(DISTRACTORS) == 2000
    assert len({memory["key"] for memory in DISTRACTORS}) == 2000
    assert len({memory["summary"] for memory in DISTRACTORS}) == 2000
    assert (DATA / "distractors.jsonl").stat().st_size < MIB
    assert all(set(memory) == MEMORY_FIELDS for memory in DISTRACTORS)
    assert {memory["memory_type"] for memory in DISTRACTORS} == {"episode", "preference", "decision", "fact"}
    assert len(PARTS["templates"]) >= 40
    assert len({template["domain"] for template in PARTS["templates"]}) >= 12


def test_no_distractor_answers_a_question():
    first_said = min(said_at(turn) for turn in TURNS)
    for memory in DISTRACTORS:
        text = memory["topic"] + memory["summary"]
        outsider = any(name in memory["entities"] for name in PARTS["outsiders"])
        assert [name for name in RULES["specific_names"] if name in text] == []
        if outsider:
            continue
        assert [name for name in RULES["public_names"] if name in text] == []
        assert datetime.fromisoformat(memory["occurred_at"]) < first_said
        for pair in RULES["pairs"]:
            if any(name in text for name in pair["entities"]):
                assert [word for word in pair["attributes"] if word in text] == []


def test_no_distractor_says_what_a_memory_says():
    assert not {memory["summary"] for memory in DISTRACTORS} & {memory["summary"] for memory in MEMORIES.values()}
    assert not set(PARTS["outsiders"]) & {name for memory in MEMORIES.values() for name in memory["entities"]}


def test_the_rule_catches_an_answer():
    forbids = generator().answers_a_question
    assert forbids("ナギマルは9キロ", True, RULES)
    assert forbids("つむぐは富士通を買った", False, RULES)
    assert forbids("ときわの靴は24センチ", False, RULES)
    assert not forbids("同僚のミツハの靴は24センチ", True, RULES)


def test_the_generator_writes_the_frozen_file_again():
    assert generator().render() == (DATA / "distractors.jsonl").read_bytes()


def test_spoken_names_offer_the_name_once_among_twenty_words():
    named = [item for item in SPOKEN if item["name"]]
    assert (len(named), len(SPOKEN)) == (45, 60)
    assert len({item["id"] for item in SPOKEN}) == len({item["text"] for item in SPOKEN}) == 60
    assert len({item["name"] for item in named}) == 45
    for item in SPOKEN:
        assert set(item) == {"id", "text", "name", "reading", "hot_words"}
        assert len(set(item["hot_words"])) == len(item["hot_words"]) == 20
        assert [word for word in item["hot_words"] if word in item["text"]] == ([item["name"]] if item["name"] else [])
        assert (item["reading"] is None) == (item["name"] is None)
        assert item["reading"] is None or re.fullmatch("[ぁ-んー]+", item["reading"])


def test_phone_numbers_are_fictitious():
    texts = [turn["user"] for turn in TURNS.values()] + [memory["summary"] for memory in DISTRACTORS]
    numbers = [number for text in texts for number in re.findall(r"0[5789]0の?(\d{4})", text.replace("の", ""))]
    assert len(numbers) > 1
    assert set(numbers) == {"0000"}
