"""Clips brought to one form, and what a generator is given of the clips of a corpus."""

from __future__ import annotations

import csv
import json
import shutil
import signal
from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from polars.testing import assert_frame_equal

from evenreel.audits.confounds import audit_confounds
from evenreel.audits.settings import AuditSettings
from evenreel.config import MediaLimits
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.edits import equalise as module
from evenreel.edits.equalise import Conditioning, EqualiseReport, ExcerptReader, common_form, equalise, prepare_requests
from evenreel.edits.settings import EqualiseSettings
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.features.facts import ClipFacts, FactSettings, clip_facts
from evenreel.files import TEMPORARY_SUFFIX
from evenreel.media import open_video, parse_rule, probe
from evenreel.media.encode import Form, framed, inner_size
from evenreel.media.encode import steady as evenly
from evenreel.planted import write_clip
from evenreel.types import Corpus, Frame, Scores
from tests.features.killed_run import exit_code, make_equal
from tests.features.mirrors import MADE_SIZE, write_mirrors
from tests.media_files import Film, gop, number_in, numbered_picture, steady, write_film

FAMILY_FRAMES = {"r0": 15, "g0": 15, "r1": 17, "g1": 17, "r2": 30, "part": 10}
"""At 10 frames a second: the shorter of a pair (the last frame of a mirror is shown for 0.04 s), else all of a clip."""

