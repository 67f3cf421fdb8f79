"""How memories look at a terminal: figures, ranked finds, one memory with its words, what an audit shows.

Takes the JSON of the server (`api/memory.py`); what is missing or senseless is left out, and nothing in it steers a
terminal. Asks for nothing and decides nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from server.commands.terminal import Terminal, own_command, printable, printable_line
from server.config_sections import LOCAL_MEMORIES
from server.pipeline.trace_facts import mapping

Answer = Mapping[str, Any]
_DAY, _MINUTE = "%Y-%m-%d", "%Y-%m-%d %H:%M"
_PARKED_SHOWN = 20
"""As in `memory/index_access.py`, whose import would cost more than the whole answer."""


def show_status(status: Answer, terminal: Terminal) -> None:
    """Every figure, then what needs a hand."""
    memories, index = mapping(status.get("memories")), mapping(status.get("index"))
    problem = mapping(index.get("problem"))
    parked = [mapping(job) for job in _list(status.get("parked"))][:_PARKED_SHOWN]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in (
        ("Turns / 会話", _count(status.get("turns"))),
        ("Memories / 記憶", ", ".join(f"{_count(memories[one])} {_line(one)}" for one in memories) or "none"),
        ("Pending / 処理待ち", _count(status.get("pending"))),
        ("Parked / 失敗", _count(status.get("parked_count"))),
        ("Filler left out / 雑談", _count(status.get("filler_excluded"))),
        ("Searches / 検索", _searches(status)),
        ("Index / 索引", _index(index)),
        ("Embedding model", _line(status.get("embedding_model")) or "none"),
    ):
        table.add_row(label, Text(value))
    terminal.out.print(table)
    for job in parked:
        terminal.say(f"  parked: {_line(job.get('kind'))} of {_line(job.get('subject'))}: {_line(job.get('code'))}")
    if parked and isinstance(count := status.get("parked_count"), int) and (more := count - len(parked)) > 0:
        terminal.say(f"  and {more:,} more / ほか{more:,}件")
    if parked:
        terminal.say(f"→ Put the reason right, then / 原因を直してから: {own_command()} memory retry", style="yellow")
    for told in (problem.get("message"), problem.get("hint"), _recommendation(memories, index)):
        if told:
            terminal.say(f"→ {_line(told)}", style="yellow")


def show_found(answer: Answer, terminal: Terminal) -> None:
    """What was found, best first, or the newest; a block each."""
    memories = [mapping(memory) for memory in _list(answer.get("memories"))]
    for number, memory in enumerate(memories, start=1):
        show_headline(memory, terminal, number=number)
    if not memories:
        terminal.say("Nothing was found. / 見つかりませんでした。")
    if said := _list(answer.get("not_yet_taken_in")):
        terminal.say("Said, and not in any memory yet / まだ記憶になっていない発言", style="bold")
        show_sources(said, terminal)
    searched = mapping(answer.get("searched"))
    if why := searched.get("words_only"):
        terminal.note(
            f"Found by words alone, without meaning ({_line(why)}). / 言葉だけで検索しました。", style="yellow"
        )
    if loosened := _list(searched.get("loosened")):
        terminal.note(f"Nothing fitted {' and '.join(map(_line, loosened))}; searched without. / 条件をゆるめました。")
    if after := answer.get("next"):
        terminal.note(f"There are more: {own_command()} memory search --after {_line(after)}", style="dim")


def show_headline(memory: Answer, terminal: Terminal, *, number: int | None = None) -> None:
    """Date, topic, score and speakers on a line; the summary and the id below it."""
    # What a text begins with would style all of it.
    title = Text().append(f"{number:>3}  " if number is not None else "", style="dim")
    if memory.get("occurred_at"):
        title.append(f"{when(memory, 'occurred_at', _DAY)}  ", style="cyan")
    title.append(_line(memory.get("topic")), style="bold")
    facts = [_line(memory.get("memory_type"))]
    if memory.get("status") not in (None, "active"):
        facts.append(_line(memory.get("status")))
    if isinstance(score := memory.get("retrieval_score"), int | float):
        facts.append(f"score {score:.2f}")
    facts += [_names(memory.get("speakers"))]
    title.append(f"  {' · '.join(filter(None, facts))}", style="dim")
    terminal.out.print(title, soft_wrap=True)
    indent = 5 if number is not None else 0
    _indented(_line(memory.get("summary")), terminal, indent)
    _indented(_line(memory.get("memory_id")), terminal, indent, style="dim")


def show_memory(memory: Answer, terminal: Terminal) -> None:
    """All of one memory, the exact words it comes from, and its other versions."""
    show_headline(memory, terminal)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in (
        ("Status", _line(memory.get("status"))),
        ("Names / 名前", _names(memory.get("entities"))),
        ("When / いつ", when(memory, "occurred_at", _MINUTE)),
        ("Speakers / 話者", _names(memory.get("speakers"))),
        ("Sure / 確か", _line(memory.get("confidence"))),
        ("Importance / 重要度", _line(memory.get("importance"))),
        ("Seen by / 範囲", _line(memory.get("visibility"))),
        ("Vector / ベクトル", _line(memory.get("index_state"))),
        ("Replaced by / 新しい版", _line(memory.get("superseded_by"))),
    ):
        if value:
            table.add_row(label, Text(value))
    terminal.out.print(table)
    terminal.say("")
    terminal.say("What was said / 元の発言", style="bold")
    show_sources(_list(memory.get("sources")), terminal, mark_answers=True)
    for key, title in (("newer", "Newer versions / 新しい版"), ("older", "Older versions / 前の版")):
        if versions := _list(memory.get(key)):
            terminal.say("")
            terminal.say(title, style="bold")
            for version in versions:
                show_headline(mapping(version), terminal)


def show_still_found(still_found: Sequence[str], others: Sequence[Answer], terminal: Terminal) -> None:
    """What tells a forgotten memory all the same, and how each of it can be forgotten. `others`: memories."""
    shown = {str(other.get("memory_id")) for other in others}
    words = [one for one in still_found if one.startswith("source turn ")]
    if others:
        terminal.note("Other memories still tell it / まだ残っている別の記憶:", style="bold red")
        for other in others:
            show_headline(other, Terminal(out=terminal.err, err=terminal.err))
            terminal.note(f"→ To forget it too / これも忘れるには: {own_command()} memory forget {other['memory_id']}")
    if words:
        terminal.note(f"Words in the log still tell it / まだ残っている発言: {', '.join(words)}.", style="bold red")
        terminal.note("→ Forget the memory that was made of them, or tell the robot to forget it.")
        terminal.note("→ その発言からできた記憶を忘れさせるか、ロボットに「忘れて」と言ってください。")
    if rest := [one for one in still_found if one not in shown and one not in words]:
        terminal.note(f"Not gone yet / まだ消えていません: {', '.join(map(_line, rest))}.", style="bold red")
        terminal.note("→ Run the same command again. / もう一度、同じコマンドを実行してください。")


def show_sources(sources: Sequence[Any], terminal: Terminal, *, mark_answers: bool = False) -> None:
    """Exact words with date and speaker; long ones keep their line ends. `mark_answers`: the robot is no source."""
    if not sources:
        terminal.say("  (none: they were forgotten, or it was written by hand / なし)", style="dim")
    for turn in map(mapping, sources):
        who = _line(turn.get("speaker_id")) or _line(turn.get("role"))
        line = Text().append(f"  {when(turn, 'said_at', _MINUTE)}  ", style="cyan")
        if mark_answers and turn.get("role") == "robot":
            who += " (its answer, not a source / 返事)"
        line.append(f"{who}: ", style="bold")
        if turn.get("text"):
            line.append(printable(str(turn["text"])).replace("\n", "\n      "))
        else:
            line.append("(forgotten / 忘れました)", style="dim")
        terminal.out.print(line, soft_wrap=True)


def show_audit(audit: Answer, terminal: Terminal) -> None:
    """Counts, then the sampled segments: kept and left out, each with its exact words."""
    for title, key in (("Segments", "segments"), ("Memories by type", "memories_by_type")):
        tally = mapping(audit.get(key))
        told = ", ".join(f"{_count(tally[one])} {_line(one)}" for one in tally)
        terminal.say(f"{title}: {told or 'none'}")
    if isinstance(share := audit.get("filler_share"), int | float):
        terminal.say(f"Left out as filler / 雑談の割合: {share:.0%}")
    for key, title in (("kept", "Kept / 覚えたこと"), ("filler", "Left out / 覚えなかったこと")):
        segments = [mapping(one) for one in _list(audit.get(key))]
        terminal.say("")
        terminal.say(f"{title} ({len(segments)})", style="bold")
        for segment in segments:
            terminal.say("")
            for memory in _list(segment.get("memories")):
                show_headline(mapping(memory), terminal)
            show_sources(_list(segment.get("said")), terminal)


def when(value: Answer, key: str, form: str) -> str:
    """A moment as it was there; what cannot be read, as it is."""
    told = value.get(key)
    try:
        return dt.datetime.fromisoformat(str(told)).strftime(form)
    except ValueError:
        return _line(told)


def _searches(status: Answer) -> str:
    corrected = f"{_count(status.get('misses_corrected'))} corrected afterwards / あとで訂正"
    return f"{_count(status.get('searches'))} ({corrected}); without forgotten turns / 忘れた会話は除く"


def _recommendation(memories: Answer, index: Answer) -> str:
    searchable = sum(memories[one] for one in ("active", "superseded") if isinstance(memories.get(one), int))
    if index.get("kind") != "local" or searchable <= LOCAL_MEMORIES:
        return ""
    return (
        f"Above {LOCAL_MEMORIES:,} memories edge is recommended: at each start and rebuild the index kind local reads "
        f"all vectors into memory. / {LOCAL_MEMORIES:,}件を超えたら edge をおすすめします。"
        "local は起動と作り直しのたびに全部のベクトルをメモリーに読み込みます。 "
        f"Set memory.index_kind to edge, then / edge に設定してから: {own_command()} memory rebuild"
    )


def _index(index: Answer) -> str:
    parts = [_line(index.get("kind")) or "none"]
    if isinstance(index.get("points"), int):
        parts.append(f"{_count(index['points'])} points")
    if isinstance(size := index.get("folder_bytes"), int):
        parts.append(f"{size / 1e6:,.1f} MB")
    if (waiting := _count(mapping(index.get("states")).get("pending"))) != "0":
        parts.append(f"{waiting} without a vector yet: words find them / ベクトル未作成 {waiting}件")
    return ", ".join(parts)


def _indented(text: str, terminal: Terminal, columns: int, style: str = "") -> None:
    if not text:
        return
    if terminal.out.is_terminal:
        terminal.out.print(Padding(Text(text, style=style), (0, 0, 0, columns)))
    else:
        terminal.say(" " * columns + text, style=style)


def _names(value: object) -> str:
    return ", ".join(_line(name) for name in _list(value))


def _line(value: object) -> str:
    return "" if value is None else printable_line(str(value))


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else "0"


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()
