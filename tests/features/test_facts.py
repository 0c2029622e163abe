"""What headers say: equal to what was written, each file looked at once, whatever a decoder does."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import polars as pl
import pytest

from evenreel.config import MediaLimits
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError
from evenreel.features import facts as module
from evenreel.features.facts import FACTS, ClipFacts, FactSettings, clip_facts, with_facts
from evenreel.media.workers import Worker
from evenreel.types import Corpus
from tests.features.mirrors import MADE_FPS, MADE_FRAMES, MADE_SIZE, REAL_FPS, REAL_FRAMES, REAL_SIZE, write_mirrors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mirrors")


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    return write_mirrors(folder)


@pytest.fixture(scope="module")
def facts(corpus: Corpus, folder: Path) -> ClipFacts:
    return clip_facts(corpus, FactSettings(folder, folder / FACTS, workers=2))


def test_facts_equal_what_was_written(facts: ClipFacts) -> None:
    said = {row.pop("clip_id"): row for row in facts.table.iter_rows(named=True)}
    for number, count in enumerate(REAL_FRAMES):
        assert said[f"r{number}"] == {
            "codec": "H.264", "width": REAL_SIZE[0], "height": REAL_SIZE[1], "fps": REAL_FPS,
            "duration_s": count / REAL_FPS, "frame_count": count,
        }  # fmt: skip
    for number, count in enumerate(MADE_FRAMES):
        made = said[f"g{number}"]
        assert (made["codec"], made["width"], made["height"]) == ("MPEG-4", *MADE_SIZE)
        assert made["duration_s"] == pytest.approx(count / MADE_FPS, abs=0.1)
        assert made["frame_count"] is None  # Matroska does not say


def test_a_part_has_its_own_length_and_a_file_that_is_no_video_is_set_aside(facts: ClipFacts) -> None:
    part = facts.table.row(by_predicate=pl.col("clip_id") == "part", named=True)
    assert (part["duration_s"], part["frame_count"], part["fps"]) == (1.0, None, REAL_FPS)
    assert [(one.clip_id, one.reason) for one in facts.set_aside] == [("bad", "not_media")]
    assert facts.table["clip_id"].to_list() == ["r0", "r1", "r2", "g0", "g1", "part"]


def test_a_known_file_is_not_opened_again_and_others_are(
    corpus: Corpus, folder: Path, facts: ClipFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    class Watching(Worker):
        def run(self, task):  # type: ignore[no-untyped-def]
            opened.append(Path(task["path"]).name)
            return super().run(task)

    monkeypatch.setattr(module, "Worker", Watching)
    settings = FactSettings(folder, folder / FACTS, workers=1)
    again = clip_facts(corpus, settings)
    assert again.table.equals(facts.table)
    assert again.set_aside == facts.set_aside
    assert opened == ["bad.mp4"]  # what failed is tried again
    path = folder / "bad.mp4"
    path.write_bytes((folder / "r0.mp4").read_bytes())
    try:
        assert clip_facts(corpus, settings).set_aside == ()
    finally:
        path.write_text("not a video")
    assert opened == ["bad.mp4"] * 2
    assert clip_facts(corpus, settings).set_aside == facts.set_aside
    assert opened == ["bad.mp4"] * 3


def test_a_damaged_cache_costs_time_alone(corpus: Corpus, folder: Path, facts: ClipFacts, tmp_path: Path) -> None:
    cache = tmp_path / FACTS
    cache.write_bytes(b"not parquet")
    assert clip_facts(corpus, FactSettings(folder, cache, workers=1)).table.equals(facts.table)


def test_what_cannot_be_looked_at_is_set_aside_with_its_reason(
    folder: Path, facts: ClipFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "crash.mp4").write_bytes(b"x")
    clips = pl.DataFrame(
        {
            "clip_id": ["whole", "crash", "gone", "nowhere", "late"],
            "path": ["r0.mp4", "crash.mp4", "gone.mp4", None, "r0.mp4"],
            "start_s": [None] * 4 + [60.0],
        }
    )
    captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["whole"], "text": ["a"]})
    monkeypatch.setattr(module, "READER", "tests.features.stub_header_reader:StubHeaderReader")
    found = clip_facts(make_corpus(clips, captions), FactSettings(folder, workers=1))
    assert found.table["clip_id"].to_list() == ["whole"]
    reasons = {one.clip_id: one.reason for one in found.set_aside}
    assert reasons == {
        "crash": "crashed", "gone": "unreadable", "nowhere": "unreadable", "late": "no_frames",
    }  # fmt: skip
    assert "begins at 60 s of a video that ends at 2.00 s" in found.set_aside[-1].sentence


def test_a_video_that_hangs_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "hang.mp4").write_bytes(b"x")
    corpus = make_corpus(
        pl.DataFrame({"clip_id": ["a"], "path": ["hang.mp4"]}),
        pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a"]}),
    )
    monkeypatch.setattr(module, "READER", "tests.features.stub_header_reader:StubHeaderReader")
    limits = dataclasses.replace(MediaLimits(), stall_timeout_s=0.2)
    found = clip_facts(corpus, FactSettings(folder, limits=limits, workers=1))
    assert [one.reason for one in found.set_aside] == ["timeout"]


def test_facts_go_into_a_corpus_and_what_is_unknown_stays(corpus: Corpus, facts: ClipFacts) -> None:
    before = make_corpus(corpus.clips.with_columns(frame_count=7, codec=pl.lit("as said")), corpus.captions)
    after = with_facts(before, facts).clips
    rows = {row["clip_id"]: row for row in after.iter_rows(named=True)}
    assert (rows["r0"]["codec"], rows["r0"]["frame_count"], rows["r0"]["duration_s"]) == ("H.264", 40, 2.0)
    assert rows["part"]["frame_count"] == 7
    assert rows["bad"]["codec"] == "as said"
    assert rows["bad"]["width"] is None


def test_a_column_of_another_meaning_is_refused(corpus: Corpus, facts: ClipFacts) -> None:
    own = make_corpus(corpus.clips.with_columns(width=pl.lit("broad")), corpus.captions)
    with pytest.raises(CorpusError, match="has the name of a fact"):
        with_facts(own, facts)
