"""TREC runs and judgements, read and written, against lines written by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import class_relevance, make_corpus, own_clip
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.saving import write_qrels, write_run
from evenreel.evaluation.scores import read_run
from evenreel.types import Corpus, ScoreNotes, Scores

CAPTIONS, CLIPS = ["c0", "c1", "c2"], ["v0", "v1", "v2"]


@pytest.fixture
def corpus() -> Corpus:
    clips = pl.DataFrame({"clip_id": CLIPS, "verb_classes": [[0], [0], [1]], "noun_classes": [[0], [1, 2], [3]]})
    captions = clips.with_columns(caption_id=pl.Series(CAPTIONS), text=pl.Series(["a", "b", "c"]))
    return make_corpus(clips, captions)


RUN = "c0 Q0 v1 1 0.5 t\nc0\tQ0  v0\t2 -inf t\n\n  c2 Q0 v2 9 1e-3 t \n"
HELD = np.array([[-np.inf, 0.5, -np.inf], [-np.inf] * 3, [-np.inf, -np.inf, 0.001]])


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.run", "a{0}.txt", "a.run.gz"])
def test_a_run_is_read_by_its_scores(corpus: Corpus, tmp_path: Path, name: str) -> None:
    found = read_run(written(tmp_path / name, RUN), corpus)
    assert (list(found.caption_ids), list(found.video_ids), found.queries) == (CAPTIONS, CLIPS, "t2v")
    np.testing.assert_array_equal(found.block(slice(0, 3), slice(0, 3)), HELD)
    assert not found.about.complete


def test_videos_as_queries_are_known_by_their_ids(corpus: Corpus, tmp_path: Path) -> None:
    found = read_run(written(tmp_path / "a.run", "v1 Q0 c0 1 0.5 t\nv2 Q0 c2 1 0.001 t\n"), corpus)
    assert found.queries == "v2t"
    np.testing.assert_array_equal(found.block(slice(0, 3), slice(0, 3)), HELD)
    part = read_run(tmp_path / "a.run", corpus, partial=True)
    assert (list(part.caption_ids), list(part.video_ids)) == (CAPTIONS, ["v1", "v2"])
    np.testing.assert_array_equal(part.block(slice(0, 3), slice(0, 2)), HELD[:, 1:])


def test_ids_that_name_captions_and_clips_alike_are_asked_about(tmp_path: Path) -> None:
    both = make_corpus(
        pl.DataFrame({"clip_id": ["a", "b"]}),
        pl.DataFrame({"caption_id": ["a", "b"], "clip_id": ["a", "b"], "text": ["x", "y"]}),
    )
    run = written(tmp_path / "a.run", "a Q0 b 1 2 t\n")
    with pytest.raises(ScoresError, match="Line 1 of .* captions and of clips alike; .* queries='t2v'.* --direction"):
        read_run(run, both)
    ahead, back = (read_run(run, both, queries=side) for side in ("t2v", "v2t"))  # type: ignore[arg-type]
    assert (ahead.queries, back.queries) == ("t2v", "v2t")
    assert ahead.block(slice(0, 1), slice(1, 2))[0, 0] == back.block(slice(1, 2), slice(0, 1))[0, 0] == 2


def test_what_scores_use_is_read_from_our_own_tags(corpus: Corpus, tmp_path: Path) -> None:
    uses = ("other queries", "bank of 5 captions")
    write_run(Scores(VALUES, CAPTIONS, CLIPS, ScoreNotes(uses)), tmp_path / "a.run")
    assert read_run(tmp_path / "a.run", corpus).about.uses == uses
    write_run(Scores(VALUES, CAPTIONS, CLIPS), tmp_path / "a.run")
    assert read_run(tmp_path / "a.run", corpus).about.uses == ()
    assert read_run(written(tmp_path / "b.run", RUN), corpus).about.uses == ()


def test_the_mark_that_some_programs_begin_a_file_with_is_no_part_of_it(corpus: Corpus, tmp_path: Path) -> None:
    found = read_run(written(tmp_path / "a.run", "\ufeff# made by X on day 2\n" + RUN), corpus)  # a comment
    np.testing.assert_array_equal(found.block(slice(0, 3), slice(0, 3)), HELD)


def test_a_file_of_another_kind_is_told_what_is_read(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\xff\n")
    with pytest.raises(ScoresError, match=r"Scores are read from .npz, .npy, .parquet, .csv, .tsv, .txt and TREC runs"):
        read_run(tmp_path / "a.h5", corpus)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no line"),
        ("\n \n", "has no line"),
        ("c0 Q0 v0 1 0.5 t\n\nc0 Q0 v1 2 0.4\n", "Line 3 of .* has not the six words"),
        ("c0 Q0 v0 1 0.5 t more\n", "Line 1 of .* has not the six words"),
        ("c0 Q0 v0 1 high t\n", "Line 1 of .* has no number for a score"),
        ("c0 Q0 v0 1 nan t\n", "Line 1 of .* has no number for a score"),
        ("c0 Q0 v0 1 1 t\nc9 Q0 v0 1 1 t\n", "Line 2 of .* names 'c9', which is no caption"),
        ("c0 Q0 v0 1 1 t\nc0 Q0 v9 1 1 t\n", "Line 2 of .* names 'v9', which is no clip"),
        ("v0 Q0 c0 1 1 t\nv0 Q0 v0 1 1 t\n", "Line 2 of .* names 'v0', which is no caption"),
        ("c0 Q0 v0 1 1 t\nc1 Q0 v0 1 1 t\nc0 Q0 v0 2 1 t\n", "Line 3 of .* lists 'v0' a second time for 'c0'"),
    ],
)
def test_bad_runs_get_a_sentence_with_the_line(corpus: Corpus, tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ScoresError, match=sentence):
        read_run(written(tmp_path / "a{}.run", text), corpus)


def test_bytes_that_are_no_text_get_a_sentence(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "a.run").write_bytes(b"c0 Q0 \xff\xfe 1 1 t\n")
    with pytest.raises(ScoresError, match="cannot be read as a run"):
        read_run(tmp_path / "a.run", corpus)
    (tmp_path / "a.run.gz").write_bytes(gzip.compress(RUN.encode())[:-12])
    with pytest.raises(ScoresError):
        read_run(tmp_path / "a.run.gz", corpus)


VALUES = np.array([[0.1, 0.3, 0.2], [1.0, 1.0, 2.0], [-np.inf, 5.0, -np.inf]], dtype=np.float32)


def test_a_run_is_written_best_first_and_ties_in_the_gallery_s_order(tmp_path: Path) -> None:
    write_run(Scores(VALUES, CAPTIONS, CLIPS, ScoreNotes(("other queries",))), tmp_path / "a.run", depth=2)
    assert (tmp_path / "a.run").read_text() == (
        "c0 Q0 v1 1 0.30000001192092896 evenreel-other-queries\n"
        "c0 Q0 v2 2 0.20000000298023224 evenreel-other-queries\n"
        "c1 Q0 v2 1 2.0 evenreel-other-queries\n"
        "c1 Q0 v0 2 1.0 evenreel-other-queries\n"
        "c2 Q0 v1 1 5.0 evenreel-other-queries\n"
    )


@pytest.mark.parametrize("direction", ["t2v", "v2t"])
@pytest.mark.parametrize("name", ["a.run", "a.run.gz"])
def test_what_is_written_is_read_again_bit_for_bit(corpus: Corpus, tmp_path: Path, direction: str, name: str) -> None:
    values = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    write_run(Scores(values, CAPTIONS, CLIPS), tmp_path / name, direction=direction)  # type: ignore[arg-type]
    found = read_run(tmp_path / name, corpus)
    assert found.queries == direction
    assert found.about.complete
    np.testing.assert_array_equal(found.block(slice(0, 3), slice(0, 3)), values)


def test_qrels(corpus: Corpus, tmp_path: Path) -> None:
    assert write_qrels(own_clip(corpus, CAPTIONS, CLIPS), CAPTIONS, CLIPS, tmp_path / "q") == 1
    assert (tmp_path / "q").read_text() == "c0 0 v0 1\nc1 0 v1 1\nc2 0 v2 1\n"
    graded = class_relevance(corpus, CAPTIONS, CLIPS)
    assert write_qrels(graded, CAPTIONS, CLIPS, tmp_path / "q", direction="v2t") == 100
    lines = (tmp_path / "q").read_text().splitlines()
    assert lines == ["v0 0 c0 100", "v0 0 c1 50", "v1 0 c0 50", "v1 0 c1 100", "v2 0 c2 100"]


def test_wrong_calls_get_a_sentence(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'a b' is empty or has a space"):
        write_run(Scores(VALUES, ["a b", "c", "d"], CLIPS), tmp_path / "a.run")
    with pytest.raises(UsageError, match="'#a' begins with #"):
        write_run(Scores(VALUES, ["#a", "c", "d"], CLIPS), tmp_path / "a.run")
    with pytest.raises(UsageError, match="depth is 0"):
        write_run(Scores(VALUES, CAPTIONS, CLIPS), tmp_path / "a.run", depth=0)
    spoiled = VALUES.copy()
    spoiled[1, 2] = np.nan
    with pytest.raises(ScoresError, match="'c1' and 'v2' is NaN"):
        write_run(Scores(spoiled, CAPTIONS, CLIPS), tmp_path / "a.run")
    with pytest.raises(ScoresError, match="relevance of 3 x 3"):
        write_qrels(own_clip(corpus, CAPTIONS, CLIPS), CAPTIONS, CLIPS[:2], tmp_path / "q")
    assert list(tmp_path.iterdir()) == []
