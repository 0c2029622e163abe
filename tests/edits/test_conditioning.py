"""What a generator is given of the clips of a corpus."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from evenreel.corpus import make_corpus
from evenreel.edits.equalise import Conditioning, prepare_requests
from evenreel.errors import CorpusError
from evenreel.media import probe
from evenreel.planted import write_clip
from evenreel.types import Corpus
from tests.media_files import number_in, numbered_picture


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two films of 10 numbered frames, the second from number 100 on, and a file that is none."""
    folder = tmp_path_factory.mktemp("videos")
    for name, first in (("a.mp4", 0), ("b.mp4", 100)):
        write_clip(folder / name, (numbered_picture(first + number) for number in range(10)), 10)
    (folder / "broken.mp4").write_bytes(b"no video" * 50)
    return folder


@pytest.fixture
def corpus() -> Corpus:
    rows = [
        ("x/a", "a.mp4", "train", None, None),
        ("b", "b.mp4", "test", None, None),
        ("broken", "broken.mp4", "train", None, None),
        ("nowhere", None, "train", None, None),
        ("silent", "a.mp4", "train", None, None),
        ("a@sora-text", "a.mp4", "train", "sora", "x/a"),
    ]
    clips = pl.DataFrame(rows, schema=["clip_id", "path", "split", "source", "pair_id"], orient="row")
    said = ["x/a", "b", "broken", "nowhere"]
    captions = pl.DataFrame({"caption_id": said, "clip_id": said, "text": [f"about {one}" for one in said]})
    return make_corpus(clips, captions)


def aside(clips: object) -> dict[str, str]:
    return {one.clip_id: one.reason for one in clips}  # type: ignore[attr-defined]


def test_captions_alone_need_no_video(corpus: Corpus, tmp_path: Path) -> None:
    shares: list[float] = []
    prepared = prepare_requests(corpus, tmp_path / "out", Conditioning(workers=1), shares.append)
    assert [(one.clip_id, one.prompt) for one in prepared.requests] == [
        ("x/a", "About x/a."),
        ("b", "About b."),
        ("broken", "About broken."),
        ("nowhere", "About nowhere."),
    ]
    assert aside(prepared.set_aside) == {"silent": "failed"}
    assert "caption" in prepared.set_aside[0].sentence
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["prompts.csv"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_captions_that_a_model_cannot_fuse_cost_their_clip_alone(corpus: Corpus, tmp_path: Path) -> None:
    def fuse(captions: Sequence[str]) -> str:
        if captions == ["about b"]:
            raise TimeoutError("the model does not answer")
        return " " if captions == ["about nowhere"] else captions[0].upper()

    prepared = prepare_requests(corpus, tmp_path, Conditioning(fuse=fuse, workers=2))
    assert [one.prompt for one in prepared.requests] == ["ABOUT X/A", "ABOUT BROKEN"]
    assert [one.clip_id for one in prepared.set_aside] == ["b", "nowhere", "silent"]
    assert "TimeoutError: the model does not answer" in prepared.set_aside[0].sentence


def test_keyframes_lie_beside_the_table_and_are_made_once(corpus: Corpus, videos: Path, tmp_path: Path) -> None:
    given = Conditioning("image", videos, workers=2)
    prepared = prepare_requests(corpus, tmp_path, given)
    assert aside(prepared.set_aside) == {"broken": "not_media", "nowhere": "unreadable", "silent": "failed"}
    keyframes = {"x/a": tmp_path / "keyframes" / "x%2Fa.png", "b": tmp_path / "keyframes" / "b.png"}
    assert {one.clip_id: one.keyframe for one in prepared.requests} == keyframes
    assert [number_in(np.asarray(Image.open(path))) for path in keyframes.values()] == [2, 102]
    with prepared.path.open(newline="") as file:
        assert [row["keyframe"] for row in csv.DictReader(file)] == ["keyframes/x%2Fa.png", "keyframes/b.png"]

    stamps = [path.stat().st_mtime_ns for path in keyframes.values()]
    assert prepare_requests(corpus, tmp_path, replace(given, split="test")).requests == prepared.requests[1:]
    assert [path.stat().st_mtime_ns for path in keyframes.values()] == stamps


def test_first_halves(corpus: Corpus, videos: Path, tmp_path: Path) -> None:
    prepared = prepare_requests(corpus, tmp_path, Conditioning("video", videos, split="test", workers=1))
    (request,) = prepared.requests
    assert request.first_half == tmp_path / "first_halves" / "b.mp4"
    assert request.keyframe is None
    info = probe(request.first_half)
    assert (info.frame_count, info.fps) == (5, 10.0)


def test_where_nothing_can_be_written_is_said(corpus: Corpus, videos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"b\.png cannot be written"):
        prepare_requests(corpus, tmp_path / "file", Conditioning("image", videos, split="test", workers=1))
    with pytest.raises(CorpusError, match="the splits are: test, train"):
        prepare_requests(corpus, tmp_path, Conditioning(split="tset"))
