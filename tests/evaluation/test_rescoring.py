"""Corrections against slow loops over the published formulas, and what each must leave unchanged."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.metrics import RescoringSettings
from evenreel.evaluation.rescoring import (
    RESCORINGS,
    csls,
    double_softmax,
    dual_bank_sinkhorn,
    dual_softmax,
    hub_memory,
    inverted_softmax,
    nearest_neighbour_norm,
    querybank_norm,
    rescore,
    sinkhorn_norm,
    sinkhorn_over_test,
)
from evenreel.evaluation.scores import ListedScores
from evenreel.types import Scores
from tests.evaluation.small_corpus import scores_of

Matrix = NDArray[Any]


def random_scores(seed: int, queries: int = 6, videos: int = 5) -> Scores:
    return scores_of(np.random.default_rng(seed).normal(0.2, 0.1, (queries, videos)))


def bank_of(seed: int, rows: int = 9, columns: int = 5) -> Matrix:
    return np.random.default_rng(1000 + seed).normal(0.2, 0.1, (rows, columns))


def banks_of(word: str, bank: Matrix) -> tuple[Matrix | None, Matrix | None]:
    """The bank, and scores of its captions with videos of its own, for those corrections that use them."""
    method, own = RESCORINGS[word], np.random.default_rng(2).integers(-3, 4, (len(bank), 40)).astype(bank.dtype)
    return (bank if method.needs_bank else None), (own if method.needs_pairs else None)


def same_order(first: Matrix, second: Matrix) -> None:
    np.testing.assert_array_equal(np.argsort(first, axis=1), np.argsort(second, axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_dual_softmax_by_the_formula(seed: int) -> None:
    s = random_scores(seed)
    rows, columns = s.values.shape
    t2v, v2t = np.zeros((rows, columns)), np.zeros((rows, columns))
    for q in range(rows):
        for v in range(columns):
            own = math.exp(100 * s.values[q, v])
            t2v[q, v] = s.values[q, v] * own / sum(math.exp(100 * s.values[i, v]) for i in range(rows))
            v2t[q, v] = s.values[q, v] * own / sum(math.exp(100 * s.values[q, i]) for i in range(columns))
    np.testing.assert_allclose(dual_softmax(s, "t2v").values, t2v, rtol=1e-12)
    np.testing.assert_allclose(dual_softmax(s, "v2t").values, v2t, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_other_form_of_dual_softmax_by_the_formula(seed: int) -> None:
    s = scores_of(np.random.default_rng(seed).normal(20, 30, (6, 5)))
    rows, columns = s.values.shape
    first = np.zeros((rows, columns))
    for q in range(rows):
        total = sum(math.exp(s.values[q, i] / 500) for i in range(columns))
        for v in range(columns):
            first[q, v] = s.values[q, v] * math.exp(s.values[q, v] / 500) / total
    second = np.array(
        [
            [math.exp(first[q, v]) / sum(math.exp(first[i, v]) for i in range(rows)) for v in range(columns)]
            for q in range(rows)
        ]
    )
    np.testing.assert_allclose(np.exp(double_softmax(s).values), second, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_inverted_softmax_by_the_formula(seed: int) -> None:
    s = random_scores(seed)
    share = np.exp(20 * s.values) / np.exp(20 * s.values).sum(axis=0)
    np.testing.assert_allclose(np.exp(20 * inverted_softmax(s).values), share, rtol=1e-9)
    share = np.exp(20 * s.values) / np.exp(20 * s.values).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(20 * inverted_softmax(s, "v2t").values), share, rtol=1e-9)


@pytest.mark.parametrize("top", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_querybank_norm_ranks_as_the_published_rows_do(seed: int, top: int) -> None:
    s, bank = random_scores(seed), bank_of(seed, rows=2)
    hubs = {int(v) for row in bank for v in np.argsort(-row)[:top]}
    expected = s.values.copy()
    for q, row in enumerate(s.values):
        if int(np.argmax(row)) in hubs:
            for v in range(len(row)):
                expected[q, v] = math.exp(20 * row[v]) / sum(math.exp(20 * b[v]) for b in bank)
    assert 0 < len(hubs) < 5
    same_order(querybank_norm(s, bank, top=top).values, expected)


@pytest.mark.parametrize("word", ["qb-norm", "nnn", "sinkhorn-bank", "dbsn"])
def test_what_a_bank_does_for_videos_is_what_it_does_for_captions_turned_round(word: str) -> None:
    s, bank, own = random_scores(4, 5, 6), bank_of(4, rows=9, columns=6), bank_of(5, rows=9, columns=8)
    bank[:, 2] += 0.5
    turned, settings = scores_of(s.values.T), RescoringSettings(top=2) if word in ("qb-norm", "nnn") else None
    pairs = own if RESCORINGS[word].needs_pairs else None
    plain = rescore(word, s, "t2v", bank, pairs, settings)
    found = rescore(word, turned, "v2t", bank.T, None if pairs is None else pairs.T, settings)
    np.testing.assert_array_equal(found.values.T, plain.values)
    assert (np.argmax(plain.values, axis=1) != np.argmax(s.values, axis=1)).any()
    assert plain.about.uses[0].startswith("a bank of 9 captions")
    assert found.about.uses[0].startswith("a bank of 9 videos")


@pytest.mark.parametrize("seed", range(3))
def test_nearest_neighbour_norm_by_the_formula(seed: int) -> None:
    s, bank = random_scores(seed), bank_of(seed)
    means = [sum(sorted(bank[:, v])[-3:]) / 3 for v in range(5)]
    expected = [[s.values[q, v] - 0.75 * means[v] for v in range(5)] for q in range(6)]
    np.testing.assert_allclose(nearest_neighbour_norm(s, bank, top=3).values, expected, rtol=1e-12)
    other = bank_of(seed, 6, 4)
    means = [sum(sorted(other[q])[-2:]) / 2 for q in range(6)]
    expected = [[s.values[q, v] - 0.5 * means[q] for v in range(5)] for q in range(6)]
    found = nearest_neighbour_norm(s, other, "v2t", top=2, weight=0.5)
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)
    assert found.about.uses == ("a bank of 4 videos",)


@pytest.mark.parametrize("seed", range(3))
def test_csls_by_the_formula(seed: int) -> None:
    s = random_scores(seed)
    of_row = [sum(sorted(row)[-3:]) / 3 for row in s.values]
    of_column = [sum(sorted(column)[-3:]) / 3 for column in s.values.T]
    expected = [[2 * s.values[q, v] - of_row[q] - of_column[v] for v in range(5)] for q in range(6)]
    np.testing.assert_allclose(csls(s, 3).values, expected, rtol=1e-12)


WITHOUT_BANK = sorted(word for word, method in RESCORINGS.items() if not method.needs_bank)
OF_ANY_ORDER = [word for word in WITHOUT_BANK if word != "hub-memory"]


def applied(word: str, s: Scores, direction: Any = "t2v", bank: Matrix | None = None) -> Matrix:
    if word == "csls":
        return csls(s, 2).values
    return rescore(word, s, direction, bank).values


@pytest.mark.parametrize("word", OF_ANY_ORDER)
@pytest.mark.parametrize("direction", ["t2v", "v2t"])
def test_rows_and_columns_go_with_their_ids_and_inputs_stay(word: str, direction: Any) -> None:
    s = random_scores(7)
    before = s.values.copy()
    rows, columns = np.random.default_rng(0).permutation(6), np.random.default_rng(1).permutation(5)
    mixed = scores_of(s.values[rows][:, columns])
    np.testing.assert_allclose(
        applied(word, mixed, direction), applied(word, s, direction)[rows][:, columns], rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(s.values, before)


@pytest.mark.parametrize("word", sorted(RESCORINGS))
def test_minus_infinity_stays_and_spoils_nothing(word: str) -> None:
    values = random_scores(3, 200, 150).values
    values[2] = -np.inf
    values[:, 4] = -np.inf
    values[7, 9] = -np.inf
    bank = bank_of(1, 130, 150)
    bank[:, 5] = -np.inf
    found = rescore(word, scores_of(values), "t2v", *banks_of(word, bank)).values
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(values))
    assert not np.isnan(found).any()


@pytest.mark.parametrize("word", [one for one in WITHOUT_BANK if one != "sinkhorn"])  # its rounds make ties: see below
def test_extreme_scores_neither_overflow_nor_tie(word: str) -> None:
    s = scores_of(np.random.default_rng(0).permutation(np.linspace(-2, 2, 400)).reshape(20, 20).astype(np.float32))
    found = rescore(word, s, "t2v").values
    assert np.isfinite(found).all()
    assert all(len(np.unique(row)) == 20 for row in found)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("word", sorted(RESCORINGS))
def test_every_type_of_number(word: str, kind: Any) -> None:
    values = np.random.default_rng(0).integers(-3, 4, (200, 150)).astype(kind)
    bank = np.random.default_rng(1).integers(-3, 4, (130, 150)).astype(kind)
    found = rescore(word, scores_of(values), "t2v", *banks_of(word, bank)).values
    wide = rescore(word, scores_of(values.astype(np.float64)), "t2v", *banks_of(word, bank.astype(np.float64))).values
    np.testing.assert_allclose(found, wide, rtol=2e-6, atol=2e-6)
    if kind in (np.float16, np.float32) and not word.startswith(("dsl", "hub-memory")):
        assert found.dtype == np.float32


@pytest.mark.parametrize("word", ["qb-norm", "nnn"])
def test_a_bank_that_holds_rows_of_the_test_says_so(word: str) -> None:
    s = random_scores(0, 20, 20)
    mixed = np.vstack([bank_of(0, 1500, 20), np.asarray(s.values)[3:5].astype(np.float32)])
    assert rescore(word, s, "t2v", mixed).about.uses == (
        "a bank of 1,502 captions, 2 of them with the scores of queries that are corrected",
    )
    flat = np.vstack([bank_of(0, 1500, 20), np.zeros((1, 20))])
    same = Scores(np.vstack([np.asarray(s.values)[:-1], np.zeros((1, 20))]), s.caption_ids, s.video_ids)
    assert rescore(word, same, "t2v", flat).about.uses == ("a bank of 1,501 captions",)  # rows of one value are no sign


def test_masked_values_are_refused_and_not_unmasked() -> None:
    s = random_scores(0, 6, 6)
    masked = np.ma.MaskedArray(np.asarray(s.values), np.eye(6, dtype=bool))
    hidden = Scores(masked, s.caption_ids, s.video_ids)
    for word in ("dsl", "inverted"):
        with pytest.raises(ScoresError, match="The scores are a masked array with 6 of 36 values masked"):
            rescore(word, hidden, "t2v")
    with pytest.raises(ScoresError, match="The scores of the bank are a masked array with 6 of 36"):
        rescore("qb-norm", s, "t2v", masked)
    whole = Scores(np.ma.MaskedArray(np.asarray(s.values)), s.caption_ids, s.video_ids)
    np.testing.assert_array_equal(rescore("dsl", whole, "t2v").values, rescore("dsl", s, "t2v").values)


def test_everything_says_what_it_used_once() -> None:
    s = random_scores(0, 20, 20)
    once = rescore("dsl", s, "t2v")
    assert once.about.uses == ("other queries",)
    assert rescore("csls", once, "t2v").about.uses == ("other queries",)
    assert rescore("nnn", once, "t2v", bank_of(0, 1500, 20)).about.uses == ("other queries", "a bank of 1,500 captions")


def test_lists_are_put_together_first() -> None:
    lists = ListedScores(np.array([0, 1]), np.array([1, 0]), np.array([0.5, 0.25]), ["a", "b"], ["x", "y"])
    found = rescore("inverted", lists, "t2v").values
    np.testing.assert_array_equal(np.isneginf(found), [[True, False], [False, True]])


S = random_scores(0)
NO_NUMBERS = np.full((9, 2), np.nan)
WRONG_CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: rescore("magic", S, "t2v"), "'magic' is no re-scoring; there are: dsl, "),
    (lambda: rescore("qb-norm", S, "v2t", bank_of(0)), r"The bank's scores have the shape \(5, 9\)"),
    (lambda: rescore("dbsn", S, "t2v", bank_of(0)), "needs scores of the bank's captions with the bank's videos"),
    (lambda: rescore("nnn", S, "t2v", bank_of(0), bank_of(0)), "NNN takes no scores of the bank's captions with the"),
    (lambda: dual_bank_sinkhorn(S, bank_of(0), bank_of(0, 8, 4)), "they need 9 rows"),
    (lambda: dual_bank_sinkhorn(S, bank_of(0), NO_NUMBERS), "NaN or infinite"),
    (
        lambda: rescore("csls", S, "t2v", settings=RescoringSettings(scale=3.0)),
        "CSLS has no setting 'scale'; it has: n",
    ),
    (lambda: rescore("nnn", S, "t2v"), "NNN needs a bank"),
    (lambda: rescore("dsl", S, "t2v", bank_of(0)), "takes no bank"),
    (lambda: querybank_norm(S, bank_of(0, 9, 4)), r"shape \(9, 4\)"),
    (lambda: nearest_neighbour_norm(S, bank_of(0)), "best 128 of the bank, which has 9"),
    (lambda: csls(S, 6), "score at least 6 of both"),
]


@pytest.mark.parametrize(("call", "sentence"), WRONG_CALLS)
def test_wrong_calls_get_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises((ScoresError, UsageError), match=sentence):
        call()


def test_what_is_no_number_is_refused_in_scores_and_in_a_bank() -> None:
    s = random_scores(0)
    for bad in (np.nan, np.inf):
        values = s.values.copy()
        values[1, 2] = bad
        with pytest.raises(ScoresError, match="'c1' and 'v2' is (nan|inf)"):
            dual_softmax(scores_of(values))
        with pytest.raises(ScoresError, match="NaN or infinite"):
            querybank_norm(s, values)


@pytest.mark.parametrize(("rows", "columns"), [(9, 5), (4, 7)])
def test_sinkhorn_normalisation_is_that_of_a_slow_loop(rows: int, columns: int) -> None:
    scores, bank = random_scores(1, videos=columns), bank_of(2, rows, columns)
    of_videos = [1.0] * columns
    for _ in range(300):
        of_bank = [
            (1 / rows) / sum(of_videos[v] * math.exp(bank[b, v] / 0.1) for v in range(columns)) for b in range(rows)
        ]
        for v in range(columns):
            wanted = sum(of_bank[b] * math.exp(bank[b, v] / 0.1) for b in range(rows))
            of_videos[v] = 1 / columns / wanted if rows >= columns else min(1.0, 1 / rows / wanted)
    expected = scores.values + 0.1 * np.log(of_videos)
    found = sinkhorn_norm(scores, bank, 0.1, 300).values
    assert found - found[:, :1] == pytest.approx(expected - expected[:, :1], abs=1e-6)


def test_sinkhorn_normalisation_lowers_a_hub() -> None:
    bank = np.array([[0.9, 0.2, 0.1], [0.8, 0.1, 0.3], [0.9, 0.3, 0.2]])
    scores = scores_of([[0.85, 0.8, 0.1]])
    assert sinkhorn_norm(scores, bank).values.argmax() == 1
    assert "a bank of 3 captions" in str(sinkhorn_norm(scores, bank).about)
    for bad in ({"temperature": 0.0}, {"iterations": 0}):
        with pytest.raises(UsageError, match="temperature"):
            sinkhorn_norm(scores, bank, **bad)


def slow_transport(kernel: list[list[float]], iterations: int) -> tuple[list[float], list[float]]:
    """The two factors of a plan whose rows and columns have equal shares, rounds as in the authors' code."""
    rows, columns = len(kernel), len(kernel[0])
    of_items = [1.0 / columns] * columns
    for _ in range(iterations):
        of_queries = [1 / rows / sum(of_items[v] * kernel[b][v] for v in range(columns)) for b in range(rows)]
        of_items = [1 / columns / sum(of_queries[b] * kernel[b][v] for b in range(rows)) for v in range(columns)]
    return of_queries, of_items


