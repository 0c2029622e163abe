"""Groups of queries by any column and gaps between them: slow loops, all arrangements of a small case, level, power."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.false_alarms import World
from benchmarks.gap_power import Cell, enough, found, least
from benchmarks.group_gaps import reported
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import Evaluation, EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.groups import Spread, bands_of, query_groups
from evenreel.report import evaluation_page
from evenreel.report.evaluation import gaps_table
from evenreel.report.page import Section, Table, Text
from evenreel.types import Corpus, Scores

Rows = list[tuple[int, int, float]]


def slow_errors(rows: Rows, mean: float) -> tuple[list[float], dict[tuple[int, int], float]]:
    """Mean deviation of each group, and standard errors of pairs, from (cluster, group, value) with plain loops."""
    groups, clusters = sorted({row[1] for row in rows}), sorted({row[0] for row in rows})
    cells = {
        (c, g): [value - mean for one, group, value in rows if (one, group) == (c, g)] for c in clusters for g in groups
    }
    filled = [one for one in cells.values() if one]
    average = sum(sum(one) ** 2 for one in filled) / len(filled) / (sum(map(len, filled)) / len(filled)) ** 2
    size = {g: sum(len(cells[c, g]) for c in clusters) for g in groups}
    members = {g: sum(bool(cells[c, g]) for c in clusters) for g in groups}
    means = {g: sum(sum(cells[c, g]) for c in clusters) / size[g] for g in groups}
    parts = {(c, g): sum(one - means[g] for one in cells[c, g]) / size[g] for c in clusters for g in groups}

    def covariance(g: int, h: int) -> float:
        own = [members[one] / (members[one] + 1) for one in (g, h)]
        found = sum(parts[c, g] * parts[c, h] for c in clusters) * (own[0] * own[1]) ** 0.5
        return found + (2 / (members[g] + 1) * average / members[g] if g == h else 0.0)

    errors = {
        (g, h): (covariance(g, g) + covariance(h, h) - 2 * covariance(g, h)) ** 0.5
        for g, h in itertools.combinations(groups, 2)
    }
    return [means[g] for g in groups], errors


def drawn_rows(seed: int, *, nested: bool) -> Rows:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 4, 12)
    rows = []
    for cluster, size in enumerate(sizes):
        for _ in range(size):
            group = cluster % 3 if nested else int(random.integers(0, 3))
            rows.append((cluster, group, float(random.normal())))
    return rows


def spread_of(rows: Rows) -> Spread:
    cluster, group, values = (np.array(one) for one in zip(*rows, strict=True))
    return Spread.of(values, group, cluster)


@pytest.mark.parametrize("nested", [True, False])
def test_errors_are_those_of_slow_loops(nested: bool) -> None:
    rows = drawn_rows(3, nested=nested)
    mean = float(np.mean([row[2] for row in rows]))
    means, errors = slow_errors(rows, mean)
    bands = bands_of(spread_of(rows), 50, 0, 0.9)
    assert bands is not None and spread_of(rows).nested is nested
    assert bands.means == pytest.approx(means, abs=1e-12)
    assert {pair: bands.errors[pair] for pair in errors} == pytest.approx(errors)


def test_an_arrangement_exchanges_clusters_as_a_slow_loop_does() -> None:
    rows, random = drawn_rows(5, nested=True), np.random.default_rng(0)
    mean = float(np.mean([row[2] for row in rows]))
    order = random.permutation(12) % 3
    moved = [(cluster, int(order[cluster]), value) for cluster, _, value in rows]
    means, errors = slow_errors(moved, mean)
    found, covariance = spread_of(rows).exchanged(order[None, :])
    own = np.diagonal(covariance[0])
    assert found[0] == pytest.approx(means, abs=1e-12)
    assert {pair: (own[pair[0]] + own[pair[1]]) ** 0.5 for pair in errors} == pytest.approx(errors)


def test_signs_turn_the_deviations_of_whole_clusters() -> None:
    rows = drawn_rows(7, nested=False)
    mean = float(np.mean([row[2] for row in rows]))
    signs = np.random.default_rng(1).choice([-1.0, 1.0], 12)
    turned = [(cluster, group, float(signs[cluster] * (value - mean))) for cluster, group, value in rows]
    means, errors = slow_errors(turned, 0.0)
    found, covariance = spread_of(rows).signed(signs[None, :])
    apart = {(g, h): covariance[0, g, g] + covariance[0, h, h] - 2 * covariance[0, g, h] for g, h in errors}
    assert found[0] == pytest.approx(means, abs=1e-12)
    assert {pair: one**0.5 for pair, one in apart.items()} == pytest.approx(errors)


def test_p_is_the_share_of_all_arrangements() -> None:
    values = [1.0, 2.0, 4.0, 3.0, 7.0, 6.5, 9.0]
    rows = [(place, int(place >= 4), value) for place, value in enumerate(values)]
    mean = float(np.mean(values))

    def largest(groups: Any) -> float:
        moved = [(place, int(groups[place]), value) for place, value in enumerate(values)]
        (low, high), errors = slow_errors(moved, mean)
        return abs(high - low) / errors[0, 1]

    observed = largest([row[1] for row in rows])
    every = [largest([place in chosen for place in range(7)]) for chosen in itertools.combinations(range(7), 3)]
    exact = sum(one >= observed - 1e-12 for one in every) / len(every)
    bands = bands_of(spread_of(rows), 20_000, 0, 0.95)
    assert bands is not None
    assert bands.p == pytest.approx(exact, abs=0.01)


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.8, 0.9, 0.95]))
def test_interval_and_p_agree(seed: int, nested: bool, confidence: float) -> None:
    rows = drawn_rows(seed, nested=nested)
    assume({group for _, group, _ in rows} == {0, 1, 2})  # few rows may all miss one
    bands = bands_of(spread_of(rows), 99, seed, confidence)
    assert bands is not None
    low, high = bands.ends
    assert low is not None and high is not None and low <= np.ptp(bands.means) <= high
    assert (low > 0) == (bands.p <= 1 - confidence + 1e-9)


def test_where_all_are_alike_nothing_says_what_chance_does() -> None:
    same = Spread.of(np.full(80, 100.0), np.repeat([0, 1], 40), np.arange(80))
    assert bands_of(same, 100, 0, 0.95) is None


def test_too_few_arrangements_make_no_interval() -> None:
    bands = bands_of(spread_of(drawn_rows(0, nested=True)), 10, 0, 0.95)
    assert bands is not None
    assert bands.ends == (None, None)


def test_a_group_of_hits_alone_has_an_interval_with_width() -> None:
    values = np.concatenate([np.full(40, 100.0), np.zeros(40)])
    bands = bands_of(Spread.of(values, np.repeat([0, 1], 40), np.arange(80)), 400, 0, 0.95)
    assert bands is not None
    low, high = bands.ends
    assert low is not None and high is not None and 0 < low < 100 < high


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("share", [0.05, 0.4])
def test_no_more_than_a_twentieth_of_worlds_without_a_gap_are_reported(nested: bool, share: float) -> None:
    told = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        cluster = np.repeat(np.arange(120), 3)
        hard = random.normal(size=120)[cluster] + random.normal(size=360)
        group = (np.arange(120) % 3)[cluster] if nested else random.integers(0, 3, 360)
        hits = 100.0 * (hard > np.quantile(hard, 1 - share))
        bands = bands_of(Spread.of(hits, group, cluster), 199, seed, 0.95)
        told += bands is not None and bands.p <= 0.05
    assert 2 <= told <= 18  # of 200, 10 are expected; both ends are beyond 2.5 standard errors


def test_rankings_with_hubs_keep_their_level_and_what_is_planted_is_found() -> None:
    still = reported([World(130, 1, 4.0, seed) for seed in range(6)])
    assert sum(told for told, _ in still.values()) <= 0.15 * sum(asked for _, asked in still.values())
    planted = reported([World(150, 2, 1.0, seed, planted=2.0) for seed in range(3)])
    for column in ("source", "language"):
        assert planted[f"t2v by {column}, drawn by clip: MRR"] == (3, 3)


def test_a_gap_is_planted_in_points_and_found_where_it_is_large_enough() -> None:
    cell = Cell(180, 3, 1.0)
    more, less = cell.shifts([0.0, 30.0])
    assert less[0] == pytest.approx(0, abs=1e-9)
    nothing, planted = found(cell, more, less, 20)
    # A gap of shares of 60 and 120 queries has a standard error of 7.9 points, the mean of 20 worlds one of 1.8.
    assert planted.behind[0] == pytest.approx(30, abs=6)
    assert nothing.behind[0] == pytest.approx(0, abs=6)
    assert planted.power[0] >= 70  # 92 are expected
    assert nothing.power[0] <= 20


def test_what_finds_a_gap_nine_times_of_ten() -> None:
    assert enough([0, 10, 20], [5, 80, 100]) == 15
    assert enough([0, 10], [5, 80]) is None
    points, shares = least(Cell(400, 2, 0.0)), []
    random = np.random.default_rng(0)
    for _ in range(4000):  # two shares of 200 queries each, one of them the planted gap lower
        first, second = (random.binomial(200, share) / 200 for share in (0.45 - points / 100, 0.45))
        error = ((first * (1 - first) + second * (1 - second)) / 200) ** 0.5
        shares.append(abs(second - first) > 1.96 * error)
    assert 100 * np.mean(shares) == pytest.approx(90, abs=2)


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


def test_json_tables_and_the_page_have_groups_and_gaps() -> None:
    corpus = corpus_with(source=SOURCES)
    found = measured(corpus, "source", worse=slice(80, 180))
    groups = found.directions["t2v"].by["source"]
    rows = [
        (one.name, one.queries, one.drawn, word, figure.value)
        for one in groups.groups
        for word, figure in one.summary.items()
    ]
    assert groups.to_frame().drop("low", "high").rows() == rows
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
