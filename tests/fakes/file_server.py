"""A small real HTTP server for downloads: ranges, cut connections, a simple package index and a model hub.

It knows nothing about the code under test; what it serves is made by the test.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Request:
    method: str
    path: str
    range: str | None
    agent: str
    sent_bytes: int = 0


@dataclass
class Served:
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    ranges: bool = True


class FileServer:
    """`cuts[path]`: after how many body bytes the next GETs of it break off, one number for each GET."""

    def __init__(self) -> None:
        self.served: dict[str, Served] = {}
        self.cuts: dict[str, list[int]] = {}
        self.gates: dict[str, threading.Event] = {}
        """A GET of this path sends its body only once the event is set; see `cuts` to send some of it before."""
        self.credentials: tuple[str, str] | None = None
        """User and password that every request then needs."""
        self.requests: list[Request] = []
        self.url = ""

    def put(self, path: str, body: bytes, **headers: str) -> str:
        self.served[path] = Served(body, {name.replace("_", "-"): value for name, value in headers.items()})
        return self.url + path

    def put_wheel(
        self, distribution: str, version: str, members: Mapping[str, bytes], *, metadata_apart: bool = True
    ) -> bytes:
        """Publish a wheel on the index at `/simple`; returns its bytes."""
        module = distribution.replace("-", "_")
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n".encode()
        body = make_wheel(module, version, metadata, members)
        name = f"{module}-{version}-py3-none-any.whl"
        self.put(wheel_path(distribution, version), body)
        mark = ""
        if metadata_apart:
            self.put(f"{wheel_path(distribution, version)}.metadata", metadata)
            mark = f' data-dist-info-metadata="sha256={hashlib.sha256(metadata).hexdigest()}"'
        digest = hashlib.sha256(body).hexdigest()
        page = f'<!DOCTYPE html><html><body><a href="/files/{name}#sha256={digest}"{mark}>{name}</a></body></html>'
        self.put(f"/simple/{distribution}/", page.encode(), Content_Type="text/html")
        return body

    def put_hub_file(self, repo: str, file: str, body: bytes, *, etag: str | None = None) -> str:
        """Publish a large hub file; returns its path. `etag`: what the hub says its SHA-256 is."""
        path = f"/{repo}/resolve/main/{file}"
        digest = etag or hashlib.sha256(body).hexdigest()
        self.put(path, body, X_Repo_Commit="0" * 40, ETag=f'"{digest}"', X_Linked_Etag=f'"{digest}"')
        return path

    def gets(self, path: str) -> list[Request]:
        """GETs of `path` that were not pip's own."""
        return [r for r in self.requests if r.path == path and r.method == "GET" and not r.agent.startswith("pip/")]


def wheel_path(distribution: str, version: str) -> str:
    return f"/files/{distribution.replace('-', '_')}-{version}-py3-none-any.whl"


def make_wheel(module: str, version: str, metadata: bytes, members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        info = f"{module}-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return stream.getvalue()


@contextmanager
def running_file_server() -> Iterator[FileServer]:
    files = FileServer()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            # As a proxy it is asked for whole URLs; it then serves them itself.
            self.path = urlsplit(self.path).path
            request = Request(self.command, self.path, self.headers.get("Range"), self.headers.get("User-Agent", ""))
            files.requests.append(request)
            if files.credentials and not self._knows_the_password(files.credentials):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="index"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            served = files.served.get(self.path)
            if served is None or served.status != 200:
                self.send_response(404 if served is None else served.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body, start, end = served.body, 0, len(served.body)
            asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.range or "") if served.ranges else None
            if asked and asked[1]:
                start, end = int(asked[1]), int(asked[2]) + 1 if asked[2] else end
            elif asked:
                start = max(0, end - int(asked[2]))
            if asked and start >= len(body):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
            if served.ranges:
                self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(end - start))
            for name, value in served.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if not with_body:
                return
            rest = body[start:end]
            cuts = files.cuts.get(self.path)
            first = rest[: cuts.pop(0)] if cuts else b""
            gate = files.gates.get(self.path)
            if first or gate is None:
                request.sent_bytes = len(first or rest)
                self.wfile.write(first or rest)
            if gate is not None:
                self.wfile.flush()
                gate.wait(20)
                if not first:
                    request.sent_bytes = len(rest)
                    self.wfile.write(rest)
            self.close_connection = True

        def _knows_the_password(self, credentials: tuple[str, str]) -> bool:
            expected = base64.b64encode(":".join(credentials).encode()).decode()
            return self.headers.get("Authorization") == f"Basic {expected}"

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            # A client that goes away in the middle is what some tests are about.
            pass

    server = Server(("127.0.0.1", 0), Handler)
    files.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield files
    finally:
        for gate in files.gates.values():
            gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
