"""A world of made-up memories of any size, written in bulk: its database, and vectors for its index.

Every memory has an exchange of its own behind it, said by one of a few people in a room of a few; each word is in as
many of them as words of a house are. Knows how memories are stored, not how they are found.
"""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from server.engines.base import EmbeddingEngine
from server.events import Samples
from server.memory.index.base import IndexPayload, IndexPoint, MemoryIndex
from server.storage.database import SESSION_DATABASE, WORLDS, Databases
from server.storage.memory_import import MemoryImport
from server.storage.memory_import_records import (
    ForgottenHere,
    ImportedChannel,
    ImportedMemory,
    ImportedTurn,
    ImportedWords,
    Numbers,
)
from server.storage.recall_tables import MemoryType
from server.storage.session_tables import Visibility
from server.storage.words import entity_key

WORLD = "bench"
PERSONA = "stackchan"
SPEAKER = "owner"
CHANNEL = "stackchan:bench"
ZONE = ZoneInfo("Asia/Tokyo")
FIRST_DAY = dt.date(2024, 1, 1)
DAYS = 1_000
_TURNS_OF_A_SESSION = 10
_EMBEDDED = 400
_BATCH = 1_000
_WRITE = 64


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PEOPLE = _words("""
    アサギ イブキ ミナモ サヨリ コハク ナギサ ヒスイ ツムギ カエデ シオン ルリ アカネ トキワ
    ワカバ ハヤテ ミゾレ コダマ スバル アラシ ヒバリ ツグミ モミジ サザナミ ユヅキ ミカゲ
    オボロ シグレ チドリ カガリ イサナ ホタル マシロ クレハ ナズナ ハトリ セツナ タマキ
    ウタカタ ヨイチ サギリ アマネ カスミ ミズキ トワ リンドウ スズシロ アヤメ コトハ エニシ
    ムツミ
""")
"""Fifty: an entity leaves a fiftieth of the memories."""
PLACES = _words("""
    駅前の書店 青葉公園 河原の広場 港の市場 中央図書館 丘の上の喫茶店 商店街の時計屋 北口の食堂
    植物園 水族館 町の体育館 海辺の宿 古い映画館 山の温泉 隣町の電器屋 団地の集会所 音楽教室
    科学館 朝市 神社の境内
""")
THINGS = _words("""
    ノートパソコン 自転車 腕時計 カメラ 扇風機 電子ピアノ 望遠鏡 炊飯器 登山靴 冷蔵庫 辞書
    水彩絵の具 折りたたみ傘 毛布 観葉植物 珈琲豆 和菓子 釣り竿 将棋盤 キーボード スピーカー
    植木鉢 スケートボード 万年筆 掃除機 急須 浴衣 双眼鏡 目覚まし時計 ヘッドホン
""")
DONE = _words("""
    買った 修理に出した 友だちに譲った 見つけた 注文した 忘れてきた 予約した 取り替えた 借りた
    返した 選んだ 探している
""")
KINDS: tuple[MemoryType, ...] = ("episode", "preference", "decision", "fact")


@dataclass(frozen=True, slots=True)
class Story:
    """What one memory is about."""

    number: int
    person: str
    place: str
    thing: str
    done: str
    price: int

    @property
    def day(self) -> dt.date:
        # Coprime steps, so that no day belongs to one person.
        return FIRST_DAY + dt.timedelta(days=self.number * 7 % DAYS)

    @property
    def said_at(self) -> dt.datetime:
        seconds = self.number * 13 % 86_400
        return dt.datetime.combine(self.day, dt.time(), ZONE) + dt.timedelta(seconds=seconds)

    @property
    def topic(self) -> str:
        return f"{self.person}の{self.thing}"

    @property
    def summary(self) -> str:
        return f"{self.person}は{self.place}で{self.thing}を{self.done}。{self.price}円だった。"

    @property
    def said(self) -> str:
        happened = f"{self.person}がね、{self.place}で{self.thing}を{self.done}んだって。"
        return f"そういえば{happened}{self.price}円もしたらしいよ。"

    @property
    def answered(self) -> str:
        return f"へえ、{self.thing}なんだ。{self.place}にはいろいろあるもんね。"


def memory_id(number: int) -> str:
    return f"mem_{number:026d}"


def story(number: int) -> Story:
    """The same for the same number."""
    chance = random.Random(number)
    person = PEOPLE[number % len(PEOPLE)]
    return Story(
        number,
        person,
        chance.choice(PLACES),
        chance.choice(THINGS),
        chance.choice(DONE),
        chance.randrange(300, 90_000, 10),
    )