@pytest.mark.parametrize(("rows", "own"), [(9, 5), (4, 7), (6, 1)])
@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_dual_bank_normalisation_is_that_of_a_slow_loop(rows: int, own: int, iterations: int) -> None:
    s, bank, pairs = random_scores(1), bank_of(2, rows), bank_of(3, rows, own)
    kernel = [[math.exp(one / 0.05) for one in (*bank[b], *pairs[b])] for b in range(rows)]
    _, of_items = slow_transport(kernel, iterations)
    expected = [[s.values[q, v] + 0.05 * math.log(of_items[v]) for v in range(5)] for q in range(6)]
    found = dual_bank_sinkhorn(s, bank, pairs, temperature=0.05, iterations=iterations)
    # A factor that all items share is no part of the correction: the authors' rounds begin with another.
    assert found.values - found.values[:, :1] == pytest.approx(np.array(expected) - np.array(expected)[:, :1], abs=1e-9)
    assert found.about.uses == (f"a bank of {rows} captions, and {own} items of its own",)


@pytest.mark.parametrize(("rows", "columns"), [(6, 5), (4, 7)])
def test_normalisation_over_the_test_is_that_of_a_slow_loop(rows: int, columns: int) -> None:
    s = random_scores(3, rows, columns)
    of_queries, of_items = slow_transport([[math.exp(one / 0.05) for one in row] for row in s.values], 2000)
    found = sinkhorn_over_test(s, 0.05, 2000).values
    plan = np.exp(np.asarray(s.values) / 0.05) * np.array(of_queries)[:, None] * np.array(of_items)
    assert np.exp(found / 0.05) == pytest.approx(plan, rel=1e-6)
    assert np.exp(found / 0.05).sum(axis=1) == pytest.approx(np.full(rows, 1 / rows))
    assert np.exp(found / 0.05).sum(axis=0) == pytest.approx(np.full(columns, 1 / columns))


