"""Clips of two codecs, rates, shapes and lengths become alike in all of them, and show what they showed."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from evenreel.audits.confounds import audit_confounds
from evenreel.audits.settings import AuditSettings
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.edits import equalise as module
from evenreel.edits.equalise import EqualiseReport, common_form, equalise
from evenreel.edits.settings import EqualiseSettings
from evenreel.errors import CorpusError, UsageError
from evenreel.features.facts import ClipFacts, FactSettings, clip_facts
from evenreel.files import TEMPORARY_SUFFIX
from evenreel.media import open_video, parse_rule
from evenreel.types import Corpus, Scores
from tests.features.killed_run import exit_code, make_equal
from tests.features.mirrors import MADE_SIZE, write_mirrors
from tests.media_files import number_in

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
