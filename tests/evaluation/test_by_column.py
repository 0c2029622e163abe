"""Groups of queries by any column: who is in which, what is said of few, and what a page and JSON have."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import Evaluation, EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.groups import query_groups
from evenreel.report import evaluation_page
from evenreel.report.evaluation import gaps_table
from evenreel.report.page import Section, Table, Text
from evenreel.types import Corpus, Scores

COUNT = 96
METRICS = parse_metrics(["R@1", "MRR", "MedR", "GeoR"])


def corpus_with(captions: dict[str, Any] | None = None, **clips: Any) -> Corpus:
    """Clips v0, v1, ... with two captions each."""
    names = [f"v{one}" for one in range(COUNT)]
    said = {
        "caption_id": [f"c{one}" for one in range(2 * COUNT)],
        "clip_id": [f"v{one // 2}" for one in range(2 * COUNT)],
    }
    texts = {"text": [" word" * (1 + one % 2) for one in range(2 * COUNT)]}
    return make_corpus(pl.DataFrame({"clip_id": names} | clips), pl.DataFrame(said | texts | (captions or {})))


def scores(worse: slice = slice(0, 0)) -> Scores:
    values = np.random.default_rng(0).normal(size=(2 * COUNT, COUNT))
    values[np.arange(2 * COUNT), np.arange(2 * COUNT) // 2] += 3
    values[worse] -= 3 * np.eye(COUNT).repeat(2, axis=0)[worse]
    return Scores(values, [f"c{one}" for one in range(2 * COUNT)], [f"v{one}" for one in range(COUNT)])


def measured(corpus: Corpus, *by: str, worse: slice = slice(0, 0), **more: Any) -> Evaluation:
    return evaluate(scores(worse), corpus, EvaluationSettings(METRICS, by=by, resamples=200, **more))


SOURCES = ["camera"] * 40 + ["sora"] * 40 + ["few"] * 10 + [None] * 5 + [""]


def test_each_group_has_the_figures_of_its_queries_alone() -> None:
    whole = measured(corpus_with(source=SOURCES), "source")
    for direction, result in whole.directions.items():
        found = result.by["source"]
        assert [(one.name, one.drawn) for one in found.groups] == [("camera", 40), ("few", 10), ("sora", 40)]
        for group in found.groups:
            clips = [f"v{one}" for one in range(COUNT) if SOURCES[one] == group.name]
            own = [f"c{2 * int(one[1:]) + more}" for one in clips for more in (0, 1)] if direction == "t2v" else clips
            rows = np.isin(np.array(result.query_ids), own)
            assert group.queries == rows.sum()
            assert group.summary["R@1"].value == pytest.approx(result.per_query["R@1"][rows].mean())
            assert group.summary["MedR"].value == np.median(result.per_query["rank"][rows])
        missing = 12 if direction == "t2v" else 6
        assert found.notices == (
            f"{direction} by source: {missing} of {len(result.query_ids)} queries have no value there and are in no "
            "group.",
            f"{direction} by source: few (10): fewer than 30 clips, so do not rely on these figures; they are in no "
            "gap.",
        )


def test_the_gap_is_between_the_best_and_the_worst_large_group() -> None:
    found = measured(corpus_with(source=SOURCES), "source", worse=slice(80, 180)).directions["t2v"].by["source"]
    camera, few, sora = (one.summary["R@1"].value for one in found.groups)
    gap = found.gaps["R@1"]
    assert few < 30  # the worst of all, and not looked at
    assert (gap.best, gap.worst) == ("camera", "sora")
    assert gap.gap.value == pytest.approx(camera - sora)
    assert gap.gap.low is not None and gap.gap.low > 0 and gap.p is not None and gap.p < 0.01
    for word in ("MedR", "GeoR"):
        assert found.gaps[word].gap.value > 0
        assert (found.gaps[word].gap.low, found.gaps[word].p) == (None, None)


def test_p_is_corrected_for_the_columns_that_were_looked_at() -> None:
    corpus = corpus_with(source=SOURCES, domain=["a", "b"] * (COUNT // 2))
    alone = measured(corpus, "source").directions["t2v"].by["source"].gaps["MRR"]
    beside = measured(corpus, "source", "domain").directions["t2v"].by["source"].gaps["MRR"]
    assert alone.p is not None and beside.p == pytest.approx(min(1, 2 * alone.p))
    assert alone.gap.high is not None and beside.gap.high is not None and beside.gap.high > alone.gap.high


def test_numbers_are_cut_into_bands_and_few_numbers_are_not() -> None:
    corpus = corpus_with(duration_s=[float(one) for one in range(COUNT)], year=[2020 + one % 3 for one in range(COUNT)])
    clips = corpus.clips["clip_id"].to_list()
    found = query_groups(corpus, "seconds", clips, of_captions=False)
    assert found.names == ("0 to 23", "24 to 47", "48 to 71", "72 to 95")
    assert found.number.tolist() == [one // 24 for one in range(COUNT)]
    years = query_groups(corpus, "year", clips, of_captions=False)
    assert (years.names, years.number[:4].tolist()) == (("2020", "2021", "2022"), [0, 1, 2, 0])
    same = corpus_with(rate=[1.0] * 60 + [float("nan")] * 6 + [2.0 + one for one in range(30)])
    banded = query_groups(same, "rate", clips, of_captions=False)
    assert banded.names[0] == "1 to 1"
    assert np.bincount(banded.number[banded.number >= 0])[0] == 60 and (banded.number < 0).sum() == 6


def test_captions_are_grouped_by_their_own_columns() -> None:
    found = measured(corpus_with(), "words")
    assert [(one.name, one.queries) for one in found.directions["t2v"].by["words"].groups] == [("1", 96), ("2", 96)]
    (said,) = found.directions["v2t"].by["words"].notices
    assert "Captions of a clip differ in 'words' (96 such clips)" in said
    spoken = {"language": ["en" if one < COUNT else "fr" for one in range(2 * COUNT)]}
    both = measured(corpus_with(spoken), "language")
    assert [(one.name, one.queries) for one in both.directions["v2t"].by["language"].groups] == [("en", 48), ("fr", 48)]
    mean = measured(corpus_with(spoken), "language", t2v_protocol="video-mean").directions["t2v"].by["language"]
    assert [one.queries for one in mean.groups] == [48, 48]


def test_one_large_group_has_no_gap() -> None:
    found = measured(corpus_with(source=["a"] * 80 + ["b"] * 16), "source").directions["t2v"].by["source"]
    assert found.gaps == {}
    assert "only one group has 30 clips, so there is no gap to compute." in found.notices[-1]


def test_what_names_no_group_is_refused_or_told() -> None:
    with pytest.raises(CorpusError, match="Neither clips nor captions have a column 'genre'"):
        measured(corpus_with(), "genre")
    with pytest.raises(CorpusError, match="holds lists"):
        measured(corpus_with(tags=[["a"]] * COUNT), "tags")
    with pytest.raises(UsageError, match="each once"):
        EvaluationSettings(by=("a", "a"))
    told = measured(corpus_with(), "clip_id").directions["v2t"].by["clip_id"]
    assert (told.groups, told.gaps) == ((), {})
    assert "has 96 values among these queries" in told.notices[0]
    empty = measured(corpus_with(genre=[None] * COUNT), "genre").directions["v2t"].by["genre"]
    assert empty.groups == () and "96 of 96 queries have no value" in empty.notices[0]


def test_without_resamples_there_are_figures_alone() -> None:
    settings = EvaluationSettings(METRICS, by="source", resamples=0)  # type: ignore[arg-type]  # one may stand alone
    found = evaluate(scores(), corpus_with(source=SOURCES), settings).directions["t2v"].by["source"]
    assert found.groups[0].summary["R@1"].low is None
    assert found.gaps["R@1"].p is None


def test_json_and_the_page_have_groups_and_gaps() -> None:
    corpus = corpus_with(source=SOURCES)
    found = measured(corpus, "source", worse=slice(80, 180))
    document = json.loads(json.dumps(found.to_json()))["directions"]["t2v"]["by"]["source"]
    assert [one["name"] for one in document["groups"]] == ["camera", "few", "sora"]
    assert document["gaps"]["R@1"]["worst"] == "sora"
    assert "by" not in measured(corpus).to_json()["directions"]["t2v"]
    sections = {one.title: one for one in evaluation_page({"one": found}, corpus).sections if isinstance(one, Section)}
    parts = sections["one: groups, t2v"].parts
    groups, gaps = (one for one in parts if isinstance(one, Table))
    assert [row[0] for row in groups.rows] == ["camera", "few", "sora"]
    assert [row[0] for row in gaps.rows] == ["R@1", "MRR", "MedR", "GeoR"]
    told = " ".join(one.words for one in parts if isinstance(one, Text))
    assert "which chance alone does not explain" in told and "max-t" in told


def test_languages_are_compared_with_one_clip_by_clip() -> None:
    """Captions of every clip in three languages: what is easy is so in all of them, and leaves the difference."""
    rng, count = np.random.default_rng(1), 120
    languages = ["de", "en", "fa"]
    clips = pl.DataFrame({"clip_id": [f"v{one}" for one in range(count)]})
    said = [(f"{language}{one}", f"v{one}", "words", language) for one in range(count) for language in languages]
    captions = pl.DataFrame(said, ["caption_id", "clip_id", "text", "language"], orient="row")
    easy = rng.random(count) < 0.5
    hit = np.stack([easy, easy, easy & (rng.random(count) < 0.7)], axis=1).reshape(-1)
    values = np.zeros((3 * count, count))
    values[np.arange(3 * count), np.arange(3 * count) // 3] = np.where(hit, 1.0, -1.0)
    given = Scores(values, [row[0] for row in said], clips["clip_id"].to_list())
    settings = EvaluationSettings(METRICS, by=("language=en",), resamples=500, directions=("t2v",))
    found = evaluate(given, make_corpus(clips, captions), settings).directions["t2v"].by["language=en"]
    assert [one.name for one in found.groups] == languages
    differences = found.gaps["R@1"].against
    assert list(differences) == ["de - en", "fa - en"]
    assert (differences["de - en"].value, differences["fa - en"].value) == pytest.approx(
        (0.0, 100 * (hit.reshape(-1, 3)[:, 2].mean() - hit.reshape(-1, 3)[:, 1].mean()))
    )
    fa, en, de = differences["fa - en"], found.groups[1].summary["R@1"], differences["de - en"]
    assert fa.low is not None and fa.high is not None and fa.high < 0 and de.low is not None and de.low <= 0
    assert en.low is not None and en.high is not None
    assert fa.high - fa.low < en.high - en.low, "the share of easy clips is in both"
    assert [row[1] for row in gaps_table(found, METRICS, 0.95).rows][:3] == ["fa", "de - en", "fa - en"]
    none = measured(corpus_with(source=SOURCES), "source=few").directions["t2v"].by["source=few"]
    assert "by source=few: it is no large group" in none.notices[-1] and not none.gaps["R@1"].against
    assert not measured(corpus_with(source=SOURCES), "source").directions["t2v"].by["source"].gaps["R@1"].against