FATAL = 5
"""The write that a run dies at: after the facts, the page and two clips."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mirrors")


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    return write_mirrors(folder)


@pytest.fixture(scope="module")
def settings(folder: Path) -> EqualiseSettings:
    return EqualiseSettings(folder, fps=10, fit="crop", workers=2)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("equal") / "corpus"


@pytest.fixture(scope="module")
def report(corpus: Corpus, settings: EqualiseSettings, out: Path) -> EqualiseReport:
    return equalise(corpus, out, settings)


def test_every_clip_has_one_form_and_a_pair_one_length(report: EqualiseReport, out: Path) -> None:
    new = load_corpus(out)
    said = new.clips.select("clip_id", "codec", "width", "height", "fps", "duration_s", "frame_count")
    assert_frame_equal(said, clip_facts(new, FactSettings(out, workers=1)).table)
    assert dict(new.clips.select("clip_id", "frame_count").iter_rows()) == FAMILY_FRAMES
    assert said.select("codec", "width", "height", "fps").unique().rows() == [("H.264", *MADE_SIZE, 10.0)]
    assert new.clips["start_s"].null_count() == new.clips["end_s"].null_count() == 6
    assert new.captions["caption_id"].to_list() == ["0", "1", "2", "3"]


def test_the_report_says_what_is_left_out(report: EqualiseReport, out: Path) -> None:
    assert (report.encoded, report.unchanged) == (6, 0)
    assert [(one.clip_id, one.reason) for one in report.set_aside] == [("bad", "not_media")]
    page = json.loads((out / module.PAGE).read_text())
    assert page | {"version": 0} == {"version": 0, **report.form}
    assert report.form == {"fps": "10", "width": 96, "height": 48, "fit": "crop", "crf": 23}


@pytest.mark.parametrize(("clip", "first", "step"), [("r0", 0, 2), ("part", 20, 2), ("g0", 0, 1)])
def test_the_pictures_are_those_on_screen_at_each_moment(
    report: EqualiseReport, out: Path, clip: str, first: int, step: int
) -> None:
    path = load_corpus(out).clips.row(by_predicate=pl.col("clip_id") == clip, named=True)["path"]
    with open_video(out / path) as video:
        numbers = [number_in(frame.pixels) for frame in video.frames(parse_rule("every 0.1 s"))]
    assert numbers == [first + step * place for place in range(FAMILY_FRAMES[clip])]


def test_what_is_there_is_left_alone_and_what_is_missing_is_written_the_same(
    corpus: Corpus, settings: EqualiseSettings, report: EqualiseReport, out: Path, tmp_path: Path
) -> None:
    shutil.copytree(out, tmp_path / "corpus")
    first = sorted((tmp_path / "corpus" / "clips").iterdir())[0]
    before = first.read_bytes()
    first.unlink()
    again = equalise(corpus, tmp_path / "corpus", replace(settings, workers=1))
    assert (again.encoded, again.unchanged) == (1, 5)
    assert first.read_bytes() == before
    assert load_corpus(tmp_path / "corpus").clips.equals(load_corpus(out).clips)


def test_a_run_that_is_killed_goes_on_and_ends_as_an_undisturbed_one(
    corpus: Corpus, folder: Path, settings: EqualiseSettings, report: EqualiseReport, out: Path, tmp_path: Path
) -> None:
    def clips(place: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (place / "clips").iterdir() if path.suffix == ".mp4"}

    save_corpus(corpus, tmp_path / "before")
    assert exit_code(make_equal, tmp_path / "before", folder, tmp_path / "corpus", FATAL) == -signal.SIGKILL
    written = clips(tmp_path / "corpus")
    assert len(written) == FATAL - 3
    assert written.items() <= clips(out).items()
    assert not (tmp_path / "corpus" / "clips.parquet").exists()

    again = equalise(corpus, tmp_path / "corpus", settings)
    assert (again.encoded, again.unchanged) == (6 - len(written), len(written))
    assert clips(tmp_path / "corpus") == clips(out)
    assert load_corpus(tmp_path / "corpus").clips.equals(load_corpus(out).clips)
    assert not list((tmp_path / "corpus").rglob(f"*{TEMPORARY_SUFFIX}"))


def test_another_form_replaces_the_clips(
    corpus: Corpus, settings: EqualiseSettings, report: EqualiseReport, out: Path, tmp_path: Path
) -> None:
    shutil.copytree(out, tmp_path / "corpus")
    again = equalise(corpus, tmp_path / "corpus", replace(settings, fit="pad", duration_s=1.7))
    new = load_corpus(tmp_path / "corpus").clips
    assert new["clip_id"].to_list() == ["r0", "r1", "r2", "g1"]
    assert new["frame_count"].unique().to_list() == [17]
    assert {one.clip_id for one in again.set_aside} == {"bad", "g0", "part"}
    assert "1.54 s long, and 1.7 s are asked for" in next(o.sentence for o in again.set_aside if o.clip_id == "g0")
    assert {f"clips/{path.name}" for path in (tmp_path / "corpus" / "clips").iterdir()} == set(new["path"])
    assert any("camera 100 %, sora 0 %" in notice for notice in again.notices)


def test_the_confounds_audit_finds_them_alike(report: EqualiseReport, out: Path) -> None:
    new = load_corpus(out)
    captions, clips = new.captions["caption_id"].to_list(), new.clips["clip_id"].to_list()
    scores = Scores(np.random.default_rng(0).normal(size=(len(captions), len(clips))), captions, clips)
    found = audit_confounds(scores, new, AuditSettings(resamples=0))
    shares = {row[1]: row[6] for row in found.tables[0].rows[1:]}
    assert shares == dict.fromkeys(("codec", "frame rate", "picture size", "duration", "all of these"), 100.0)


@pytest.mark.usefixtures("corpus")  # which writes the folder's files
def test_mirrors_go_with_a_real_clip_that_cannot_be_encoded(folder: Path, tmp_path: Path) -> None:
    clips = pl.DataFrame(
        {
            "clip_id": ["lost", "kept", "orphan", "mirror"],
            "path": ["bad.mp4", "r0.mp4", "g0.mkv", "g0.mkv"],
            "source": ["camera", "camera", "sora", "sora"],
            "pair_id": [None, None, "lost", "kept"],
        }
    )
    captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["lost", "kept"], "text": ["a", "b"]})
    report = equalise(make_corpus(clips, captions), tmp_path / "out", EqualiseSettings(folder, fps=5, workers=1))
    new = load_corpus(tmp_path / "out")
    assert new.clips["clip_id"].to_list() == ["kept", "mirror"]
    assert new.captions["caption_id"].to_list() == ["1"]
    assert [one.clip_id for one in report.set_aside] == ["lost", "orphan"]
    assert report.set_aside[1].sentence == "the real clip that it mirrors, lost, was skipped"


def test_defaults_are_the_lowest_medians_of_the_groups(corpus: Corpus) -> None:
    ids = ["r0", "r1", "r2", "g0", "g1", "part"]
    table = pl.DataFrame(
        {
            "clip_id": ids,
            "fps": [30.0, 29.97002997, 1.0, 24.0, 24.0, 30.0],
            "width": [320, 320, 320, 640, 640, 320],
            "height": [240, 240, 100, 360, 360, 241],
            "duration_s": [2.0] * 6,
        }
    )
    form = common_form(corpus, ClipFacts(table), EqualiseSettings())
    assert (form.fps, form.width, form.height) == (Fraction(24), 320, 240)
    asked = common_form(corpus, ClipFacts(table), EqualiseSettings(fps=29.97002997, height=120))
    assert (asked.fps, asked.width, asked.height) == (Fraction(30000, 1001), 160, 120)


def test_nobody_elses_files_are_replaced(corpus: Corpus, settings: EqualiseSettings, tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    with pytest.raises(CorpusError, match="holds clips already, of no equalised corpus"):
        equalise(corpus, tmp_path, settings)
    with pytest.raises(CorpusError, match="that are to be read lie in"):
        equalise(corpus, settings.videos, settings)


def test_a_corpus_without_readable_videos_says_so(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="video of no clip can be read"):
        equalise(corpus, tmp_path / "out", EqualiseSettings(tmp_path, workers=1))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"fps": 0.0}, "more than 0 and at most 240"),
        ({"fps": float("nan")}, "more than 0 and at most 240"),
        ({"height": 241}, "even number"),
        ({"width": 2}, "even number"),
        ({"duration_s": -1.0}, "give more than 0"),
        ({"fit": "stretch"}, "there are: pad, crop"),
        ({"crf": 60}, "x264 has 0 to 51"),
    ],
)
def test_a_form_that_cannot_be_is_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        EqualiseSettings(**wrong)  # type: ignore[arg-type]


def read(path: Path, excerpt: str, part: tuple[float | None, float | None] = (None, None)) -> list[NDArray[Any]]:
    reader = ExcerptReader(asdict(MediaLimits()))
    messages = list(reader({"path": str(path), "part": list(part), "excerpt": excerpt}))
    return [array for _, array in messages if array is not None]


def numbers(path: Path) -> list[int]:
    with open_video(path) as video:
        return [number_in(frame.pixels) for frame in video.frames(parse_rule("every 0.001 s"))]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 frames at 25 a second, each with its number."""
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    write_clip(path, (numbered_picture(number) for number in range(23)), 25)
    return path


