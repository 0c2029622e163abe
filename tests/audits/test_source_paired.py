from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from evenreel.audits import exchange
from evenreel.audits.exchange import DELTA_METRICS, drawn_flips, inverted_interval, relative_delta, sign_test
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source import SourceMeasures, measure_source
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.intervals import Interval
from evenreel.types import Corpus, Scores
from tests.audits.small_pairs import beats, expected_rank, hit, pairs_of, scores_of

PLAIN = AuditSettings(resamples=0)
SAMPLED = AuditSettings(resamples=60)
WORDS = [str(metric) for metric in DELTA_METRICS]
VALUES = (-math.inf, -1.0, 0.0, 0.5, 0.75)


LAYOUTS = (((0,), 1), ((0, 0), 2), ((0, 1), 2), ((1, 0, 1), 2), ((0, 2, 2, 1), 3), ((3, 1, 0, 0, 4, 1, 3), 5))
"""The pair of each caption, and how many pairs there are."""

Case = tuple[Corpus, np.ndarray, tuple[int, ...]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A corpus of pairs, scores with many ties or with none, and the pair of each caption."""
    clip_of, pairs = draw(st.sampled_from(LAYOUTS))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = len(clip_of), 2 * pairs
    values = generator.choice(VALUES, shape) if draw(st.booleans()) else generator.normal(size=shape)
    return pairs_of(clip_of, pairs), values.astype(draw(st.sampled_from([np.float32, np.float64]))), clip_of


def measured(corpus: Corpus, values: Any, how: AuditSettings = PLAIN, **more: Any) -> SourceMeasures:
    return measure_source(scores_of(values, corpus), corpus, "sora", how, **more)


def figures(ranks: Sequence[float], hits: Mapping[int, Sequence[float]]) -> dict[str, float]:
    shares = {f"R@{k}": float(np.mean(hits[k])) for k in (1, 5, 10)}
    return shares | {"MedR": float(median(ranks)), "MeanR": float(np.mean(ranks))}


def looked_for(own: Sequence[float], others: Sequence[Sequence[float]]) -> dict[str, float]:
    """Figures of queries whose item scores `own` among `others`."""
    ranks = [expected_rank(one, rest) for one, rest in zip(own, others, strict=True)]
    return figures(ranks, {k: [hit(one, rest, k) for one, rest in zip(own, others, strict=True)] for k in (1, 5, 10)})


def without(row: Sequence[float], place: int) -> list[float]:
    return [*row[:place], *row[place + 1 :]]


@given(cases())
def test_figures_are_those_of_slow_loops(case: Case) -> None:
    corpus, values, clip_of = case
    pairs = values.shape[1] // 2
    rows = [list(map(float, row)) for row in values]
    real, made = [row[:pairs] for row in rows], [row[pairs:] for row in rows]
    own, mirror = ([row[clip] for row, clip in zip(side, clip_of, strict=True)] for side in (real, made))
    expected = {
        "real": looked_for(own, [without(row, clip) for row, clip in zip(real, clip_of, strict=True)]),
        "generated": looked_for(mirror, [without(row, clip) for row, clip in zip(made, clip_of, strict=True)]),
        "mixed real": looked_for(own, [without(row, clip) for row, clip in zip(rows, clip_of, strict=True)]),
        "mixed generated": looked_for(
            mirror, [without(row, pairs + clip) for row, clip in zip(rows, clip_of, strict=True)]
        ),
    }
    found = measured(corpus, values)
    for row, by_metric in expected.items():
        assert plain(found.figures[row]) == pytest.approx(by_metric)
    assert found.win_rate.value == pytest.approx(100 * np.mean([*map(beats, own, mirror)]))
    assert found.auc.value == pytest.approx(100 * np.mean([*itertools.starmap(beats, itertools.product(own, mirror))]))
    assert (found.pairs, found.captions) == (pairs, len(clip_of))
    assert found.figures["real"]["R@1"].low is None


@given(cases())
def test_a_clip_looks_for_the_best_placed_of_its_captions(case: Case) -> None:
    """Over every order of equals, which is what an expected place is the mean of."""
    corpus, values, clip_of = case
    pairs, found = values.shape[1] // 2, measured(corpus, values)
    for side, shift in (("real", 0), ("generated", pairs)):
        places = [first_places(values[:, shift + clip], clip_of, clip) for clip in sorted(set(clip_of))]
        ranks = [float(np.mean([place for place, _ in one])) for one in places]
        shares = {
            k: [100 * float(np.mean([place <= k and seen for place, seen in one])) for one in places]
            for k in (1, 5, 10)
        }
        assert plain(found.video_figures[side]) == pytest.approx(figures(ranks, shares))
    for metric in DELTA_METRICS:
        both = [found.video_figures[side][str(metric)].value for side in ("real", "generated")]
        assert found.video_deltas[str(metric)].value == relative_delta(metric, *both)


def first_places(column: np.ndarray, clip_of: Sequence[int], clip: int) -> list[tuple[int, bool]]:
    """Place of the first caption of a clip in every order that its scores allow; and whether it is retrieved."""
    best = max(score for score, one in zip(column, clip_of, strict=True) if one == clip)
    above = int((column > best).sum())
    equal = [one == clip for score, one in zip(column, clip_of, strict=True) if score == best]
    orders = set(itertools.permutations(equal))
    return [(above + 1 + order.index(True), best > -math.inf) for order in orders]


@settings(max_examples=10)
@given(cases())
def test_exchanging_the_roles_changes_every_sign(case: Case) -> None:
    corpus, values, _ = case
    pairs = values.shape[1] // 2
    found = measured(corpus, values, SAMPLED)
    turned = measured(corpus, np.hstack([values[:, pairs:], values[:, :pairs]]), SAMPLED)
    for kind, by_metric in found.deltas.items():
        for word, delta in by_metric.items():
            other = turned.deltas[kind][word]
            assert other.value == pytest.approx(-delta.value)
            if pairs > 1:
                assert (other.low, other.high) == pytest.approx((-delta.high, -delta.low))
            else:
                assert (delta.low, other.low) == (None, None)
    assert turned.win_rate.value == pytest.approx(100 - found.win_rate.value)
    assert turned.auc.value == pytest.approx(100 - found.auc.value)
    assert (turned.clips_won, turned.clips_lost, turned.sign_p) == (found.clips_lost, found.clips_won, found.sign_p)
    assert (turned.rank_gaps == -found.rank_gaps).all()


@settings(max_examples=10)
@given(cases(), st.booleans())
def test_no_difference_is_exactly_none(case: Case, all_equal: bool) -> None:
    """All scores equal, or the mirror's column a copy of the real clip's."""
    corpus, values, _ = case
    half = np.zeros_like(values[:, ::2]) if all_equal else values[:, : values.shape[1] // 2]
    found = measured(corpus, np.hstack([half, half]), SAMPLED)
    for by_metric in (*found.deltas.values(), found.video_deltas):
        assert set(by_metric.values()) == {Interval(0.0, 0.0, 0.0) if found.pairs > 1 else Interval(0.0)}
    assert found.win_rate.value == found.even_win_rate.value == 50  # type: ignore[union-attr]
    assert (found.auc.value, found.sign_p, found.even_captions) == (pytest.approx(50), 1.0, found.captions)
    assert not found.rank_gaps.any()


@settings(max_examples=10)
@given(cases(), st.sampled_from([1, 100, 1000]))
def test_small_bands_give_the_same(case: Case, band_bytes: int) -> None:
    corpus, values, _ = case
    found, banded = measured(corpus, values), measured(corpus, values, replace(PLAIN, band_bytes=band_bytes))
    assert (found.rank_gaps == banded.rank_gaps).all()
    assert (found.auc, found.video_figures) == (banded.auc, banded.video_figures)
    for kind, deltas in found.deltas.items():
        assert plain(banded.deltas[kind]) == pytest.approx(plain(deltas), abs=1e-10)


def test_a_worked_case() -> None:
    """Two pairs, a caption each: the first finds the mirror first, the second ties."""
    values = [[0.5, 0.2, 0.9, 0.1], [0.0, 0.7, 0.3, 0.7]]
    found = measured(pairs_of((0, 1), 2), values)
    assert plain(found.figures["mixed real"]) == {"R@1": 25.0, "R@5": 100.0, "R@10": 100.0, "MedR": 1.75, "MeanR": 1.75}
    assert plain(found.figures["mixed generated"])["MeanR"] == 1.25
    # Alone both are first everywhere, so the location explains nothing.
    assert plain(found.deltas["location"]) == dict.fromkeys([*WORDS, "MixR"], 0.0)
    assert found.deltas["normalized"]["R@1"].value == 200 * (25 - 75) / 100
    assert found.deltas["relative"]["MixR"].value == pytest.approx((-100 - 2 * 200 * 0.5 / 3) / 3)
    assert (found.win_rate.value, found.clips_won, found.clips_lost, found.sign_p) == (25.0, 0, 1, 1.0)
    assert (found.even_captions, found.even_win_rate) == (2, Interval(25.0))


def test_equal_standing_leaves_out_captions_that_find_one_more_easily() -> None:
    """The mirror of the first caption is first alone, the real clip second; both of the other's are first."""
    values = [[0.5, 0.6, 0.9, 0.1], [0.0, 0.7, 0.3, 0.4]]
    found = measured(pairs_of((0, 1), 2), values)
    assert (found.even_captions, found.even_win_rate, found.win_rate) == (1, Interval(100.0), Interval(50.0))
    assert measured(pairs_of((0,), 2), values[:1]).even_win_rate is None


def test_random_orders_come_near_their_expectation() -> None:
    corpus = pairs_of((*range(40),) * 10, 40)
    values = np.random.default_rng(0).normal(size=(400, 80))
    values[:, 40:] += 0.3
    expected = measured(corpus, values).deltas["location"]
    seeds = [measured(corpus, values, replace(PLAIN, seed=seed), location="random") for seed in range(8)]
    for word in ("R@1", "R@5", "MeanR"):
        found = [one.deltas["location"][word].value for one in seeds]
        assert len(set(found)) > 1
        assert np.mean(found) == pytest.approx(expected[word].value, abs=4 * np.std(found) / math.sqrt(8) + 0.5)


def test_in_a_random_order_one_of_a_pair_is_put_first() -> None:
    """All are first alone, so in the mixed gallery either is first: 5 captions cannot be shared out evenly."""
    corpus = pairs_of((0, 1, 2, 3, 4), 5)
    found = measured(corpus, np.hstack([np.eye(5), np.eye(5)]), location="random").deltas
    first = (found["location"]["R@1"].value / 200 + 1) / 2
    assert first != 0.5
    assert first * 5 == pytest.approx(round(first * 5))
    assert found["location"]["MeanR"].value == pytest.approx(200 * (2 * first - 1) / 3)
    assert found["normalized"]["R@1"].value == -found["location"]["R@1"].value


@settings(max_examples=15)
@given(cases(), st.sampled_from(["expected", "random"]))
def test_samples_are_scores_with_the_clips_of_some_pairs_exchanged(case: Case, location: str) -> None:
    """Columns of the scores are exchanged by hand and measured as any others, equal scores and unranked ones too."""
    corpus, values, _ = case
    pairs, how = values.shape[1] // 2, AuditSettings(resamples=5, seed=3, band_bytes=100)
    found = measured(corpus, values, how, location=location)
    for number, flipped in enumerate(drawn_flips(pairs, how)):
        moved = values.copy()
        moved[:, np.flatnonzero(flipped)] = values[:, pairs + np.flatnonzero(flipped)]
        moved[:, pairs + np.flatnonzero(flipped)] = values[:, np.flatnonzero(flipped)]
        one = measured(corpus, moved, replace(PLAIN, seed=3), location=location)
        assert found.swapped[number] == pytest.approx(one.deltas["normalized"]["MixR"].value, abs=1e-4)


def test_intervals_are_turned_around_from_exchanged_pairs() -> None:
    """Every exchange of three pairs with all of their captions, measured by hand; the AUC's samples likewise."""
    corpus = pairs_of((0, 0, 0, 1, 2, 2), 3)
    values = np.random.default_rng(3).normal(size=(6, 6))
    how = AuditSettings(resamples=120, seed=5, confidence=0.8)
    found = measured(corpus, values, how)
    pair, deltas, areas = np.array([0, 0, 0, 1, 2, 2]), [], []
    for flipped in drawn_flips(3, how):
        columns = np.concatenate([np.where(flipped, [3, 4, 5], [0, 1, 2]), np.where(flipped, [0, 1, 2], [3, 4, 5])])
        moved = values[:, columns]
        own, mirror = moved[np.arange(6), pair], moved[np.arange(6), pair + 3]
        areas.append(100 * np.mean([beats(one, other) for one in own for other in mirror]))
        deltas.append(measured(corpus, moved).video_deltas["MeanR"].value)
    for interval, drawn, neutral in ((found.auc, areas, 50), (found.video_deltas["MeanR"], deltas, 0)):
        apart = np.array(drawn[1:]) - neutral
        expected = drawn[0] - np.quantile(apart, 0.9), drawn[0] - np.quantile(apart, 0.1)
        assert ends(interval) == pytest.approx((drawn[0], *expected))


def test_samples_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, values = pairs_of((0, 1, 2, 1), 3), np.random.default_rng(0).normal(size=(4, 6))
    whole = measured(corpus, values, SAMPLED)
    monkeypatch.setattr(exchange, "_RANKS_BYTES", 200)
    np.testing.assert_allclose(measured(corpus, values, SAMPLED).swapped, whole.swapped)


def hubs(seed: int, pairs: int, captions: int, spread: float) -> tuple[Corpus, np.ndarray]:
    """Clips that each score higher or lower for every caption, whatever their source."""
    generator, own = np.random.default_rng(seed), np.repeat(np.arange(pairs), captions)
    values = generator.normal(size=2 * pairs) * spread + generator.normal(size=(len(own), 2 * pairs))
    for side in (0, pairs):
        values[np.arange(len(own)), side + own] += 2
    return pairs_of(tuple(own.tolist()), pairs), values


def test_hubs_are_no_preference() -> None:
    """Samples of pairs report one in up to 77 % of such worlds; 5 % of 40 are at most 7 with a chance of .998."""
    alarms: dict[str, int] = {}
    for world in range(40):
        found = measured(*hubs(world, 30, 3, 1.5), AuditSettings(resamples=100, seed=world))
        told = {f"{kind} {word}": one for kind, row in found.deltas.items() for word, one in row.items()}
        told |= {"auc": found.auc, "videos": found.video_deltas["MeanR"]}
        for name, one in told.items():
            _, low, high = ends(one)
            neutral = 50 if name == "auc" else 0
            alarms[name] = alarms.get(name, 0) + (not low <= neutral <= high)
    assert max(alarms.values()) <= 7, alarms


def test_a_preference_is_found_among_hubs() -> None:
    corpus, values = hubs(0, 100, 1, 0.5)
    values[:, 100:] += 1
    found = measured(corpus, values, AuditSettings(resamples=300))
    assert found.deltas["normalized"]["MixR"].high < 0  # type: ignore[operator]
    assert found.p_value == pytest.approx(2 / 301)


def test_the_sign_test_is_scipys() -> None:
    for won, lost in ((0, 0), (1, 0), (3, 9), (7, 7), (120, 80)):
        expected = binomtest(won, won + lost).pvalue if won + lost else 1.0
        assert sign_test(won, lost) == pytest.approx(expected)


def test_a_caption_that_cannot_be_used_is_reported() -> None:
    corpus = pairs_of((0, 0, 1, 3), 4)
    scores = scores_of(np.random.default_rng(0).normal(size=(4, 8)), corpus)
    kept = [0, 2, 3], [0, 1, 2, 4, 5, 6]  # without caption c1 and the pair of r3
    part = Scores(
        scores.values[np.ix_(*kept)], [scores.caption_ids[r] for r in kept[0]], [scores.video_ids[c] for c in kept[1]]
    )
    found = measure_source(part, corpus, "sora", PLAIN)
    assert (found.pairs, found.captions) == (3, 2)
    assert found.notices == (
        "Pairs of sora of which a clip is not in the scores: 1 left out.",
        "Captions of pairs of sora that are not in the scores: 1 left out.",
        "Pairs of sora without a caption, which only fill the gallery: 1.",
    )


def test_a_group_that_cannot_be_measured() -> None:
    corpus = pairs_of((0,), 2)
    with pytest.raises(CorpusError, match="No pair of 'kling' can be measured: of 0 pairs"):
        measure_source(scores_of([[0.0] * 4], corpus), corpus, "kling")
    with pytest.raises(UsageError, match="'middle' is no way"):
        measured(corpus, [[0.0] * 4], location="middle")


def test_no_sample_no_ends() -> None:
    assert inverted_interval(np.array([3.0]), PLAIN) == Interval(3.0)
    found = measured(pairs_of((0, 1), 2), [[0.5, 0.2, 0.9, 0.1], [0.0, 0.7, 0.3, 0.7]])
    assert (found.auc, found.p_value, len(found.swapped)) == (Interval(12.5), None, 1)


def plain(by_metric: Mapping[str, Interval]) -> dict[str, float]:
    return {word: one.value for word, one in by_metric.items()}


def ends(one: Interval) -> tuple[float, float, float]:
    assert one.low is not None and one.high is not None
    return one.value, one.low, one.high
