"""What a generator is given of the clips of a corpus, and what becomes of what a callable makes."""

from __future__ import annotations

import csv
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from evenreel.corpus import make_corpus, save_corpus
from evenreel.corpus.counterparts import counterparts
from evenreel.corpus.prompts import GenerationRequest
from evenreel.edits.conditioning import Conditioning, prepare_requests
from evenreel.edits.generation import Generate, generate_counterparts
from evenreel.errors import CorpusError
from evenreel.media import probe
from evenreel.planted import write_clip
from evenreel.types import Corpus
from tests.features.killed_run import exit_code
from tests.features.killed_run import generate as run_generator
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


def copying(source: Path, asked: list[str], fails: Callable[[str], bool] = lambda clip_id: False) -> Generate:
    """A generator that writes one and the same video."""

    def generate(request: GenerationRequest) -> Path | None:
        asked.append(request.clip_id)
        assert request.target is not None
        request.target.write_bytes(b"half a file")
        if fails(request.clip_id):
            raise RuntimeError("out of memory")
        shutil.copyfile(source, request.target)
        return request.target

    return generate


def test_a_generator_is_asked_for_each_clip_and_again_only_for_what_failed(
    corpus: Corpus, videos: Path, tmp_path: Path
) -> None:
    asked: list[str] = []
    given = Conditioning(videos=videos)
    generate = copying(videos / "b.mp4", asked, lambda clip_id: clip_id == "b")
    done = generate_counterparts(corpus, generate, tmp_path, "open", given)
    assert asked == ["x/a", "b", "broken", "nowhere"]
    assert (done.made, done.kept, aside(done.set_aside)) == (3, 0, {"b": "failed", "silent": "failed"})
    assert "RuntimeError: out of memory" in done.set_aside[0].sentence
    assert counterparts(done.corpus, "open text")["clip_id"].to_list() == ["x/a", "broken", "nowhere"]
    row = done.corpus.clips.row(by_predicate=pl.col("clip_id") == "x/a@open-text", named=True)
    assert row["path"] == str(tmp_path / "videos" / "x%2Fa.mp4")

    asked.clear()
    fused: list[str] = []
    given = replace(given, fuse=lambda captions: fused.append(captions[0]) or "x")  # type: ignore[func-returns-value]
    again = generate_counterparts(corpus, copying(videos / "a.mp4", asked), tmp_path, "open", given)
    assert asked == ["b"]
    assert fused == ["about b"]
    assert (again.made, again.kept) == (1, 3)
    assert counterparts(again.corpus, "open text")["clip_id"].to_list() == ["x/a", "b", "broken", "nowhere"]
    assert (tmp_path / "videos" / "x%2Fa.mp4").read_bytes() == (videos / "b.mp4").read_bytes()
    assert list((tmp_path / "unfinished").iterdir()) == []


def test_a_generator_that_is_killed_leaves_no_half_video_and_goes_on(
    corpus: Corpus, videos: Path, tmp_path: Path
) -> None:
    save_corpus(corpus, videos)
    assert exit_code(run_generator, videos, tmp_path, 2) == -signal.SIGKILL
    assert len(list((tmp_path / "videos").iterdir())) == 2  # one that is finished, one that has no name yet
    asked: list[str] = []
    done = generate_counterparts(
        corpus, copying(videos / "b.mp4", asked), tmp_path, "open", Conditioning(videos=videos)
    )
    assert asked == ["b", "broken", "nowhere"]
    assert (done.made, done.kept) == (3, 1)
    assert {path.read_bytes() for path in (tmp_path / "videos").iterdir()} == {(videos / "b.mp4").read_bytes()}
    assert len(list((tmp_path / "videos").iterdir())) == 4


def test_what_the_corpus_has_is_not_asked_for(corpus: Corpus, videos: Path, tmp_path: Path) -> None:
    asked: list[str] = []
    first = generate_counterparts(
        corpus, copying(videos / "a.mp4", asked), tmp_path, "open", Conditioning(split="test")
    )
    assert asked == ["b"]
    done = generate_counterparts(first.corpus, copying(videos / "a.mp4", asked), tmp_path, "open", Conditioning())
    assert asked == ["b", "x/a", "broken", "nowhere"]
    assert counterparts(done.corpus, "open text")["clip_id"].to_list() == ["b", "x/a", "broken", "nowhere"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "made no video"),
        ("gone.mp4", "No such file"),
        ("broken.mp4", "not a video"),
        ("notes.txt", "no suffix of a video"),
    ],
)
def test_what_is_no_video_is_set_aside(
    corpus: Corpus, videos: Path, tmp_path: Path, made: str | None, said: str
) -> None:
    given = Conditioning(videos=videos, split="test")
    done = generate_counterparts(corpus, lambda request: videos / made if made else None, tmp_path, "open", given)
    assert [one.clip_id for one in done.set_aside] == ["b"]
    assert said in done.set_aside[0].sentence
    assert done.corpus is corpus


def test_a_generator_may_write_elsewhere_and_sees_the_keyframe(corpus: Corpus, videos: Path, tmp_path: Path) -> None:
    seen: list[int] = []

    def generate(request: GenerationRequest) -> Path:
        assert request.keyframe is not None
        seen.append(number_in(np.asarray(Image.open(request.keyframe))))
        return videos / "a.mp4"

    given = Conditioning("image", videos, split="test")
    done = generate_counterparts(corpus, generate, tmp_path, "open", given)
    assert seen == [102]
    assert counterparts(done.corpus)["group"].to_list() == ["sora", "open image"]
    assert (videos / "a.mp4").is_file()