@pytest.mark.parametrize(
    ("part", "number"), [((None, None), 4), ((0.4, None), 10 + 2), ((None, 0.2), 1), ((0.2, 0.24), 5)]
)
def test_the_keyframe_is_a_fifth_into_the_clip(
    film: Path, part: tuple[float | None, float | None], number: int
) -> None:
    (pixels,) = read(film, "keyframe", part)
    assert number_in(pixels) == number


@pytest.mark.parametrize(
    ("part", "shown"),
    [((None, None), range(11)), ((0.4, None), range(10, 16)), ((0.2, 0.6), range(5, 10)), ((0.2, 0.24), range(5, 6))],
)
def test_the_first_half_has_its_frames_at_their_rate(
    film: Path, tmp_path: Path, part: tuple[float | None, float | None], shown: range
) -> None:
    (first,), (again,) = read(film, "first_half", part), read(film, "first_half", part)
    assert first.tobytes() == again.tobytes()
    half = tmp_path / "half.mp4"
    half.write_bytes(first.tobytes())
    assert numbers(half) == list(shown)
    info = probe(half)
    assert (info.codec, info.width, info.height, info.fps) == ("H.264", 96, 64, 25.0)


def test_odd_sides_lose_a_row_or_column(tmp_path: Path) -> None:
    film = Film(steady(6), size=(97, 65), pix_fmt="yuv444p", options=gop(5))
    source = write_film(tmp_path / "odd.mkv", film)
    (half,) = read(source, "first_half")
    (tmp_path / "half.mp4").write_bytes(half.tobytes())
    info = probe(tmp_path / "half.mp4")
    assert (info.width, info.height, info.frame_count) == (96, 64, 3)


def test_a_picture_that_changes_its_size_has_no_first_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "film.mp4"
    write_clip(source, [numbered_picture(0)] * 8, 25)
    from evenreel.media.picture import PictureMaker

    sizes = iter([(64, 96), (64, 90)])
    monkeypatch.setattr(PictureMaker, "pixels", lambda self, frame: np.zeros((*next(sizes), 3), np.uint8))
    with pytest.raises(MediaError, match="changes on the way"):
        read(source, "first_half")


hundredths = st.integers(1, 60)
sides = st.integers(1, 900)


@given(gaps=st.lists(hundredths, min_size=1, max_size=12), start=st.integers(0, 300), fps=st.integers(1, 50))
def test_each_moment_shows_the_last_frame_before_it(gaps: list[int], start: int, fps: int) -> None:
    times = np.cumsum([start, *gaps]) / 100
    frames = [Frame(float(time), np.full((1, 1, 3), place, np.uint8)) for place, time in enumerate(times)]
    count, start_s = 20, start / 100
    shown = [int(pixels[0, 0, 0]) for pixels in evenly(frames, Fraction(fps), start_s, count)]
    moments = [start_s + number / fps for number in range(count)]
    assert shown == [max(sum(time <= moment + 1e-6 for time in times) - 1, 0) for moment in moments]