def test_a_temperature_far_below_the_scores_makes_ties_and_nothing_worse() -> None:
    """Each round gives a column its whole share by its best row; a row that is the best of two has a tie."""
    values = np.random.default_rng(0).permutation(np.linspace(-2, 2, 400)).reshape(20, 20).astype(np.float32)
    found = sinkhorn_over_test(scores_of(values), 1e-4).values
    assert np.isfinite(found).all()
    assert min(len(np.unique(row)) for row in found) < 20
    assert sinkhorn_over_test(scores_of(values), 0.5).values.max() < 0


@pytest.mark.parametrize("word", sorted(RESCORINGS))
def test_each_correction_names_its_settings_and_uses_those_that_are_given(word: str) -> None:
    method, s, bank = RESCORINGS[word], random_scores(0, 60, 20), bank_of(0, 3 if word == "qb-norm" else 150, 20)
    assert method.chosen(RescoringSettings()) == method.usual
    plain = rescore(word, s, "t2v", *banks_of(word, bank)).values
    for name, value in method.usual.items():
        other = 1 if value is None else 3 if isinstance(value, int) else value / 3
        settings = RescoringSettings(**{name: other})
        assert f"{name} {other:g}" in method.described(settings)
        assert not np.array_equal(rescore(word, s, "t2v", *banks_of(word, bank), settings).values, plain), name
    assert set(method.usual) <= set(RescoringSettings.__dataclass_fields__)


