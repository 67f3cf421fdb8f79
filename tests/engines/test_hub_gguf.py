"""GGUF models of the hub: which files a name means, where they are found, and how they are pulled from a hub here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.engines.hub_gguf import HubGguf, find_gguf, hub_gguf, pull_gguf
from server.errors import ModelError
from tests.fakes.file_server import FileServer
from tests.fakes.model_downloads import Recorder, body_of, index_and_hub, options, publish_gguf

pytestmark = pytest.mark.integration

REPO = "Qwen/Qwen3-4B-GGUF"
PARTS = [f"BF16/Qwen3-4B-BF16-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
FILES = ["Qwen3-4B-Q4_K_M.gguf", "Qwen3-4B-Q8_0.gguf", "Qwen3-4B-UD-Q4_K_XL.gguf", "mmproj-F16.gguf", *PARTS]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    # Without what other programs have put into the hub's own cache.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with index_and_hub(monkeypatch) as server:
        yield server


def publish(hub: FileServer, paths: list[str] = FILES, repo: str = REPO) -> None:
    publish_gguf(hub, repo, paths)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        (REPO, HubGguf(REPO)),
        (f"{REPO}:Q4_K_M", HubGguf(REPO, "Q4_K_M")),
        (f"{REPO}/Qwen3-4B-Q8_0.gguf", HubGguf(REPO, file="Qwen3-4B-Q8_0.gguf")),
        (f"{REPO}/{PARTS[0]}", HubGguf(REPO, file=PARTS[0])),
        *(
            (path, None)
            for path in ("/models/own.gguf", "./a/b", "~/a/b.gguf", "qwen2.5-coder-0.5b", "C:\\m.gguf", "a//b")
        ),
    ],
)
def test_which_names_are_the_hubs(name: str, model: HubGguf | None) -> None:
    assert hub_gguf(name) == model
    assert model is None or str(model) == name


def test_a_path_that_is_there_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "own.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert hub_gguf("models/own.gguf") is None


@pytest.mark.parametrize(
    ("model", "chosen"),
    [
        (HubGguf(REPO), FILES[:1]),
        (HubGguf(REPO, "q8_0"), ["Qwen3-4B-Q8_0.gguf"]),
        (HubGguf(REPO, "Q4_K_XL"), ["Qwen3-4B-UD-Q4_K_XL.gguf"]),
        (HubGguf(REPO, "BF16"), PARTS),
        (HubGguf(REPO, file=PARTS[0]), PARTS),
        (HubGguf(REPO, file="Qwen3-4B-Q8_0.gguf"), ["Qwen3-4B-Q8_0.gguf"]),
        (HubGguf(REPO, "F16"), []),
        (HubGguf(REPO, "Q4"), []),
        (HubGguf(REPO, file="another.gguf"), []),
    ],
)
def test_which_files_a_name_means(model: HubGguf, chosen: list[str]) -> None:
    assert model.choose(FILES) == chosen


def test_a_repository_with_one_file_needs_no_more_than_its_name() -> None:
    assert HubGguf(REPO).choose(["odd-name.gguf"]) == ["odd-name.gguf"]
    assert HubGguf(REPO).choose(["one.gguf", "two.gguf"]) == []
    assert HubGguf(REPO).choose(["m-q5_k_m.gguf", "m-q4_0.gguf"]) == ["m-q4_0.gguf"]


def test_a_model_is_pulled_proven_and_found(hub: FileServer, tmp_path: Path) -> None:
    publish(hub)
    model, seen = HubGguf(REPO, "Q4_K_M"), Recorder()
    with pytest.raises(ModelError, match=f"stackchan models pull {REPO}:Q4_K_M") as caught:
        find_gguf(tmp_path, model)
    assert caught.value.code == "model_missing"
    path = pull_gguf(tmp_path, model, seen, options=options())
    assert path == find_gguf(tmp_path, model) == tmp_path / REPO / FILES[0]
    assert path.read_bytes() == body_of(FILES[0])
    assert seen.bars == {f"{REPO}/{FILES[0]}": [50_000, 50_000]}
    fetched = len(hub.gets(f"/{REPO}/resolve/main/{FILES[0]}"))
    assert pull_gguf(tmp_path, model, options=options()) == path
    assert len(hub.gets(f"/{REPO}/resolve/main/{FILES[0]}")) == fetched == 1


def test_a_model_in_parts_comes_whole_and_a_cut_download_goes_on(hub: FileServer, tmp_path: Path) -> None:
    publish(hub)
    second = f"/{REPO}/resolve/main/{PARTS[1]}"
    hub.cuts[second] = [20_000]
    model = HubGguf(REPO, "BF16")
    path = pull_gguf(tmp_path, model, options=options())
    assert path == find_gguf(tmp_path, model) == find_gguf(tmp_path, HubGguf(REPO, file=PARTS[0]))
    assert [one.read_bytes() for one in sorted(path.parent.glob("*.gguf"))] == [body_of(part) for part in PARTS]
    assert [request.range for request in hub.gets(second)] == [None, "bytes=20000-"]
    (path.parent / Path(PARTS[2]).name).unlink()
    with pytest.raises(ModelError, match=r"lacks Qwen3-4B-BF16-00003-of-00003\.gguf"):
        find_gguf(tmp_path, model)


def test_a_quantisation_that_only_a_folder_tells_is_found_again(hub: FileServer, tmp_path: Path) -> None:
    files = [f"Q4_K_M/model-0000{number}-of-00002.gguf" for number in (1, 2)]
    publish(hub, [*files, "Q8_0/model.gguf"])
    for model in (HubGguf(REPO), HubGguf(REPO, file=files[0])):
        path = pull_gguf(tmp_path, model, options=options())
        assert path == find_gguf(tmp_path, model)
        assert path.read_bytes() == body_of(files[0])
    assert pull_gguf(tmp_path, HubGguf(REPO, "Q8_0"), options=options()).read_bytes() == body_of("Q8_0/model.gguf")
    assert find_gguf(tmp_path, HubGguf(REPO)) == path


def test_other_bytes_than_the_hub_tells_are_not_taken(hub: FileServer, tmp_path: Path) -> None:
    publish(hub)
    digest = hashlib.sha256(body_of(FILES[0])).hexdigest()
    hub.put_hub_file(REPO, FILES[0], body_of("another"), etag=digest)
    with pytest.raises(ModelError, match="SHA-256 differs") as caught:
        pull_gguf(tmp_path, HubGguf(REPO), options=options())
    assert caught.value.code == "model_download_failed"
    with pytest.raises(ModelError):
        find_gguf(tmp_path, HubGguf(REPO))


def test_a_quantisation_that_is_not_there_names_those_that_are(hub: FileServer, tmp_path: Path) -> None:
    publish(hub)
    with pytest.raises(ModelError, match=r"It has: BF16, F16, Q4_K_M, Q4_K_XL, Q8_0, UD-Q4_K_XL") as caught:
        pull_gguf(tmp_path, HubGguf(REPO, "Q3_K_S"), options=options())
    assert caught.value.code == "model_unknown"
    publish(hub, [], "Qwen/Qwen3-4B")
    with pytest.raises(ModelError, match="mostly called …-GGUF"):
        pull_gguf(tmp_path, HubGguf("Qwen/Qwen3-4B"), options=options())


@pytest.mark.parametrize("status", [401, 404])
def test_a_repository_that_is_not_there_is_told_apart_from_a_hub_that_is_away(
    hub: FileServer, tmp_path: Path, status: int
) -> None:
    publish(hub)
    hub.served[f"/api/models/{REPO}/tree/main"].status = status
    with pytest.raises(ModelError, match=rf"no open repository {REPO}.*spelling") as caught:
        pull_gguf(tmp_path, HubGguf(REPO), options=options())
    assert caught.value.code == "model_unknown"


@pytest.mark.parametrize("listing", [b"<html>", b'{"error": "x"}', b'[{"no": "type"}]', b"[1]", b"null"])
def test_a_hub_that_answers_nonsense_is_away(hub: FileServer, tmp_path: Path, listing: bytes) -> None:
    hub.put(f"/api/models/{REPO}/tree/main", listing)
    with pytest.raises(ModelError, match=r"cannot be reached.*HF_ENDPOINT") as caught:
        pull_gguf(tmp_path, HubGguf(REPO), options=options())
    assert (caught.value.code, caught.value.retryable) == ("model_download_failed", True)


def test_without_a_network_it_says_so(hub: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(hub)
    hub.served[f"/api/models/{REPO}/tree/main"].status = 503
    with pytest.raises(ModelError, match="answered 503"):
        pull_gguf(tmp_path, HubGguf(REPO), options=options())
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match="cannot be reached"):
        pull_gguf(tmp_path, HubGguf(REPO), options=options())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.requests.clear()
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE"):
        pull_gguf(tmp_path, HubGguf(REPO), options=options())
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE unset"):
        find_gguf(tmp_path, HubGguf(REPO))
    assert hub.requests == []


def test_a_file_put_here_by_hand_and_one_in_the_hubs_cache_are_found(hub: FileServer, tmp_path: Path) -> None:
    own = tmp_path / REPO
    own.mkdir(parents=True)
    (own / "my-q5_k_m.gguf").touch()
    assert find_gguf(tmp_path, HubGguf(REPO, "Q5_K_M")).name == "my-q5_k_m.gguf"
    snapshot = tmp_path / "cache" / "models--Qwen--Other-GGUF" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "Other-Q4_0.gguf").touch()
    refs = snapshot.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text("0" * 40)
    assert find_gguf(tmp_path, HubGguf("Qwen/Other-GGUF")) == snapshot / "Other-Q4_0.gguf"
