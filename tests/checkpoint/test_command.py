"""`evenreel search --rerank`, in a real process on a real library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import evenreel
from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, load_matcher, save_pretrained
from evenreel.checkpoint.architecture import build, module
from evenreel.cli.app import app
from evenreel.config import IndexSettings
from evenreel.encoders import load_encoder
from evenreel.errors import CheckpointError, LibraryError, UsageError
from evenreel.library.search.rerank import check_encoder
from tests.library.videos import write_folder

ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`library`, made of three videos with the encoder of the package, and `checkpoint`, a matcher for it."""
    place = tmp_path_factory.mktemp("rerank")
    write_folder(place / "videos", 3)
    settings = IndexSettings(model="builtin", read_text=False, device="cpu")
    evenreel.index_folders([place / "videos"], place / "library", settings)
    encoder = load_encoder("builtin", device="cpu")
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    save(place / "checkpoint", note)
    save(place / "foreign", EncoderNote("org/other", "00" * 32, encoder.dimension))
    return place


def save(folder: Path, note: EncoderNote) -> None:
    spec = MatcherSpec("mean_pool")
    matcher = build(spec, note.dimension)
    save_pretrained(folder, Pretrained(matcher, spec, About(note, Inputs(frames=12, words=32))))


def search(place: Path, *arguments: str) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, ["search", *arguments, "--library", str(place / "library")])


def test_hits_show_both_scores(place: Path) -> None:
    asked = ["a red circle", "--all", "--rerank", str(place / "checkpoint"), "--library", str(place / "library")]
    command = [sys.executable, "-m", "evenreel", "search", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if "reranked" in line]
    assert len(lines) == 3
    assert all("visual match " in line for line in lines)


def test_as_json_the_order_is_that_of_the_matcher(place: Path) -> None:
    done = search(place, "a red circle", "--rerank", str(place / "checkpoint"), "--json", "--rerank-depth", "2")
    assert (done.exit_code, done.stderr) == (0, "")
    scores = [hit["scores"]["reranked"] for hit in json.loads(done.stdout)["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3  # as many as are shown, though fewer were asked for


def test_in_python_it_is_the_same(place: Path) -> None:
    done = search(place, "a red circle", "--rerank", str(place / "checkpoint"), "--json", "--device", "cpu")
    with evenreel.open_library(place / "library", device="cpu") as library:
        result = library.search("a red circle", rerank=load_matcher(place / "checkpoint"))
    assert result.to_json() == json.loads(done.stdout, object_hook=_tuples) | {"notices": result.notices}


def _tuples(table: dict[str, object]) -> dict[str, object]:
    """JSON knows no tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def test_a_matcher_for_another_encoder_is_refused(place: Path) -> None:
    done = search(place, "a red circle", "--rerank", str(place / "foreign"))
    assert isinstance(done.exception, LibraryError)
    assert done.stdout == ""
    assert "trained on features of org/other, the library was made with builtin" in str(done.exception)
    assert "--model org/other" in str(done.exception)


def test_towers_that_were_trained_further_are_named_where_they_lie() -> None:
    spec = MatcherSpec("mean_pool")
    note = EncoderNote("builtin", "00" * 32, 16, before="11" * 32)
    with pytest.raises(LibraryError, match=r"builtin, trained further, .* with --model CHECKPOINT/encoder to re-rank"):
        check_encoder(Pretrained(build(spec, 16), spec, About(note)), "builtin", "11" * 32)


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (("a red circle", "--rerank", "no/where"), CheckpointError, "cannot be downloaded"),
        (("a red circle", "--rerank", "checkpoint", "--no-vision"), UsageError, "--rerank needs a sentence and vision"),
    ],
)
def test_wrong_usage_is_said(place: Path, arguments: tuple[str, ...], kind: type[Exception], sentence: str) -> None:
    done = search(place, *arguments)
    assert isinstance(done.exception, kind)
    assert sentence in str(done.exception)


def test_a_library_without_vision_cannot_be_re_ranked(place: Path) -> None:
    with (
        evenreel.open_library(place / "library", vision=False) as library,
        pytest.raises(UsageError, match="without vision"),
    ):
        library.search("a red circle", rerank=load_matcher(place / "checkpoint"))


def test_the_encoder_is_checked_before_it_is_loaded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.encoders.load_encoder", lambda *_, **__: pytest.fail("was loaded"))
    with evenreel.open_library(place / "library") as library, pytest.raises(LibraryError, match="org/other"):
        library.search("a red circle", rerank=load_matcher(place / "foreign"))


def test_the_matcher_stays_in_its_mode(place: Path) -> None:
    pretrained = load_matcher(place / "checkpoint")
    module(pretrained.matcher).train()
    with evenreel.open_library(place / "library", device="cpu") as library:
        library.search("a red circle", rerank=pretrained)
    assert module(pretrained.matcher).training
