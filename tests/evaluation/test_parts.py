"""Scores of a whole corpus that are measured on one split: the others are left out, whatever the file."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.errors import ScoresError
from evenreel.evaluation import evaluate, load_scores, save_scores
from evenreel.evaluation.scores import cut_to
from evenreel.types import Corpus, ScoreNotes, Scores
from tests.cli.test_library_commands import here
from tests.evaluation.small_corpus import by_pair

SPLITS = ["test", "train", "test", "val", "train", "test"]
CLIPS = [f"v{number}" for number in range(len(SPLITS))]
CAPTIONS = [f"c{number}" for number in range(2 * len(SPLITS))]


def corpus() -> Corpus:
    """Two captions a clip; the splits lie mixed."""
    clips = pl.DataFrame({"clip_id": CLIPS, "split": SPLITS})
    texts = [f"text {one}" for one in CAPTIONS]
    captions = {"caption_id": CAPTIONS, "clip_id": [CLIPS[place // 2] for place in range(len(CAPTIONS))], "text": texts}
    return make_corpus(clips, pl.DataFrame(captions))


VALUES = np.random.default_rng(0).normal(size=(len(CAPTIONS), len(CLIPS)))


def expected(split: str) -> dict[tuple[str, str], float]:
    kept = [place for place, one in enumerate(SPLITS) if one == split]
    return {
        (CAPTIONS[2 * row + more], CLIPS[column]): VALUES[2 * row + more, column]
        for row, more, column in product(kept, (0, 1), kept)
    }


def written(path: Path) -> Path:
    scores = Scores(VALUES, CAPTIONS, CLIPS)
    if path.suffix in (".npz", ".npy"):
        save_scores(scores, path)
    elif path.name == "wide.parquet":
        pl.DataFrame({"caption_id": CAPTIONS, **dict(zip(CLIPS, VALUES.T, strict=True))}).write_parquet(path)
    else:
        ids = {"caption_id": np.repeat(CAPTIONS, len(CLIPS)).tolist(), "clip_id": CLIPS * len(CAPTIONS)}
        pairs = pl.DataFrame(ids | {"score": VALUES.ravel()})
        if path.suffix == ".parquet":
            pairs.write_parquet(path)
        else:
            lines = [f"{caption} Q0 {clip} 1 {score!r} tag" for caption, clip, score in pairs.iter_rows()]
            path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("name", ["s.npz", "s.npy", "wide.parquet", "pairs.parquet", "s.run"])
@pytest.mark.parametrize("split", ["test", "train", "val"])
def test_every_kind_of_file_is_cut_to_the_split(tmp_path: Path, name: str, split: str) -> None:
    notices: list[str] = []
    whole = corpus()
    found = load_scores(written(tmp_path / name), select(whole, split=split), whole=whole, notice=notices.append)
    assert by_pair(found) == pytest.approx(expected(split))
    assert any("of other parts of the corpus, which are left out." in one for one in notices)
    assert not any("of all pairs" in one for one in notices)
    alone = evaluate(Scores(*table(split)), select(whole, split=split)).directions
    assert {
        way: one.summary["R@1"].value for way, one in evaluate(found, select(whole, split=split)).directions.items()
    } == {way: one.summary["R@1"].value for way, one in alone.items()}


def table(split: str) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], list[str], list[str]]:
    kept = [place for place, one in enumerate(SPLITS) if one == split]
    rows = [2 * place + more for place in kept for more in (0, 1)]
    return VALUES[rows][:, kept], [CAPTIONS[row] for row in rows], [CLIPS[column] for column in kept]


def test_a_split_that_lies_together_is_a_view_of_a_mapped_file(tmp_path: Path) -> None:
    whole = corpus()
    found = load_scores(written(tmp_path / "s.npy"), select(whole, split="val"), whole=whole, notice=lambda _: None)
    assert isinstance(found, Scores)
    assert found.values.base is not None
    assert np.shares_memory(found.values, found.values.base)


def test_without_the_whole_corpus_such_a_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ScoresError, match=r"which is no caption of the corpus; .* whole=corpus"):
        load_scores(written(tmp_path / "s.npz"), select(corpus(), split="test"))


def test_scores_of_no_clip_of_the_split_are_refused_with_the_split_they_are_of(tmp_path: Path) -> None:
    save_scores(Scores(*table("val")), tmp_path / "val.npz")
    with pytest.raises(ScoresError, match="its captions are of 'val'; choose that, or score this part"):
        load_scores(tmp_path / "val.npz", select(corpus(), split="test"), whole=corpus())


def test_what_scores_use_was_of_the_larger_gallery() -> None:
    notices: list[str] = []
    scores = Scores(VALUES, CAPTIONS, CLIPS, ScoreNotes(("word counts of the gallery",)))
    found = cut_to(select(corpus(), split="test"), scores, corpus(), Path("s.npz"), notices.append)
    assert found.about.uses == scores.about.uses
    assert "What they use was of the whole gallery" in notices[0]


@given(st.permutations(range(len(CAPTIONS))), st.permutations(range(len(CLIPS))), st.sampled_from(sorted(set(SPLITS))))
def test_any_order_is_cut_to_the_same_pairs(rows: list[int], columns: list[int], split: str) -> None:
    whole = corpus()
    scores = Scores(VALUES[rows][:, columns], [CAPTIONS[row] for row in rows], [CLIPS[column] for column in columns])
    found = cut_to(select(whole, split=split), scores, whole, Path("s.npz"), lambda _: None)
    assert by_pair(found) == expected(split)


def test_a_split_that_was_scored_is_named_where_another_was_meant(tmp_path: Path) -> None:
    with pytest.raises(ScoresError, match=r"select the split that was scored \('val'\), or ask"):
        evaluate(Scores(*table("val")), corpus())


def test_the_command_evaluates_and_fuses_a_split_of_what_was_scored_whole(tmp_path: Path) -> None:
    save_corpus(corpus(), tmp_path / "corpus")
    assert load_corpus(tmp_path / "corpus").clips.height == len(CLIPS)
    whole = written(tmp_path / "all.npz")
    save_scores(Scores(*table("test")), tmp_path / "test.npz")
    place = ("--corpus", tmp_path / "corpus", "--split", "test")
    printed = here("evaluate", whole, "--against", tmp_path / "test.npz", *place).stdout
    assert "all.npz: The file also has scores of 6 captions and 3 clips of other parts of the corpus" in printed
    assert "cannot be told from the baseline" in printed
    fused = here("fuse", whole, tmp_path / "test.npz", *place, "--out", tmp_path / "fused.npz")
    assert fused.returncode == 0, fused.stderr
    assert "Fused 2 systems of 6 captions with 3 clips each" in fused.stdout
