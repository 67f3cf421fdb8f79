"""A real HTTP server on loopback that keeps to the contract of the owner's memory interface, over a few memories.

It forgets, edits and pages as the contract says; what a test wants to go wrong is set on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.commands.loopback import TOKEN, LoopbackServer, QuietHandler

PC_ID = "mem_01KBA5000000000000000000PC"
OLD_ID = "mem_01KBA500000000000000000Z1D"
TEA_ID = "mem_01KBA500000000000000000TEA"
HEADER = {"format": "stackchan-memory", "version": 1, "exported_at": "2026-11-30T12:00:00Z"}


def memory(memory_id: str, summary: str, **changes: Any) -> dict[str, Any]:
    """A memory as every answer tells it."""
    return {
        "memory_id": memory_id,
        "topic": "買い物",
        "summary": summary,
        "entities": ["富士通"],
        "memory_type": "episode",
        "occurred_at": "2026-11-29T00:30:00+09:00",
        "zone": "Asia/Tokyo",
        "status": "active",
        "superseded_by": None,
        "language": "ja",
        "speakers": ["hiro"],
        "confidence": "said",
        "importance": 3,
        "persona_id": "stackchan",
        "channel_id": "stackchan:desk",
        "visibility": "house",
        "index_state": "indexed",
        "attempts": 0,
        "error": None,
        "created_at": "2026-11-29T00:00:00+00:00",
        "updated_at": "2026-11-29T00:00:00+00:00",
        "source_turn_ids": [11, 12],
    } | changes


def said(number: int, role: str, text: str | None, **changes: Any) -> dict[str, Any]:
    return {
        "source_turn_id": number,
        "turn_id": number // 10,
        "session_id": "01JABCDEFGHJKMNPQRSTVWXYZ0",
        "channel_id": "stackchan:desk",
        "role": role,
        "speaker_id": None,
        "text": text,
        "language": "ja",
        "said_at": "2026-11-29T00:30:00+09:00",
    } | changes


STATUS: Mapping[str, Any] = {
    "turns": 1234,
    "source_turns": 2468,
    "memories": {"active": 2, "superseded": 1, "forgotten": 4},
    "pending": 3,
    "parked_count": 1,
    "parked": [
        {"kind": "index", "subject": TEA_ID, "code": "embedding_failed", "error": "EmbeddingError: embedding_failed"}
    ],
    "filler_excluded": 56,
    "searches": 7,
    "misses_corrected": 1,
    "index": {"kind": "local", "points": 3, "problem": None, "folder_bytes": 2_500_000, "states": {"indexed": 3}},
    "embedding_model": "multilingual-e5-small-q4",
    "embedding_dimensions": 384,
}


class MemoryServer(LoopbackServer):
    """`fail`: (method, path) -> (status, error) that a request gets instead. `asked`: every request as it came."""

    def __init__(self) -> None:
        old = memory(OLD_ID, "富士通のPCを30,000円で買った。", status="superseded", superseded_by=PC_ID)
        self.memories = {
            PC_ID: memory(PC_ID, "富士通のPCを25,000円で買った。"),
            OLD_ID: old,
            TEA_ID: memory(TEA_ID, "お茶が好き。", topic="好み", entities=[], memory_type="preference", speakers=[]),
        }
        self.sources = {
            PC_ID: [said(11, "user", "違う、二万五千円", speaker_id="hiro"), said(12, "robot", "二万五千円だね。")],
            OLD_ID: [said(1, "user", "中古の富士通を三万円で買ったよ")],
            TEA_ID: [said(21, "user", "お茶が好き")],
        }
        self.status: Mapping[str, Any] = dict(STATUS)
        self.searched: Mapping[str, Any] = {"loosened": [], "words_only": None}
        self.still_found: list[str] = []
        self.rebuild_steps = [
            {"state": "running", "done": 1, "total": 3, "error": None},
            {"state": "done", "done": 3, "total": 3, "error": None},
        ]
        self.export: bytes | None = None
        self.backup = b"tar" * 1000
        self.cut_at: int | None = None
        self.fail: dict[tuple[str, str], tuple[int, Mapping[str, Any]]] = {}
        self.starting = 0
        self.tokens = {TOKEN}
        self.asked: list[tuple[str, str, Any]] = []
        super().__init__(_handler(self))

    def last(self, method: str) -> tuple[str, Any]:
        """Path and query or body of the last request of this kind."""
        return next((path, rest) for how, path, rest in reversed(self.asked) if how == method)

    def answer(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        if found := self.fail.get((method, path)):
            return found[0], {"error": found[1]}
        if one := re.fullmatch(r"/v1/memories/(mem_[0-9A-Z]{26})(/forgetting)?", path):
            return self._one("WOULD" if one[2] else method, one[1], query, body)
        match method, path:
            case "GET", "/v1/memory/status":
                return 200, self.status
            case "GET", "/v1/memories":
                return 200, self._find(query)
            case "GET", "/v1/memory/export":
                return 200, self.export if self.export is not None else self._export()
            case "POST", "/v1/memory/import":
                return 200, {"turns": 2, "imported": body.count(b'{"memory"'), "already_there": 1, "forgotten": 0}
            case "POST", "/v1/memory/rebuild":
                return 202, {"state": "running", "done": 0, "total": 3, "error": None}
            case "GET", "/v1/memory/rebuild":
                return 200, self.rebuild_steps.pop(0) if len(self.rebuild_steps) > 1 else self.rebuild_steps[0]
            case "POST", "/v1/memory/retry":
                return 200, {"queued": 1}
            case "GET", "/v1/memory/audit":
                return 200, self._audit()
            case "GET", "/v1/backup":
                return 200, self.backup
        return 404, {"error": {"code": "not_found", "message": "Not Found"}}

    def _one(self, method: str, memory_id: str, query: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        found = self.memories.get(memory_id)
        if found is None:
            missing = {"code": "memory_not_found", "message": "There is no such memory.", "hint": "Search for it."}
            return 404, {"error": missing}
        if method == "PATCH":
            found |= json.loads(body)
        ids = [memory_id, *(one for one, other in self.memories.items() if other["superseded_by"] == memory_id)]
        turns = 2 if query.get("also_source") == "true" else 0
        if method == "WOULD":
            said = [turn for one in ids for turn in self.sources[one]] if turns else []
            return 200, {"memories": [self.memories[one] for one in ids], "blanked_turns": turns, "said": said}
        if method == "DELETE":
            for one in ids:
                del self.memories[one]
            return 200, {"forgotten": ids, "blanked_turns": turns, "still_found": self.still_found}
        older = [other for other in self.memories.values() if other["superseded_by"] == memory_id]
        newer = [self.memories[found["superseded_by"]]] if found["superseded_by"] else []
        return 200, found | {"sources": self.sources[memory_id], "older": older, "newer": newer}

    def _find(self, query: Mapping[str, str]) -> Any:
        statuses = {"all": ("active", "superseded")}.get(query.get("status", "active"), ("active",))
        found = [one for one in self.memories.values() if one["status"] in statuses]
        limit = int(query.get("limit", "20"))
        if "query" not in query:
            return {"memories": found[:limit], "next": found[limit - 1]["memory_id"] if len(found) > limit else None}
        ranked = [one | {"retrieval_score": 0.91 - place / 10} for place, one in enumerate(found)]
        return {
            "memories": [one for one in ranked if query["query"][:2] in one["summary"]][:limit],
            "next": None,
            "ambiguous": False,
            "searched": self.searched,
            "not_yet_taken_in": [],
        }

    def _audit(self) -> Any:
        fields = ("memory_id", "topic", "summary", "memory_type", "confidence", "status")
        noted = [{name: self.memories[PC_ID][name] for name in fields}]
        closed = {"session_id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "closed_at": "2026-11-29T00:30:00+00:00"}
        filler = [said(31, "user", "おはよう"), said(32, "robot", "おはよう！")]
        return {
            "kept": [{"segment_id": 1, "said": self.sources[PC_ID], "memories": noted} | closed],
            "filler": [{"segment_id": 2, "said": filler, "memories": []} | closed],
            "segments": {"memories": 3, "filler": 1},
            "memories_by_type": {"episode": 2, "preference": 1},
            "filler_share": 0.25,
        }

    def _export(self) -> bytes:
        lines: list[Any] = [HEADER]
        lines += [{"memory": one} for one in self.memories.values()]
        lines += [{"end": {"memories": len(self.memories)}}]
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _handler(owner: MemoryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(QuietHandler):
        def _handle(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization", "").removeprefix("Bearer ") not in owner.tokens:
                self._send(401, {"error": {"code": "token_invalid", "message": "This token is not known here."}})
            elif parts.path == "/readyz":
                self._send(503 if owner.starting else 200, {"status": "starting" if owner.starting else "ready"})
            elif owner.starting:
                owner.starting -= 1
                self._send(503, {"error": {"code": "starting", "message": "loading", "retryable": True}})
            else:
                owner.asked.append((self.command, parts.path, body or query))
                self._send(*owner.answer(self.command, parts.path, query, body))

        do_GET = do_POST = do_PATCH = do_DELETE = _handle

        def _send(self, status: int, value: Any) -> None:
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # Cut where a test wants it: the client sees a connection that ended too soon.
            self.wfile.write(body if owner.cut_at is None else body[: owner.cut_at])

    return Handler
