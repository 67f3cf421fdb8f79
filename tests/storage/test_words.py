"""What a word is; and real searches for it in both word indexes."""

from __future__ import annotations

import time
from dataclasses import fields, replace

import pytest
from sqlalchemy import insert

from server.storage import word_index
from server.storage.database import Databases
from server.storage.memories import update_memory
from server.storage.memory_lookup import narrow
from server.storage.memory_records import MemoryChanges
from server.storage.recall_tables import RecallEntityRow, RecallItemRow
from server.storage.words import QUERY_TERMS_LIMIT, Term, entity_key, query_terms, tokens
from tests.storage.house import CHANNEL, NOW, make_session
from tests.storage.remembered import EVERYONE, SAID_TO_ALL, exchange, new_memory, remember

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("設定", ["設定", "定"]),
        ("富士通のPC", ["富士", "士通", "通の", "pc"]),
        ("ＲＴＸ３０５０", ["rtx3050", "rtx", "3050"]),
        ("ﾊﾟｿｺﾝ", ["パソ", "ソコ", "コン", "ン"]),
        ("30,000円", ["30000", "30000円", "円"]),
        ("３万円", ["3", "3万", "万円", "円"]),
        ("2.5 と 1,2", ["2.5", "と", "1", "2"]),
        ("2026-07-03", ["2026", "07", "7", "03", "3"]),
        ("Qwen3-ASR", ["qwen3", "qwen", "3", "asr"]),
        ("𠮷野家", ["𠮷野", "野家", "家"]),
        ("Straße", ["strasse"]),
        ("猫", ["猫"]),
        ("ひらがな", ["ひら", "らが", "がな"]),
        ("スタック・チャン", ["スタ", "タッ", "ック", "ク", "チャ", "ャン", "ン"]),
        ("😀 … \0", []),
        ("\ud83d x", ["x"]),
        ("", []),
        ("a" * 100, ["a" * 64]),
    ],
)
def test_tokens(text: str, words: list[str]) -> None:
    assert tokens(text) == words


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("設定はどうした？", [Term("設定"), Term("定は")]),
        ("ひらがな", [Term("ひら"), Term("らが"), Term("がな")]),
        ("猫は？", [Term("猫は"), Term("猫", begins=True)]),
        ("は", [Term("は", begins=True)]),
        ("7月23日", [Term("7"), Term("7月"), Term("23"), Term("23日")]),
        ("RTX RTX rtx", [Term("rtx")]),
        ("？！ 😀", []),
    ],
)
def test_query_terms(text: str, terms: list[Term]) -> None:
    assert query_terms(text) == terms


def test_endless_query_is_cut_to_its_first_words() -> None:
    assert query_terms(" ".join(f"w{number}x" for number in range(10_000)))[:3] == [Term("w0x"), Term("w"), Term("0")]
    assert len(query_terms("".join(chr(0x4E00 + number) for number in range(5_000)))) == QUERY_TERMS_LIMIT


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("RTX 3050 Ti", "ｒｔｘ3050ti", True),
        ("スタックチャン", "ｽﾀｯｸﾁｬﾝ", True),
        ("富　士通", "富士通", True),
        ("富士通", "富士", False),
        ("タマ", "たま", False),
    ],
)
def test_entity_key(one: str, other: str, same: bool) -> None:
    assert (entity_key(one) == entity_key(other)) is same


FINDS = [
    ("富士通", True),
    ("富士通って知ってる？", True),
    ("パソコン", False),
    ("設定", False),
    ("ＰＣ", True),
    ("30000", True),
    ("30,000円だっけ", True),
    ("3000", False),
    ("買った", True),
    ("買う", True),
    ("ねこ", False),
    ("Fujitsu", False),
]