def test_settings_out_of_their_range_are_refused() -> None:
    for name, value in (("scale", 0.0), ("temperature", -1.0), ("top", 0), ("iterations", 0), ("weight", math.nan)):
        with pytest.raises(UsageError, match=f"The setting {name} of the correction is"):
            RescoringSettings(**{name: value})  # type: ignore[arg-type]


def test_scores_that_a_correction_is_not_made_for_are_told() -> None:
    cosines, products = random_scores(0), scores_of(100 * np.asarray(random_scores(0).values))
    sentence = RESCORINGS["qb-norm"].unsuited(products, RescoringSettings())
    least, most = products.values.min(), products.values.max()
    assert sentence.startswith(
        "The scale 20 of QB-Norm is made for cosines, but these scores are no cosines: they range"
    )
    assert f"from {least:.3g} to {most:.3g}; choose --scale" in sentence
    assert RESCORINGS["qb-norm"].unsuited(products, RescoringSettings(scale=0.2)) == ""
    assert RESCORINGS["dsl-double"].unsuited(products, RescoringSettings()) == ""
    assert "made for inner products" in RESCORINGS["dsl-double"].unsuited(cosines, RescoringSettings())
    assert [word for word in RESCORINGS if RESCORINGS[word].unsuited(products, RescoringSettings())] == [
        "dsl", "inverted", "sinkhorn", "hub-memory", "qb-norm", "sinkhorn-bank", "dbsn",
    ]  # fmt: skip
    missing = scores_of([[-np.inf, 0.5], [0.25, -np.inf]])
    assert RESCORINGS["dsl"].unsuited(missing, RescoringSettings()) == ""
    assert RESCORINGS["dsl"].unsuited(scores_of([[-np.inf]]), RescoringSettings()) == ""