def question(number: int) -> str:
    """What somebody may ask about a story, in one of a few ways; never the same words for two neighbours."""
    told = story(number)
    ways = (
        f"{told.person}が{told.place}で{told.done}ものは何だった？",
        f"{told.thing}はいくらだったっけ。{told.person}の話だよ。",
        f"{told.place}で{told.thing}の話をしたのはだれかな？",
        f"{told.person}は{told.thing}をどこで{told.done}と言っていた？",
    )
    return ways[number % len(ways)]


def imported(number: int) -> ImportedMemory:
    """A story as a memory with the exchange behind it."""
    told = story(number)
    visibility: Visibility = "private" if number % 11 == 0 else "house"
    speaker = SPEAKER if number % 3 else "guest"
    turn_id, source = number + 1, 2 * number + 1

    def words(role: str, text: str, at: int) -> ImportedWords:
        said_at = told.said_at + dt.timedelta(seconds=5 * at)
        who = speaker if role == "user" else None
        return ImportedWords(
            source + at, role, who, text, "ja", visibility, said_at, ZONE.key, None, False  # type: ignore[arg-type]
        )  # fmt: skip

    turn = ImportedTurn(
        turn_id,
        f"session-{number // _TURNS_OF_A_SESSION}",
        CHANNEL,
        PERSONA,
        "ok",
        "audio",
        None,
        None,
        told.said_at,
        told.said_at + dt.timedelta(seconds=9),
        (),
        (words("user", told.said, 0), words("robot", told.answered, 1)),
    )
    return ImportedMemory(
        memory_id(number),
        told.topic,
        told.summary,
        (told.person, told.thing, told.place),
        KINDS[number % len(KINDS)],
        told.said_at,
        ZONE.key,
        "ja",
        (speaker,),
        "said",
        1 + number % 5,
        PERSONA,
        CHANNEL,
        visibility,
        "active",
        None,
        told.said_at,
        told.said_at,
        (turn,),
    )


async def write_world(data_dir: Path, count: int) -> None:
    """A new data folder whose world has `count` memories, all of them marked as indexed."""
    now = dt.datetime.now(dt.UTC)
    numbers = Numbers({n: n for n in range(1, count + 1)}, {n: n for n in range(1, 2 * count + 1)})
    async with await Databases.open(data_dir, WORLD) as databases:
        numbered = iter(range(count))
        async with databases.world() as db:
            writing = MemoryImport(numbers, {}, now=now)
            await writing.make_channels(db, [ImportedChannel(CHANNEL, "stackchan", False, None, now)])
            while batch := list(islice(numbered, _BATCH)):
                await writing.write(db, [imported(number) for number in batch], ForgottenHere())
    with sqlite3.connect(data_dir / WORLDS / WORLD / SESSION_DATABASE) as connection:
        connection.execute("DELETE FROM jobs")
        connection.execute("UPDATE recall_items SET index_state = 'indexed'")
    connection.close()


async def vectors_like(embedding: EmbeddingEngine, count: int) -> Samples:
    """Unit vectors for stories 0 to `count`: some are the model's, the others lie among those, as near as topics do."""
    texts = [f"{told.topic}\n{told.summary}" for told in map(story, range(min(count, _EMBEDDED)))]
    known = await embedding.embed_documents(texts)
    chance = np.random.default_rng(7)
    vectors = np.empty((count, known.shape[1]), np.float32)
    vectors[: len(known)] = known
    # In pieces: all the chance numbers at once would need as much memory again, twice.
    for start in range(len(known), count, _BATCH):
        some = vectors[start : start + _BATCH]
        one, other = known[chance.integers(len(known), size=(2, len(some)))]
        share = chance.random((len(some), 1), np.float32)
        some[:] = share * one + (1 - share) * other
        some += chance.standard_normal(some.shape, np.float32) * np.float32(0.2 / some.shape[1] ** 0.5)
        some /= np.linalg.norm(some, axis=1, keepdims=True)
    return vectors


def points(vectors: Samples, numbers: Sequence[int]) -> Iterator[IndexPoint]:
    """The points of some memories, as `indexer.index_point` makes them from a stored one."""
    for number in numbers:
        memory = imported(number)
        payload = IndexPayload(
            memory.topic,
            tuple(map(entity_key, memory.entities)),
            memory.memory_type,
            memory.occurred_at,
            memory.status,
            memory.speakers,
            memory.persona_id,
            memory.channel_id,
            memory.visibility,
        )
        yield IndexPoint(memory.memory_id, vectors[number], payload)


async def fill_index(index: MemoryIndex, vectors: Samples) -> None:
    """All vectors into an open, empty index."""
    for start in range(0, len(vectors), _WRITE):
        await index.upsert(list(points(vectors, range(start, min(len(vectors), start + _WRITE)))))


def index_folder(data_dir: Path) -> Path:
    return data_dir / WORLDS / WORLD / "index"