@pytest.mark.parametrize(("query", "found"), FINDS)
async def test_words_find_memories_and_source_turns(databases: Databases, query: str, found: bool) -> None:
    await exchange(databases, 1, "富士通のPCを30,000円で買った。", "そっか。")
    await exchange(databases, 2, "きょうはとてもいい天気だね", "そうだね。")
    await remember(databases, 1, "富士通のPCを30,000円で買った。", topic="", entities=())
    await remember(databases, 2, "きょうはとてもいい天気だった。", topic="", entities=())
    async with databases.world(write=False) as db:
        memories = await word_index.search_memories(db, query, EVERYONE, limit=10)
        turns = await word_index.search_source_turns(db, query, SAID_TO_ALL, limit=10)
    assert [hit.memory_id for hit in memories] == ([new_memory(1).memory_id] if found else [])
    assert [hit.source_turn_id for hit in turns] == ([10] if found else [])
    assert all(hit.score > 0 for hit in (*memories, *turns))


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("設定", 1),
        ("どんぐり", 0),
        ("みかん", 2),
        ("猫", 3),
        ("黒猫", 3),
        ("ひらがなのみかん", 2),
        ("RTX", 4),
        ("3050", 4),
    ],
)
async def test_japanese_and_latin_queries(databases: Databases, query: str, number: int) -> None:
    await make_session(databases)
    for which, summary in enumerate(
        ["音量の設定を変えた。", "祖母がみかんを送ってくれた。", "飼っているのは黒猫。", "RTX3050のノートPC"], 1
    ):
        await remember(databases, which, summary, topic="", entities=())
    async with databases.world(write=False) as db:
        found = await word_index.search_memories(db, query, EVERYONE, limit=10)
    assert [hit.memory_id for hit in found][:1] == ([new_memory(number).memory_id] if number else [])


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""" OR 1',
        "富士通 AND NOT 猫",
        "body:富士通",
        "富士通*",
        "^富士通",
        "NEAR(富士通, 2)",
        "富士通'); DROP TABLE jobs; --",
        "-富士通",
        "{body}:富士通",
        "富士通\0",
        "\ud800富士通",
        "(富士通",
        "富士通 + 士通",
    ],
)
async def test_no_text_is_syntax(databases: Databases, query: str) -> None:
    await make_session(databases)
    await remember(databases, 1, "富士通のPC", topic="")
    async with databases.world(write=False) as db:
        found = await word_index.search_memories(db, query, EVERYONE, limit=10)
        assert await word_index.search_source_turns(db, query, SAID_TO_ALL, limit=10) == []
    assert [hit.memory_id for hit in found] == ([new_memory(1).memory_id] if "富士通" in query else [])


async def test_better_match_comes_first_and_equal_ones_newest_first(databases: Databases) -> None:
    await make_session(databases)
    await remember(databases, 1, "京都へ行った。", topic="", entities=())
    await remember(databases, 2, "京都へ行った。", topic="", entities=(), occurred_at=NOW.replace(month=12, day=1))
    await remember(databases, 3, "京都へ猫と行った。", topic="", entities=())
    for number in range(4, 9):
        await remember(databases, number, "晴れていた。", topic="", entities=())
    async with databases.world(write=False) as db:
        found = await word_index.search_memories(db, "京都の猫", EVERYONE, limit=10)
        two = await word_index.search_memories(db, "京都の猫", EVERYONE, limit=2)
        some = await word_index.search_memories(
            db, "京都", EVERYONE, limit=9, memory_ids=[new_memory(1).memory_id, new_memory(7).memory_id]
        )
        assert await word_index.search_memories(db, "京都", EVERYONE, limit=9, memory_ids=[]) == []
        assert await word_index.search_memories(db, "京都", EVERYONE, limit=0) == []
    assert [hit.memory_id for hit in found] == [new_memory(number).memory_id for number in (3, 2, 1)]
    assert found[0].score > found[1].score == found[2].score
    assert two == found[:2]
    assert [hit.memory_id for hit in some] == [new_memory(1).memory_id]


async def test_edited_memory_is_found_by_its_new_words_only(databases: Databases) -> None:
    await make_session(databases)
    await remember(databases, 1, "富士通のPC", topic="", entities=("富士通",))
    async with databases.world() as db:
        changes = MemoryChanges(summary="東芝のPC", entities=("東芝",))
        await update_memory(db, new_memory(1).memory_id, changes, now=NOW)
    async with databases.world(write=False) as db:
        assert await word_index.search_memories(db, "富士通", EVERYONE, limit=9) == []
        assert len(await word_index.search_memories(db, "東芝", EVERYONE, limit=9)) == 1
        assert await narrow(db, replace(EVERYONE, entity_keys=("富士通",))) == []
        assert await narrow(db, replace(EVERYONE, entity_keys=("東芝",))) == [new_memory(1).memory_id]


async def test_private_words_are_found_by_who_said_them(databases: Databases) -> None:
    await exchange(
        databases, 1, "日記は内緒", "内緒だね", channel_id="stackchan:bedroom", private=True, speaker_id="mika"
    )
    await exchange(databases, 2, "内緒話はしない", "そう")
    found = {}
    async with databases.world(write=False) as db:
        for speaker in (None, "mika", "ken"):
            wanted = replace(SAID_TO_ALL, speaker_id=speaker)
            found[speaker] = {
                hit.source_turn_id for hit in await word_index.search_source_turns(db, "内緒", wanted, limit=9)
            }
        others = replace(SAID_TO_ALL, persona_id="another")
        assert await word_index.search_source_turns(db, "内緒", others, limit=9) == []
    assert found == {None: {20}, "mika": {10, 11, 20}, "ken": {20}}


async def test_source_turns_narrow_by_time_channel_and_session(databases: Databases) -> None:
    here = await exchange(databases, 1, "京都へ行く", channel_id="stackchan:study")
    await exchange(databases, 2, "京都はいい")
    async with databases.world(write=False) as db:

        async def found(**changes: object) -> list[int]:
            wanted = replace(SAID_TO_ALL, **changes)  # type: ignore[arg-type]
            return sorted(
                hit.source_turn_id for hit in await word_index.search_source_turns(db, "京都", wanted, limit=9)
            )

        assert await found() == [10, 20]
        assert await found(except_session_id=here) == [20]
        assert await found(channel_id=CHANNEL) == [20]
        assert await found(said_from=NOW, said_before=NOW.replace(hour=13)) == [10, 20]
        assert await found(said_before=NOW) == []
        assert await found(said_from=NOW.replace(hour=13)) == []


async def test_twenty_thousand_memories(databases: Databases, capsys: pytest.CaptureFixture[str]) -> None:
    nouns = ["富士通", "京都", "黒猫", "散歩", "誕生日", "会議", "寿司", "映画", "電車", "天気"]
    await make_session(databases)
    async with databases.world() as db:
        rows, names, texts = [], [], []
        for number in range(20_000):
            first, second = nouns[number % 10], nouns[number // 10 % 10]
            row = new_memory(
                number, f"{first}と{second}の話。{number}回目。", occurred_at=NOW.replace(month=1 + number % 12, day=1)
            )
            values = {one.name: getattr(row, one.name) for one in fields(row) if one.name != "source_turn_ids"}
            rows.append(
                values
                | {"item_id": number + 1, "entities": [first], "speakers": [], "status": "active", "revision": 1}
                | {"index_state": "indexed", "attempts": 0, "created_at": NOW, "updated_at": NOW}
            )
            names.append({"memory_id": row.memory_id, "entity_key": f"{first}{number // 100}"})
            texts.append((number + 1, row.summary))
        await db.exec(insert(RecallItemRow), params=rows)
        await db.exec(insert(RecallEntityRow), params=names)
        await word_index._write(db, "recall_words", texts)
    async with databases.world(write=False) as db:
        for name, wanted, count in (
            ("all", EVERYONE, 20_000),
            (
                "month",
                replace(
                    EVERYONE, occurred_from=NOW.replace(month=3, day=1), occurred_before=NOW.replace(month=4, day=1)
                ),
                1_667,
            ),
            ("entity", replace(EVERYONE, entity_keys=("富士通7",)), 10),
        ):
            started = time.perf_counter()
            ids = await narrow(db, wanted)
            narrowed = (time.perf_counter() - started) * 1000
            assert len(ids) == count
            started = time.perf_counter()
            hits = await word_index.search_memories(db, "富士通と黒猫の話、何回目？", wanted, limit=20)
            searched = (time.perf_counter() - started) * 1000
            with capsys.disabled():
                print(f"  20,000 memories, {name}: narrowed in {narrowed:.1f} ms, searched in {searched:.1f} ms")  # noqa: T201
            assert len(hits) == min(20, count if name == "entity" else 20)


async def test_what_may_not_be_found_hides_nothing_however_much_better_it_fits(databases: Databases) -> None:
    await exchange(databases, 1, "そういえば昨日の午後に駅前の本屋で黒猫の図鑑を見かけたよ")
    await remember(databases, 1, "昨日の午後に駅前の本屋で黒猫の図鑑を見かけた。", topic="本屋", entities=())
    for number in range(2, 12):
        await exchange(databases, number, "黒猫", channel_id="stackchan:bedroom", private=True, speaker_id="mika")
        await remember(databases, number, "黒猫", topic="黒猫", entities=(), visibility="private", speakers=("mika",))
    async with databases.world(write=False) as db:
        found = await word_index.search_memories(db, "黒猫", EVERYONE, limit=2)
        assert [hit.memory_id for hit in found] == ["mem_" + "1".zfill(26)]
        said = await word_index.search_source_turns(db, "黒猫", SAID_TO_ALL, limit=2)
        assert [hit.source_turn_id for hit in said] == [10]
        mine = replace(EVERYONE, speaker_id="mika")
        assert len(await word_index.search_memories(db, "黒猫", mine, limit=99)) == 11
        two = await word_index.search_memories(db, "黒猫", mine, limit=2)
        assert [hit.memory_id for hit in two] == ["mem_" + str(n).zfill(26) for n in (11, 10)]
