"""The overview against counts and cosines made another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import ttest_ind

from evenreel.audits.overview import (
    difference,
    overview,
    overview_page,
    overview_sentence,
    overview_tables,
    similarities,
)
from evenreel.audits.settings import AuditSettings
from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import counterparts
from evenreel.corpus.summary import ValueRange
from evenreel.errors import FeaturesError
from evenreel.features.facts import FACT_COLUMNS, ClipFacts
from evenreel.features.pool import SetAside
from evenreel.report.page import render
from evenreel.types import Corpus, VideoFeatures

QUICK = AuditSettings(resamples=200)


def features_of(vectors: dict[str, list[list[float]]]) -> VideoFeatures:
    """Clips with frames of any number, padded with zeros."""
    longest = max(map(len, vectors.values()))
    mask = np.array([[place < len(frames) for place in range(longest)] for frames in vectors.values()])
    padded = np.zeros((*mask.shape, len(next(iter(vectors.values()))[0])), np.float32)
    padded[mask] = np.concatenate([np.array(frames) for frames in vectors.values()])
    return VideoFeatures(tuple(vectors), padded, mask, np.zeros(mask.shape))


def corpus_of(rows: list[tuple[Any, ...]]) -> Corpus:
    clips = pl.DataFrame(
        rows, ["clip_id", "source", "pair_id", "split", "setting"], orient="row", infer_schema_length=None
    )
    captions = pl.DataFrame({"caption_id": ["0"], "clip_id": [rows[0][0]], "text": ["a"]})
    return make_corpus(clips, captions)


ROWS: list[tuple[Any, ...]] = [
    ("r0", "camera", None, "train", None),
    ("r1", "camera", None, "train", None),
    ("r2", "camera", None, "test", None),
    ("r3", "camera", None, "test", None),
    *((f"s{number}", "sora", f"r{number}", "train" if number < 2 else "test", "text") for number in range(4)),
    ("c2", "<cog>", "r2", "test", "video"),
]
FORMS = {"r": ("h264", 320, 240, 25.0), "s": ("hevc", 640, 360, 24.0), "c": ("h264", 424, 240, 12.0)}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return corpus_of(ROWS)


@pytest.fixture(scope="module")
def facts() -> ClipFacts:
    """Durations are the number in the id and one; `r1` cannot be read."""
    rows = [(clip, *FORMS[clip[0]], float(clip[1]) + 1, None) for clip, *_ in ROWS if clip != "r1"]
    table = pl.DataFrame(rows, {"clip_id": pl.String(), **FACT_COLUMNS}, orient="row")
    return ClipFacts(table, (SetAside("r1", "r1.mp4", "not_media", "it is no video"),))


COSINES = np.array([0.9, 0.7, 0.6, 0.4, 0.5])


def test_similarity_is_the_cosine_of_mean_frame_vectors() -> None:
    rng = np.random.default_rng(0)
    vectors = {name: rng.normal(size=(count, 4)).tolist() for name, count in (("a", 3), ("b", 5), ("c", 1))}
    pairs = pl.DataFrame({"clip_id": ["a", "b", "a"], "generated_id": ["b", "c", "gone"]})
    found = similarities(features_of(vectors), pairs)
    for value, (one, other) in zip(found[:2], (("a", "b"), ("b", "c")), strict=True):
        first, second = (np.mean(vectors[name], axis=0) for name in (one, other))
        assert value == pytest.approx(first @ second / np.linalg.norm(first) / np.linalg.norm(second), rel=1e-5)
    assert np.isnan(found[2])


def test_pairs_in_many_bands_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    videos = features_of({str(number): rng.normal(size=(2, 4)).tolist() for number in range(20)})
    pairs = pl.DataFrame({"clip_id": [str(n) for n in range(10)], "generated_id": [str(n) for n in range(10, 20)]})
    whole = similarities(videos, pairs)
    monkeypatch.setattr("evenreel.audits.overview._BAND_BYTES", 4 * 3 * 8)
    assert similarities(videos, pairs).tolist() == whole.tolist()


def test_features_that_are_no_numbers_are_refused() -> None:
    pairs = pl.DataFrame({"clip_id": ["a"], "generated_id": ["b"]})
    with pytest.raises(FeaturesError, match="no number"):
        similarities(features_of({"a": [[np.nan, 1.0]], "b": [[1.0, 0.0]]}), pairs)


def test_groups_are_counted_with_their_form_and_similarity(corpus: Corpus, facts: ClipFacts) -> None:
    found = overview(corpus, facts, COSINES, QUICK)
    groups = {(one.group, one.split): one for one in found.groups}
    assert list(groups) == [
        ("camera", "train"), ("camera", "test"), ("sora text", "train"), ("sora text", "test"), ("<cog> video", "test"),
    ]  # fmt: skip
    assert [one.clips for one in found.groups] == [2, 2, 2, 2, 1]
    train = groups["sora text", "train"]
    assert (train.fps, train.duration_s) == (ValueRange(24.0, 24.0, 24.0, 2), ValueRange(1.0, 1.5, 2.0, 2))
    assert (dict(train.sizes), dict(train.codecs)) == ({"640 x 360": 2}, {"hevc": 2})
    assert train.similarity is not None
    assert train.similarity.value == pytest.approx(0.8)
    camera = groups["camera", "train"]
    assert (camera.similarity, camera.fps and camera.fps.known) == (None, 1)
    assert {group: mean.value for group, mean in found.similarity.items()} == pytest.approx(
        {"sora text": 0.65, "<cog> video": 0.5}
    )
    assert counterparts(corpus)["generated_id"].to_list() == found.pairs["generated_id"].to_list()


def test_tables_show_each_group_in_each_split(corpus: Corpus, facts: ClipFacts) -> None:
    found = overview(corpus, facts, COSINES, QUICK)
    forms, alike, _ = overview_tables(found)
    assert forms.rows[:3] == (
        ("camera", "train", "25", "1", "320 x 240", "h264", 2),
        ("camera", "test", "25", "3.5 (3 to 4)", "320 x 240", "h264", 2),
        ("sora text", "train", "24", "1.5 (1 to 2)", "640 x 360", "hevc", 2),
    )
    assert [row[:4] for row in alike.rows] == [
        ("sora text", "train", 2, pytest.approx(0.8)),
        ("sora text", "test", 2, pytest.approx(0.5)),
        ("<cog> video", "test", 1, 0.5),
    ]


def test_splits_are_compared_with_an_interval(corpus: Corpus, facts: ClipFacts) -> None:
    found = overview(corpus, facts, COSINES, QUICK)
    (difference,) = found.consistency["sora text"].values()
    half = 4.302653 * np.sqrt(0.02 / 2 + 0.02 / 2)  # variance .02 in both splits: t of 2 degrees of freedom
    assert difference.value == pytest.approx(0.3)
    assert (difference.low, difference.high) == (pytest.approx(0.3 - half), pytest.approx(0.3 + half))
    assert overview_tables(found)[2].rows[0][:2] == ("sora text", "train less test")
    assert list(found.consistency) == ["sora text"]
    (same,) = overview(corpus, facts, np.full(5, 0.5), QUICK).consistency["sora text"].values()
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


def test_unequal_splits_have_the_interval_of_scipy() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.7, 0.1, 9), rng.normal(0.6, 0.02, 40)
    found = difference(first, second, AuditSettings(confidence=0.9))
    told = ttest_ind(first, second, equal_var=False).confidence_interval(0.9)
    assert (found.low, found.high) == (pytest.approx(told.low), pytest.approx(told.high))


def test_the_page_and_its_sentence(corpus: Corpus, facts: ClipFacts) -> None:
    found = overview(corpus, facts, COSINES, QUICK, notices=["Another rule."])
    assert (
        "4 of sora text, 1 of <cog> video. Clips of sora text have a mean similarity of 0.650 ("
        in overview_sentence(found)
    )
    page = render(overview_page(found))
    assert "&lt;cog&gt; video" in page
    assert "<cog>" not in page
    assert "Another rule." in page
    assert "1.5 (1 to 2)" in page
    assert found.notices == ("Another rule.", "Clips whose video cannot be read, so that their form is not counted: 1.")


def test_without_features_or_mirrors_it_says_so(corpus: Corpus, facts: ClipFacts) -> None:
    bare = overview(corpus, facts)
    assert "Similarity was not measured" in bare.notices[-1]
    assert overview_sentence(bare) == "4 real clips and 5 generated: 4 of sora text, 1 of <cog> video."
    assert len(overview_tables(bare)) == 1
    assert "chart-0" not in render(overview_page(bare))
    some = overview(corpus, facts, np.array([0.9, np.nan, 0.6, 0.4, 0.5]), QUICK)
    assert some.notices[-1] == "Pairs whose similarity is left out, for want of features of a clip: 1 of 5."
    alone = overview(corpus_of(ROWS[:4]), facts)
    assert overview_sentence(alone) == "4 real clips and no generated ones."
    one = overview(corpus_of(ROWS[:1]), ClipFacts(facts.table[:0]))
    assert overview_sentence(one) == "1 real clip and no generated ones."
    assert alone.notices[-1].startswith("No clip has a generated counterpart")
