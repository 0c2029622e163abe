"""Whole evaluations: protocols, what fits a corpus, tiles, ids, notices, means of both ways, what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import DirectionResult, EvaluationSettings, compare, evaluate, parse_metrics
from evenreel.evaluation.comparison import means_of_directions
from evenreel.evaluation.measure import Evaluation
from evenreel.types import ScoreNotes, Scores
from tests.evaluation import slow_metrics
from tests.evaluation.small_corpus import Blocks, Degrees, corpus_of, scores_of

PLAIN = EvaluationSettings(parse_metrics(["R@1", "R@2", "MedR", "MeanR", "MRR", "nDCG", "mAP"]), resamples=0)
FIRST = replace(PLAIN, metrics=parse_metrics(["R@1", "R@2", "MedR", "MRR"]))
CLIPS = [0, 1, 0, 2, 2, 0]
"""Clip of each of six captions; clip 3 has none."""

tables = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, 2.0, -np.inf]), min_size=4, max_size=4), min_size=6, max_size=6
).map(np.array)


def query(result: DirectionResult, name: str) -> dict[str, float]:
    place = list(result.query_ids).index(name)
    return {column: float(values[place]) for column, values in result.per_query.items()}


def slow(scores: Sequence[float], degrees: Sequence[float], names: Sequence[str]) -> dict[str, float]:
    return {name: slow_metrics.expected(name, scores, degrees) for name in names}


@given(tables)
def test_captions_look_for_videos(values: np.ndarray) -> None:
    done = evaluate(scores_of(values), corpus_of(CLIPS, 4), PLAIN).directions["t2v"]
    assert (done.gallery_size, done.groups.tolist()) == (4, [0, 1, 0, 2, 2, 0])
    for caption, clip in enumerate(CLIPS):
        found = query(done, f"c{caption}")
        assert found == pytest.approx(slow(values[caption], np.eye(4)[clip], list(found)))


@given(tables)
def test_a_video_s_captions_can_be_averaged_first(values: np.ndarray) -> None:
    single = evaluate(scores_of(values), corpus_of(CLIPS, 4), PLAIN).directions["t2v"]
    done = evaluate(scores_of(values), corpus_of(CLIPS, 4), replace(PLAIN, t2v_protocol="video-mean")).directions["t2v"]
    assert (list(done.query_ids), done.groups.tolist()) == (["v0", "v1", "v2"], [0, 1, 2])
    for name, column in done.per_query.items():
        rows = single.per_query[name]
        np.testing.assert_allclose(column, [rows[[0, 2, 5]].mean(), rows[1], rows[[3, 4]].mean()])


@given(tables)
def test_the_best_placed_own_caption_counts(values: np.ndarray) -> None:
    done = evaluate(scores_of(values), corpus_of(CLIPS, 4), FIRST).directions["v2t"]
    assert (done.gallery_size, done.without_relevant) == (6, ("v3",))
    for clip in range(3):
        found = query(done, f"v{clip}")
        own = [float(one == clip) for one in CLIPS]
        assert found == pytest.approx(slow(values[:, clip], own, list(found)))


@given(tables)
def test_a_video_among_videos_by_their_best_captions(values: np.ndarray) -> None:
    asked = replace(PLAIN, v2t_protocol="caption-group")
    done = evaluate(scores_of(values), corpus_of(CLIPS, 4), asked).directions["v2t"]
    assert (done.gallery_size, done.without_relevant) == (3, ("v3",))
    for clip in range(3):
        best = [max(values[c, clip] for c in range(6) if CLIPS[c] == group) for group in range(3)]
        found = query(done, f"v{clip}")
        assert found == pytest.approx(slow(best, np.eye(3)[clip], list(found)))


@given(tables, st.sampled_from(["expected", "optimistic", "pessimistic"]))
def test_each_own_caption_alone_among_the_others(values: np.ndarray, ties: Any) -> None:
    asked = replace(FIRST, v2t_protocol="every-caption", ties=ties)
    done = evaluate(scores_of(values), corpus_of(CLIPS, 4), asked).directions["v2t"]
    for clip in range(3):
        single = []
        others = [values[c, clip] for c in range(6) if CLIPS[c] != clip]
        for own in (c for c in range(6) if CLIPS[c] == clip):
            scores, degrees = [values[own, clip], *others], [1.0] + [0.0] * len(others)
            if ties == "expected":
                single.append(slow(scores, degrees, list(done.per_query)))
            else:
                order = slow_metrics.favouring(scores, degrees, 1 if ties == "optimistic" else -1)
                single.append({name: slow_metrics.METRICS[name](order) for name in done.per_query})
        mean = {name: np.mean([one[name] for one in single]) for name in single[0]}
        assert query(done, f"v{clip}") == pytest.approx(mean)


def test_graded_relevance_of_groups_is_the_highest_of_their_captions() -> None:
    table = np.random.default_rng(0).choice([0, 0.5, 1], (6, 4))
    table[0] = 1
    values = np.random.default_rng(1).random((6, 4))
    asked = replace(PLAIN, v2t_protocol="caption-group")
    done = evaluate(scores_of(values), corpus_of(CLIPS, 4), asked, relevance=Degrees(table)).directions["v2t"]
    for clip in range(4):
        of = [[c for c in range(6) if CLIPS[c] == group] for group in range(3)]
        best, degrees = ([max(source[c, clip] for c in captions) for captions in of] for source in (values, table))
        found = query(done, f"v{clip}")
        assert found == pytest.approx(slow(best, degrees, list(found)))


@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
@pytest.mark.parametrize(
    ("direction", "protocol"),
    [("t2v", one) for one in ("caption", "video-mean")]
    + [("v2t", one) for one in ("best-caption", "caption-group", "every-caption")],
)
def test_the_chance_of_a_hit_is_had_for_any_k(direction: Any, protocol: str, ties: Any) -> None:
    values = np.random.default_rng(2).choice([-np.inf, 0.0, 1.0], (6, 4))
    metrics = parse_metrics([f"R@{k}" for k in range(1, 7)])
    asked = replace(
        FIRST, metrics=metrics, ties=ties, band_bytes=1, directions=(direction,), **{f"{direction}_protocol": protocol}
    )
    relevance = Degrees(np.random.default_rng(3).choice([0, 0.5, 1.0], (6, 4)))
    for degrees in ("clip", relevance):
        done = evaluate(scores_of(values), corpus_of(CLIPS, 4), asked, relevance=degrees).directions[direction]
        for k in range(1, 7):
            np.testing.assert_allclose(done.hit_chance(k), done.per_query[f"R@{k}"], atol=1e-9)


@pytest.mark.parametrize("protocol", ["best-caption", "caption-group", "every-caption"])
@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize(("band_bytes", "threads"), [(1, 1), (700, 2), (5000, 3), (2**30, 0)])
def test_tiles_of_any_size_give_the_same(protocol: Any, graded: bool, band_bytes: int, threads: int) -> None:
    random = np.random.default_rng(7)
    values = random.integers(0, 9, (40, 12)).astype(np.float32)
    corpus = corpus_of(random.integers(0, 11, 40).tolist(), 12)
    words = ["MedR", "R@3", "MRR"] + ([] if protocol == "every-caption" else ["nDCG@5", "mAP-EPIC"])
    asked = EvaluationSettings(parse_metrics(words), v2t_protocol=protocol, resamples=0)
    table = random.choice([0, 0, 0.3, 1], (40, 12))
    table[0] = table[:, 0] = 1
    relevance: Any = Degrees(table) if graded else "clip"
    whole = evaluate(scores_of(values), corpus, asked, relevance=relevance)
    parts = evaluate(
        scores_of(values), corpus, replace(asked, band_bytes=band_bytes, threads=threads), relevance=relevance
    )
    for direction, result in whole.directions.items():
        for name, column in result.per_query.items():
            np.testing.assert_array_equal(column, parts.directions[direction].per_query[name])


@pytest.mark.parametrize("band_bytes", [1, 300, 2**20])
def test_each_score_is_asked_for_once_a_direction_and_buffers_may_be_shared(band_bytes: int) -> None:
    values = np.random.default_rng(3).random((30, 10))
    reader = Blocks(scores_of(values))
    corpus = corpus_of([row % 10 for row in range(30)], 10)
    asked = replace(PLAIN, band_bytes=band_bytes)
    done = evaluate(reader, corpus, asked)
    assert (reader.read == 2).all()
    assert done.to_json(per_query=True) == evaluate(scores_of(values), corpus, asked).to_json(per_query=True)


@pytest.mark.parametrize("relevance", ["clip", "text"])
def test_permuted_ids_give_permuted_results(relevance: Any) -> None:
    random = np.random.default_rng(5)
    values = random.integers(0, 6, (20, 8)).astype(float)
    corpus = corpus_of(random.integers(0, 8, 20).tolist(), 8, [f"text {number % 7}" for number in range(20)])
    straight = scores_of(values)
    rows, columns = random.permutation(20), random.permutation(8)
    turned = Scores(
        values[rows][:, columns], [straight.caption_ids[r] for r in rows], [straight.video_ids[c] for c in columns]
    )
    for protocol in ("best-caption", "caption-group"):
        asked = replace(PLAIN, v2t_protocol=protocol)
        one, other = (evaluate(scores, corpus, asked, relevance=relevance) for scores in (straight, turned))
        for direction, result in one.directions.items():
            for name in result.query_ids:
                assert query(result, name) == pytest.approx(query(other.directions[direction], name))


def test_views_and_memory_maps_are_ranked_as_they_are(tmp_path: Any) -> None:
    values = np.random.default_rng(1).random((6, 4)).astype(np.float32)
    np.save(tmp_path / "scores.npy", values)
    corpus = corpus_of(CLIPS, 4)
    wide = np.zeros((12, 12), np.float32)
    wide[::2, 10:2:-2] = values
    whole = evaluate(scores_of(values), corpus, PLAIN).to_json(per_query=True)
    for other in (np.asfortranarray(values), wide[::2, 10:2:-2], np.load(tmp_path / "scores.npy", mmap_mode="r")):
        view = Scores(other, [f"c{row}" for row in range(6)], [f"v{column}" for column in range(4)])
        assert evaluate(view, corpus, PLAIN).to_json(per_query=True) == whole


def test_relevance_that_is_no_table_of_degrees_is_refused() -> None:
    """What is one is held by `test_accepted.py`."""
    values, table = np.random.default_rng(0).random((6, 4)), np.random.default_rng(1).choice([0, 0.5, 1], (6, 4))
    corpus = corpus_of(CLIPS, 4)
    for wrong, sentence in (
        (table.T, "has the shape .4, 6."),
        (table * 2, "range from 0.0 to 2.0"),
        (np.where(table == 1, np.nan, table), "between 0 and 1"),
        (table[0], "numbers, a caption a row"),
        (table.astype(str), "numbers, a caption a row"),
    ):
        with pytest.raises(UsageError, match=sentence):
            evaluate(scores_of(values), corpus, PLAIN, relevance=wrong)


def test_galleries_are_told_apart_whatever_their_order() -> None:
    values = np.random.default_rng(0).random((4, 4))
    corpus, asked = corpus_of([0, 0, 1, 1], 6), replace(PLAIN, partial=True)

    def ranked(clips: list[str]) -> Any:
        return evaluate(Scores(values, ["c0", "c1", "c2", "c3"], clips), corpus, asked)

    base, mixed, other = (ranked(["v0", "v1", *more]) for more in (["v2", "v3"], ["v3", "v2"], ["v4", "v5"]))
    compare(base, {"x": mixed})
    with pytest.raises(ScoresError, match="different items in t2v"):
        compare(base, {"x": other})


def test_intervals_over_few_clips_are_told() -> None:
    asked = EvaluationSettings(parse_metrics(["R@1", "MedR"]), resamples=50)
    few = evaluate(scores_of(np.eye(9)), corpus_of(range(9), 9), asked).notices
    assert any(
        "t2v: the clips that the queries are of are too few (9); intervals hold from" in notice for notice in few
    )
    spread = np.random.default_rng(0).random((30, 30)) + np.eye(30) / 2
    assert evaluate(scores_of(spread), corpus_of(range(30), 30), asked).notices == ()
    assert evaluate(scores_of(np.eye(9)), corpus_of(range(9), 9), replace(asked, resamples=0)).notices == ()
    perfect = evaluate(scores_of(np.eye(30)), corpus_of(range(30), 30), asked)
    recall = perfect.directions["t2v"].summary["R@1"]
    assert (recall.value, recall.high) == (100, 100)
    assert recall.low == pytest.approx(
        100 * 30 / (30 + t.ppf(0.975, 29) ** 2)
    )  # all of 30 is no proof of all there are


def test_a_gallery_that_is_not_searched_may_be_small() -> None:
    asked = replace(PLAIN, partial=True)
    for missing, searched in (("clips", "t2v"), ("captions", "v2t")):
        corpus = corpus_of([0, 1] if missing == "clips" else [0, 1, 1], 3 if missing == "clips" else 2)
        for direction in ("t2v", "v2t"):
            done = evaluate(scores_of(np.eye(2)), corpus, replace(asked, directions=(direction,)))
            assert ("smaller gallery" in " ".join(done.notices)) == (direction == searched)


def test_one_caption_and_one_video() -> None:
    done = evaluate(scores_of([[-1e9]]), corpus_of([0], 1), PLAIN)
    for result in done.directions.values():
        assert {word: figure.value for word, figure in result.summary.items()} == pytest.approx(
            {"R@1": 100, "R@2": 100, "MedR": 1, "MeanR": 1, "MRR": 100, "nDCG": 100, "mAP": 100}
        )


def test_an_evaluation_is_ready_for_json_and_a_table() -> None:
    scores = scores_of(np.eye(4)[CLIPS], about=ScoreNotes(("other queries",)))
    done = evaluate(scores, corpus_of(CLIPS, 4), replace(PLAIN, resamples=10))
    document = json.loads(json.dumps(done.to_json(per_query=True)))
    assert document["uses"] == ["other queries"]
    assert document["relevance"] == "clip"
    assert document["directions"]["v2t"]["without_relevant"] == ["v3"]
    assert document["directions"]["t2v"]["summary"]["R@1"]["value"] == 100
    assert document["directions"]["t2v"]["per_query"]["id"] == [f"c{row}" for row in range(6)]
    assert any("1 clips have nothing relevant" in notice for notice in document["notices"])
    assert done.to_frame().rows() == [
        (direction, word, one["value"], one["low"], one["high"])
        for direction, side in document["directions"].items()
        for word, one in side["summary"].items()
    ]
    compared = compare(done, {"other": done})
    assert compared.to_frame().select("system", "metric", "difference", "low", "wins").rows() == [
        (row.system, row.metric, row.difference.value, row.difference.low, row.wins) for row in compared.rows
    ]


def test_progress_runs_to_one() -> None:
    shares: list[float] = []
    evaluate(scores_of(np.eye(4)[CLIPS]), corpus_of(CLIPS, 4), replace(PLAIN, band_bytes=1), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(shares) == 10


# Queries that have nothing to find


def test_queries_with_low_degrees_only_count_in_ndcg_alone() -> None:
    table = np.array([[1, 0.5], [0.5, 0], [0, 0]])
    asked = EvaluationSettings(parse_metrics(["R@1", "nDCG"]), directions=("t2v",), resamples=0)
    values = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    done = evaluate(scores_of(values), corpus_of([0, 0, 1], 2), asked, relevance=Degrees(table))
    result = done.directions["t2v"]
    assert list(result.query_ids) == ["c0", "c1"]
    assert result.without_relevant == ("c2",)
    assert result.summary["R@1"].value == 100
    assert result.summary["nDCG"].value == pytest.approx(100 * (1 + 1 / np.log2(3)) / 2)
    assert any("only lower degrees" in notice for notice in done.notices)
    with pytest.raises(ScoresError, match="R@1 has no value"):
        evaluate(scores_of(values), corpus_of([0, 0, 1], 2), asked, relevance=Degrees(np.minimum(table, 0.5)))


# What is refused


def refused(scores: Any, sentence: str, corpus: Any = None, asked: EvaluationSettings = PLAIN) -> None:
    with pytest.raises(ScoresError, match=sentence):
        evaluate(scores, corpus or corpus_of(CLIPS, 4), asked)


def test_masked_values_are_refused() -> None:
    """They would come back from behind their mask: 98.0 became 2.0."""
    masked = np.ma.MaskedArray(np.eye(4)[CLIPS], np.zeros((6, 4), dtype=bool))
    ids = [f"c{row}" for row in range(6)], [f"v{one}" for one in range(4)]
    whole = evaluate(Scores(masked, *ids), corpus_of(CLIPS, 4), PLAIN)
    assert whole.to_json() == evaluate(scores_of(np.eye(4)[CLIPS]), corpus_of(CLIPS, 4), PLAIN).to_json()
    masked[2, 1] = np.ma.masked
    refused(Scores(masked, *ids), "The scores are a masked array with 1 of 24 values masked")
    degrees = np.ma.MaskedArray(np.eye(4)[CLIPS], masked.mask)
    with pytest.raises(ScoresError, match="The degrees of relevance are a masked array"):
        evaluate(scores_of(np.eye(4)[CLIPS]), corpus_of(CLIPS, 4), PLAIN, relevance=degrees)


def test_nan_is_named_by_its_ids_wherever_it_stands() -> None:
    for direction in ("t2v", "v2t"):
        for protocol in ("best-caption", "caption-group"):
            for place in ((0, 0), (5, 3), (2, 1)):
                values = np.zeros((6, 4), np.float16)
                values[place] = np.nan
                asked = replace(PLAIN, directions=(direction,), v2t_protocol=protocol, band_bytes=60)
                refused(scores_of(values), f"caption 'c{place[0]}' and video 'v{place[1]}' is NaN", asked=asked)


@pytest.mark.parametrize("kind", [np.complex64, object, "U3", "datetime64[s]"])
def test_what_is_no_number_is_refused(kind: Any) -> None:
    refused(scores_of(np.zeros((6, 4)).astype(int).astype(kind)), "must be whole or floating-point numbers")


def test_shapes_that_do_not_fit_are_refused() -> None:
    ids = [f"c{row}" for row in range(6)], [f"v{column}" for column in range(4)]
    refused(Scores(np.zeros((4, 6)), *ids), "a caption a row and a video a column")
    refused(Scores(np.zeros((7, 5)), *ids), "there are 6 caption ids and 4 video ids")
    refused(Scores(np.zeros((0, 4)), [], ids[1]), "at least one of each")
    reader = Blocks(scores_of(np.zeros((6, 4))))
    reader.block = lambda captions, videos: np.zeros((1, 1))  # type: ignore[method-assign]
    refused(reader, r"have the shape \(1, 1\); it must be \(6, 4\)")


def test_ids_that_do_not_fit_the_corpus_are_refused() -> None:
    videos = [f"v{column}" for column in range(4)]
    captions = [f"c{row}" for row in range(6)]
    values = np.eye(4)[CLIPS]
    refused(Scores(values, [*captions[:5], "x"], videos), "caption 'x', which the corpus does not have")
    refused(Scores(values, captions, ["x", *videos[1:]]), "clip 'x', which the corpus does not have")
    refused(Scores(values, [*captions[:5], "c0"], videos), "name the caption 'c0' more than once")
    refused(scores_of(values[:4]), "2 of 6 captions of the corpus have no scores, the first 'c4'")
    refused(scores_of(values[:, :3]), "1 of 4 clips of the corpus have no scores, the first 'v3'")
    partial = replace(PLAIN, partial=True)
    refused(scores_of([[1.0, 0.0]]), "has a relevant clip among them", corpus_of([2], 3), partial)


def test_part_of_a_corpus_is_evaluated_when_asked_and_says_so() -> None:
    done = evaluate(scores_of(np.eye(4)[CLIPS][:4, :2]), corpus_of(CLIPS, 4), replace(PLAIN, partial=True))
    assert done.directions["t2v"].without_relevant == ("c3",)
    assert any("2 of 6 captions of the corpus have no scores" in notice for notice in done.notices)
    assert any("2 of 4 clips of the corpus have no scores" in notice for notice in done.notices)


def test_relevance_that_does_not_fit_is_refused() -> None:
    scores, corpus = scores_of(np.zeros((6, 4))), corpus_of(CLIPS, 4)
    for relevance in ("taste", Degrees(np.ones((4, 6)))):
        with pytest.raises(UsageError):
            evaluate(scores, corpus, PLAIN, relevance=relevance)  # type: ignore[arg-type]
    for degree in (-0.1, 1.1, np.nan):
        with pytest.raises(ScoresError, match="between 0 and 1"):
            evaluate(scores, corpus, PLAIN, relevance=Degrees(np.full((6, 4), degree)))


WRONG: list[dict[str, Any]] = [{"ties": "lucky"}, {"t2v_protocol": "best-caption"}, {"v2t_protocol": "caption"}]
WRONG += [{"directions": ("v2v",)}, {"directions": ()}, {"metrics": ()}, {"confidence": 1.0}, {"threads": -1}]
WRONG += [{"v2t_protocol": "every-caption", "metrics": parse_metrics(["nDCG@5"])}]


@pytest.mark.parametrize("wrong", WRONG)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        EvaluationSettings(**wrong)


NOISY = np.random.default_rng(0).normal(size=(12, 12)) + np.eye(12)
OWN = corpus_of(range(12), 12)


def said(values: np.ndarray, *metrics: str) -> list[str]:
    settings = EvaluationSettings(metrics=metrics, resamples=0)
    return list(evaluate(scores_of(values), OWN, settings).notices)


def test_a_k_beyond_the_gallery_is_told() -> None:
    """A sum of recalls is no better than its recalls; a k below, and other metrics, need no word."""
    for metric in ("R@12", "R@999999999"):
        words = f"the gallery has 12 items, so {metric} would count all of them in any order; choose a k below that."
        assert said(NOISY, "R@1", metric) == [f"t2v: {words}", f"v2t: {words}"]
    small = evaluate(scores_of(np.eye(4)), corpus_of(range(4), 4), EvaluationSettings(resamples=0)).notices
    assert small[0].startswith("t2v: the gallery has 4 items, so R@5, R@10, Rsum would count all")
    assert said(NOISY, "R@11", "MedR", "nDCG@50", "Rsum", "mAP") == []


@pytest.mark.parametrize("turned", [False, True])
def test_plus_infinity_is_told_with_its_pair(turned: bool) -> None:
    values = NOISY.copy()
    values[3, 5] = np.inf
    values[7, 1] = -np.inf
    (sentence,) = said(values.T if turned else values, "R@1")
    values[0, 0] = np.nan
    refused(scores_of(values), "caption 'c0' and video 'v0' is NaN", OWN)
    pair = ("c5", "v3") if turned else ("c3", "v5")
    assert sentence.startswith(f"The score of caption '{pair[0]}' and video '{pair[1]}' is plus infinity, and others")
    assert "Half precision overflows to it" in sentence


BOTH_WORDS = ("R@1", "MRR", "nDCG", "mAP-EPIC", "Rsum", "MedR", "GeoR")


def in_both(values: np.ndarray, clips: list[int], resamples: int = 1000) -> Evaluation:
    settings = EvaluationSettings(BOTH_WORDS, resamples=resamples)  # type: ignore[arg-type]
    return evaluate(scores_of(values), corpus_of(clips, values.shape[1]), settings)


def noisy(seed: int, clips: list[int], count: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(len(clips), count)) + 2 * (np.array(clips)[:, None] == np.arange(count))


def test_each_direction_counts_half_and_ranks_have_no_mean() -> None:
    clips = [0] * 5 + list(range(30))
    done = in_both(noisy(0, clips, 30), clips)
    means = means_of_directions(done)
    assert list(means) == ["R@1", "MRR", "nDCG", "mAP-EPIC", "Rsum"]
    for word, mean in means.items():
        ahead, back = (done.directions[direction].summary[word].value for direction in ("t2v", "v2t"))
        assert mean.value == pytest.approx((ahead + back) / 2, abs=1e-12)
        assert mean.low is not None and mean.high is not None and mean.low < mean.value < mean.high


def test_of_a_symmetric_table_the_mean_is_as_sure_as_one_direction() -> None:
    """Each clip finds its caption just where the caption finds it, so the second direction adds nothing."""
    clips = list(range(40))
    values = noisy(1, clips, 40)
    done = in_both(values + values.T, clips)
    mean, alone = means_of_directions(done)["MRR"], done.directions["t2v"].summary["MRR"]
    assert (mean.value, mean.low, mean.high) == pytest.approx((alone.value, alone.low, alone.high), abs=1e-9)


def test_its_interval_is_as_wide_as_bootstrap_samples_of_clips_spread() -> None:
    clips = [clip for clip in range(60) for _ in range(1 + clip % 3)]
    done = in_both(noisy(2, clips, 60), clips)
    columns = [done.directions[direction] for direction in ("t2v", "v2t")]
    random, drawn = np.random.default_rng(0), []
    for _ in range(3000):
        times = np.bincount(random.integers(0, 60, 60), minlength=60)
        drawn.append(np.mean([np.average(one.per_query["MRR"], weights=times[one.groups]) for one in columns]))
    mean = means_of_directions(done)["MRR"]
    assert mean.high - mean.low == pytest.approx(2 * 2.0 * np.std(drawn), rel=0.08)  # type: ignore[operator]


def test_one_direction_has_no_mean_and_without_resamples_no_interval() -> None:
    clips = list(range(5))
    values = noisy(3, clips, 5)
    alone = evaluate(scores_of(values), corpus_of(clips, 5), EvaluationSettings(directions=("t2v",)))
    assert means_of_directions(alone) == {}
    assert means_of_directions(in_both(values, clips, 0))["R@1"].low is None