@given(width=sides, height=sides, frame=st.tuples(st.integers(8, 320), st.integers(8, 240)))
def test_pad_stays_inside_and_crop_covers(width: int, height: int, frame: tuple[int, int]) -> None:
    whole = inner_size(width, height, Form(Fraction(8), *frame))
    filled = inner_size(width, height, Form(Fraction(8), *frame, "crop"))
    assert whole[0] <= frame[1]
    assert whole[1] <= frame[0]
    assert whole[0] == frame[1] or whole[1] == frame[0]
    assert filled[0] >= frame[1]
    assert filled[1] >= frame[0]
    assert filled[0] == frame[1] or filled[1] == frame[0]


@pytest.mark.parametrize("size", [(4, 6), (10, 6), (4, 12), (10, 12), (6, 10), (5, 9)])
def test_a_picture_stands_in_the_middle(size: tuple[int, int]) -> None:
    """A mark in the middle of the picture is in the middle of the frame, to a pixel; what is beside it is black."""
    height, width = size
    picture = np.full((height, width, 3), 200, np.uint8)
    picture[height // 2, width // 2] = 255
    done = framed(picture, 10, 6)
    assert done.shape == (6, 10, 3)
    row, column = np.argwhere(done[..., 0] == 255)[0]
    assert abs(row - 3) <= 1
    assert abs(column - 5) <= 1
    assert (done[..., 0] > 0).sum() == min(height, 6) * min(width, 10)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two films of 10 numbered frames, the second from number 100 on, and a file that is none."""
    folder = tmp_path_factory.mktemp("videos")
    for name, first in (("a.mp4", 0), ("b.mp4", 100)):
        write_clip(folder / name, (numbered_picture(first + number) for number in range(10)), 10)
    (folder / "broken.mp4").write_bytes(b"no video" * 50)
    return folder


@pytest.fixture
def mirrored() -> Corpus:
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


def test_captions_alone_need_no_video(mirrored: Corpus, tmp_path: Path) -> None:
    shares: list[float] = []
    prepared = prepare_requests(mirrored, tmp_path / "out", Conditioning(workers=1), shares.append)
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


def test_captions_that_a_model_cannot_fuse_cost_their_clip_alone(mirrored: Corpus, tmp_path: Path) -> None:
    def fuse(captions: Sequence[str]) -> str:
        if captions == ["about b"]:
            raise TimeoutError("the model does not answer")
        return " " if captions == ["about nowhere"] else captions[0].upper()

    prepared = prepare_requests(mirrored, tmp_path, Conditioning(fuse=fuse, workers=2))
    assert [one.prompt for one in prepared.requests] == ["ABOUT X/A", "ABOUT BROKEN"]
    assert [one.clip_id for one in prepared.set_aside] == ["b", "nowhere", "silent"]
    assert "TimeoutError: the model does not answer" in prepared.set_aside[0].sentence


def test_keyframes_lie_beside_the_table_and_are_made_once(mirrored: Corpus, videos: Path, tmp_path: Path) -> None:
    given = Conditioning("image", videos, workers=2)
    prepared = prepare_requests(mirrored, tmp_path, given)
    assert aside(prepared.set_aside) == {"broken": "not_media", "nowhere": "unreadable", "silent": "failed"}
    keyframes = {"x/a": tmp_path / "keyframes" / "x%2Fa.png", "b": tmp_path / "keyframes" / "b.png"}
    assert {one.clip_id: one.keyframe for one in prepared.requests} == keyframes
    assert [number_in(np.asarray(Image.open(path))) for path in keyframes.values()] == [2, 102]
    with prepared.path.open(newline="") as file:
        assert [row["keyframe"] for row in csv.DictReader(file)] == ["keyframes/x%2Fa.png", "keyframes/b.png"]

    stamps = [path.stat().st_mtime_ns for path in keyframes.values()]
    assert prepare_requests(mirrored, tmp_path, replace(given, split="test")).requests == prepared.requests[1:]
    assert [path.stat().st_mtime_ns for path in keyframes.values()] == stamps


def test_first_halves(mirrored: Corpus, videos: Path, tmp_path: Path) -> None:
    prepared = prepare_requests(mirrored, tmp_path, Conditioning("video", videos, split="test", workers=1))
    (request,) = prepared.requests
    assert request.first_half == tmp_path / "first_halves" / "b.mp4"
    assert request.keyframe is None
    info = probe(request.first_half)
    assert (info.frame_count, info.fps) == (5, 10.0)


def test_where_nothing_can_be_written_is_said(mirrored: Corpus, videos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"b\.png cannot be written"):
        prepare_requests(mirrored, tmp_path / "file", Conditioning("image", videos, split="test", workers=1))
    with pytest.raises(CorpusError, match="the splits are: test, train"):
        prepare_requests(mirrored, tmp_path, Conditioning(split="tset"))