def cosines(seed: int, queries: int, videos: int) -> Matrix:
    return np.random.default_rng(seed).normal(0.2, 0.1, (queries, videos))


def slowly(
    values: Matrix, batch: int = 16, remembered: int = 0, alpha: float = 100, beta: float = 10, weight: float = 0.5
) -> list[list[float]]:
    """Row by row, with the memory as a queue of batches."""
    memory: deque[Matrix] = deque(maxlen=remembered or max(1, values.shape[1] // 10))
    found: list[list[float]] = []
    for start in range(0, len(values), batch):
        asked = values[start : start + batch]
        kept = [row for one in [*memory, asked] for row in one]
        for row in asked:
            if not memory:
                found.append(list(row))
                continue
            over_items = sum(math.exp(beta * s) for s in row)
            weighed = []
            for v, s in enumerate(row):
                by_gallery = math.exp(alpha * s) / sum(math.exp(alpha * other[v]) for other in kept)
                by_query = math.exp(beta * s) / over_items
                weighed.append(weight * s * by_gallery + (1 - weight) * s * by_query)
            found.append(weighed)
        memory.append(asked)
    return found


MEMORIES: list[dict[str, Any]] = [{}, {"batch": 1}, {"batch": 3, "remembered": 1}, {"batch": 2, "remembered": 50}]
MEMORIES += [{"batch": 4, "remembered": 2, "alpha": 30.0, "beta": 20.0, "weight": 0.2}]


@pytest.mark.parametrize("own", MEMORIES)
@pytest.mark.parametrize(("queries", "videos"), [(53, 7), (40, 31), (5, 4)])
def test_the_memory_is_that_of_slow_loops(own: dict[str, Any], queries: int, videos: int) -> None:
    values = cosines(queries, queries, videos)
    expected = slowly(values, **own)
    np.testing.assert_allclose(hub_memory(scores_of(values), **own).values, expected, rtol=1e-9)
    turned = hub_memory(scores_of(values.T), "v2t", **own).values
    np.testing.assert_allclose(turned.T, expected, rtol=1e-9)


def test_the_first_batch_stays_and_a_hub_sinks_in_the_next() -> None:
    hub = np.tile([0.5, 0.1, 0.1], (16, 1))
    values = np.vstack([hub, [[0.42, 0.4, 0.1]]])
    found = hub_memory(scores_of(values)).values
    np.testing.assert_array_equal(found[:16], hub)
    assert found[16].argmax() == 1


@given(st.integers(0, 50), st.integers(1, 5), st.integers(1, 4), st.integers(1, 30))
def test_later_queries_change_no_earlier_answer(seed: int, batch: int, remembered: int, batches: int) -> None:
    values, before = cosines(seed, 40, 6), min(batch * batches, 40)
    whole, part = (hub_memory(scores_of(one), "t2v", batch, remembered).values for one in (values, values[:before]))
    np.testing.assert_array_equal(part, whole[:before])


@given(st.integers(0, 50), st.integers(1, 5), st.integers(1, 4))
def test_what_left_the_memory_is_forgotten(seed: int, batch: int, remembered: int) -> None:
    values = cosines(seed, 40, 6)
    gone = 40 - batch * (remembered + 1) - 40 % batch
    last = slice(40 - (40 % batch or batch), 40)
    changed = values.copy()
    changed[: max(gone, 0)] += 0.3
    plain, other = (hub_memory(scores_of(one), "t2v", batch, remembered).values for one in (values, changed))
    np.testing.assert_allclose(plain[last], other[last], rtol=1e-12)


def test_columns_go_with_their_ids() -> None:
    values, order = cosines(0, 50, 9), np.random.default_rng(1).permutation(9)
    found = hub_memory(scores_of(values[:, order])).values
    np.testing.assert_allclose(found, hub_memory(scores_of(values)).values[:, order], rtol=1e-9)


def test_it_says_that_the_order_of_the_queries_counts() -> None:
    s = scores_of(cosines(0, 20, 5))
    used = ("queries before it and beside it in its batch, in the order of the scores",)
    assert rescore("hub-memory", s, "t2v").about.uses == used
    assert rescore("hub-memory", s, "v2t").about.uses == used


OUT_OF_RANGE: dict[str, tuple[Any, str]] = {
    "batch": (0, "batches of 1 query or more .* they were 0 and None"),
    "remembered": (0, "they were 16 and 0"),
    "alpha": (0.0, "above 0 and its weight is 0 to 1; they were 0.0, 10.0 and 0.5"),
    "beta": (math.nan, "they were 100.0, nan and 0.5"),
    "weight": (1.5, "they were 100.0, 10.0 and 1.5"),
}


@pytest.mark.parametrize(("bad", "words"), [({name: bad}, words) for name, (bad, words) in OUT_OF_RANGE.items()])
def test_settings_out_of_range_are_refused(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        hub_memory(scores_of(cosines(0, 4, 4)), **bad)
