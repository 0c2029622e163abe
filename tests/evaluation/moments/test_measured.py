"""Metrics of moments against slow loops, by hand, and against official figures of a published model's predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import FORMATS, select
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.moments import (
    MomentPredictions,
    MomentSettings,
    MomentTruth,
    average_precision,
    clips_alone,
    compare_moments,
    evaluate_moments,
    found_windows,
    load_predictions,
    moment_truth,
    overlaps,
    parse_moment_metric,
    rated_precision,
)


def truth_of(*windows: Sequence[Sequence[float]], agreeing: int = 0) -> MomentTruth:
    """Queries q0, q1 ... about clips of their own of 100 s."""
    count = len(windows)
    return MomentTruth(
        tuple(f"q{n}" for n in range(count)),
        tuple(f"c{n}" for n in range(count)),
        tuple(np.array(one, float) for one in windows),
        np.full(count, agreeing),
        np.full(count, 100.0),
        {},
    )


def predicted(*windows: Sequence[Sequence[float]]) -> MomentPredictions:
    return MomentPredictions({f"q{n}": np.array(one, float).reshape(-1, 2) for n, one in enumerate(windows)})


def values(predictions: MomentPredictions, truth: MomentTruth, *words: str) -> list[list[float]]:
    found = evaluate_moments(predictions, truth, MomentSettings(words))
    return [found.per_query[word].tolist() for word in words]


WHOLE_SECONDS = st.tuples(st.integers(0, 20), st.integers(1, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(WHOLE_SECONDS, WHOLE_SECONDS)
def test_overlap_is_that_of_counted_seconds(one: tuple[int, int], other: tuple[int, int]) -> None:
    first, second = set(range(*one)), set(range(*other))
    found = overlaps(np.array([one], float), np.array([other], float))[0, 0]
    assert found == pytest.approx(len(first & second) / len(first | second))


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 3))
def test_average_precision_is_the_area_under_the_best_precision_from_a_recall_on(hits: list[bool], missed: int) -> None:
    relevant = sum(hits) + missed
    points = [(sum(hits[: n + 1]) / (n + 1), sum(hits[: n + 1])) for n in range(len(hits))]
    area = sum(max((p for p, found in points if found >= needed), default=0.0) for needed in range(1, relevant + 1))
    expected = area / relevant if relevant else 0.0
    assert average_precision(np.array(hits, bool), relevant) == pytest.approx(expected)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=10, unique_by=lambda one: one[1]))
def test_without_ties_ratings_are_ranked_as_windows_are(items: list[tuple[bool, int]]) -> None:
    right, scores = np.array([one for one, _ in items]), np.array([score for _, score in items], float)
    ranked = right[np.argsort(-scores)]
    assert rated_precision(right, scores) == pytest.approx(average_precision(ranked, int(right.sum())))


@pytest.mark.parametrize(
    ("windows", "notice"),
    [
        ([[0.1, 0.9]], "all predicted windows end within the first second, as shares of a clip do"),
        ([[20, 30], [90, 101]], None),
        (
            [[20, 30], [0, 3000], [5, 103]],
            "2 predicted windows not within the clip, such as 0 to 3000 s of the 100 s of",
        ),
        ([[-5, 30]], "1 predicted window not within the clip, such as -5 to 30 s"),
    ],
)
def test_hazard_224_times_that_are_no_seconds_of_the_clip_are_told(windows: list[list[float]], notice: str) -> None:
    given = predicted(windows)
    for one in (given, MomentPredictions(given.windows, clips={"q0": ("c0",) * len(windows)})):
        notices = evaluate_moments(one, truth_of([[20, 30]])).notices
        assert len(notices) == bool(notice) and all(told.startswith(notice) for told in notices)


def test_a_true_window_is_found_once_and_by_the_first() -> None:
    shared = np.array([[0.6, 0.55], [0.9, 0.2], [0.3, 0.7]])
    assert found_windows(shared, 0.5).tolist() == [True, False, True]  # the second overlaps only what is taken
    assert found_windows(shared, 0.6).tolist() == [True, False, True]
    assert found_windows(shared[:, :0], 0.5).tolist() == [False] * 3


def test_metrics_by_hand() -> None:
    truth = truth_of([[0, 10], [20, 40]], [[50, 60]])
    answers = predicted([[22, 40], [0, 8], [50, 60]], [[0, 10], [52, 60]])
    assert values(answers, truth, "R1@0.5", "R1@0.9", "R2@0.8") == [[100, 0], [100, 0], [100, 100]]
    assert values(answers, truth, "mIoU")[0] == pytest.approx([90, 0])
    # first query: right at 1 and 2 of two; second: right at place 2 of one
    assert values(answers, truth, "mAP@0.5")[0] == pytest.approx([100, 50])
    # overlaps .9 and .8 of the first, .8 of the second: thresholds .5 to .8 find all, .85 and .9 the first one alone
    assert values(answers, truth, "mAP")[0] == pytest.approx([100 * (7 + 2 * 0.5) / 10, 100 * 0.5 * 7 / 10])
    gain = 1 / np.log2(3)
    assert values(answers, truth, "nDCG@2@0.5")[0] == pytest.approx([100, 100 * gain])


def test_annotators_who_agree_are_one_answer() -> None:
    """DiDeMo: the mean of the three best of four, overlaps and ranks alike."""
    people = [[0, 5], [0, 5], [0, 10], [20, 25]]
    answers = predicted([[0, 5], [0, 10], [20, 25]])
    truth = truth_of(people, agreeing=3)
    assert values(answers, truth, "mIoU")[0] == pytest.approx([100 * (1 + 1 + 0.5) / 3])
    ranks = sorted([1, 1, 2, 3])[:3]
    assert values(answers, truth, "Rank@1", "Rank@2") == [[100.0 * (np.mean(ranks) <= n)] for n in (1, 2)]
    best = max(np.mean(three) for three in combinations([1, 1, 0.5, 0], 3))
    assert values(answers, truth, f"R1@{best - 0.01:.2f}", f"R1@{best + 0.01:.2f}") == [[100], [0]]


def test_windows_of_a_length_alone_keep_their_queries() -> None:
    truth = truth_of([[0, 10], [20, 40]], [[50, 60]], [[0, 30]])
    middle = truth.between(10, 30)
    assert middle.query_ids == ("q0", "q2") and middle.windows[0].tolist() == [[20, 40]]
    assert middle.durations.shape == middle.agreeing.shape == (2,)


def test_a_query_without_an_answer_finds_nothing_and_is_said() -> None:
    truth = truth_of([[0, 10]], [[0, 10]])
    only = predicted([[0, 10]])
    with pytest.raises(ScoresError, match="1 of 2 queries have no prediction, q1 for"):
        evaluate_moments(only, truth)
    found = evaluate_moments(only, truth, MomentSettings(("mIoU",), partial=True))
    assert found.per_query["mIoU"].tolist() == [100, 0] and "1 queries" in found.notices[0]
    with pytest.raises(ScoresError, match="no window for, q1"):
        evaluate_moments(predicted([[0, 1]], [[0, 1]]), truth_of([[0, 10]]))
    with pytest.raises(ScoresError, match="needs ratings"):
        evaluate_moments(only, truth_of([[0, 10]]), MomentSettings(("HIT@1-Good",)))


def test_highlights_by_hand() -> None:
    ratings = np.array([[4, 0], [3, 4], [0, 0], [0, 4]], float)
    truth = truth_of([[0, 10]])
    truth = MomentTruth(
        *(getattr(truth, name) for name in truth.__dataclass_fields__ if name != "ratings"), {"q0": ratings}
    )
    answers = MomentPredictions({"q0": np.array([[0.0, 10.0]])}, {"q0": np.array([0.1, 0.9, 0.5, 0.2])})
    assert values(answers, truth, "HIT@1-VeryGood", "HIT@1-Good") == [[100], [100]]
    # very good: of the first rater place 4 of 4 (1/4), of the second places 1 and 3 (1 and 2/3)
    assert values(answers, truth, "HL-mAP-VeryGood")[0] == pytest.approx([100 * (1 / 4 + (1 + 2 / 3) / 2) / 2])


def test_differences_are_of_the_same_queries() -> None:
    truth = truth_of([[0, 10]], [[0, 10]], [[0, 10]])
    words = MomentSettings(("mIoU",))
    one = evaluate_moments(predicted([[0, 10]], [[0, 5]], [[0, 10]]), truth, words)
    other = evaluate_moments(predicted([[0, 10]], [[0, 10]], [[0, 5]]), truth, words)
    (found,) = compare_moments({"one": one, "other": other})
    assert (found.system, found.metric, found.interval.value) == ("other", "mIoU", pytest.approx(0))
    assert found.interval.low == pytest.approx(-(found.interval.high or 0))


@pytest.mark.parametrize("word", ["R@1", "R1", "R0@0.5", "mAP@1.5", "HIT@1", "HL-mAP-Bad", "nDCG@0.5", "Rank@0"])
def test_words_that_are_no_metric_get_a_sentence(word: str) -> None:
    with pytest.raises(UsageError, match="is no metric of moments"):
        parse_moment_metric(word)


@pytest.mark.parametrize(
    "word", ["R1@0.5", "R10@0.75", "mAP@0.5", "mAP", "mIoU", "nDCG@10@0.7", "Rank@5", "HIT@1-Fair"]
)
def test_metrics_print_as_they_are_asked_for(word: str) -> None:
    assert str(parse_moment_metric(word)) == word


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 1 is not JSON"),
        ("[]", "it must be an object"),
        ('{"pred_relevant_windows": []}', "has no id of a query"),
        ('{"qid": 1}', "needs pred_relevant_windows"),
        ('{"qid": 1, "pred_relevant_windows": [[2, 1]]}', "from 2 to 1 s, which ends before it starts"),
        ('{"qid": 1, "pred_relevant_windows": [[0, 1, 0.5], [0, 1]]}', "give all of them one, or none"),
        ('{"qid": 1, "pred_relevant_windows": [[0, "x"]]}', "it must be a number"),
        ('{"qid": 1, "pred_relevant_windows": [[0, NaN]]}', "give finite numbers"),
        ('{"qid": 1, "pred_relevant_windows": []}\n{"qid": 1, "pred_relevant_windows": []}', "answers query '1' again"),
        ('{"qid": 1, "pred_relevant_windows": [[0, 1' + "0" * 400 + "]]}", "it must be a number below"),
        ('{"qid": 1, "pred_relevant_windows": [[0, 1]], "pred_saliency_scores": [true]}', "it must be a number"),
        ("[" * 100_000, "cannot be read"),
        ("", "has no predictions"),
    ],
)
def test_what_is_wrong_with_predictions_is_one_sentence(line: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line)
    with pytest.raises(ScoresError, match=sentence):
        load_predictions(path)


def test_windows_are_ranked_by_their_scores(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"caption_id": "a", "pred_relevant_windows": [[0, 1, 0.1], [2, 3, 0.9], [4, 5, 0.9]]}))
    assert load_predictions(path).windows["a"].tolist() == [[2, 3], [4, 5], [0, 1]]


def test_the_official_figures_of_qvhighlights_come_out_to_two_decimals(shared_data: Path) -> None:
    folder = shared_data / "qvhighlights"
    truth = moment_truth(select(FORMATS["qvhighlights"]([folder]).corpus, split="val"))
    answers = load_predictions(folder / "sample_val_preds.jsonl")
    official = json.loads((folder / "sample_val_preds_metrics_raw.json").read_text())
    expected = {f"R1@{float(iou):g}": value for iou, value in official["full"]["MR-R1"].items()}
    expected |= {
        "mAP" if iou == "average" else f"mAP@{float(iou):g}": value for iou, value in official["full"]["MR-mAP"].items()
    }
    for level in ("Fair", "Good", "VeryGood"):
        found = official[f"HL-min-{level}"]
        expected |= {f"HL-mAP-{level}": found["HL-mAP"], f"HIT@1-{level}": found["HL-Hit1"]}
    summary = evaluate_moments(answers, truth, MomentSettings(tuple(expected))).summary
    assert {word: round(summary[word].value, 2) for word in expected} == expected
    for name, ends in {"short": (0, 10), "middle": (10, 30), "long": (30, 150)}.items():
        part = truth.between(*ends)
        own = MomentPredictions({query: answers.windows[query] for query in part.query_ids})
        value = evaluate_moments(own, part, MomentSettings(("mAP",))).summary["mAP"].value
        assert round(value, 2) == official[name]["MR-mAP"]["average"]


# In all clips -----------------------------------------------------------------------------------------------------


def in_clips(*rows: Sequence[tuple[str, float, float]]) -> MomentPredictions:
    return MomentPredictions(
        {f"q{n}": np.array([one[1:] for one in row], float).reshape(-1, 2) for n, row in enumerate(rows)},
        clips={f"q{n}": tuple(clip for clip, *_ in row) for n, row in enumerate(rows)},
    )


def test_a_window_in_another_clip_finds_nothing_and_keeps_its_rank() -> None:
    truth = truth_of([[0, 10]], [[20, 30]])
    found = in_clips([("c1", 0, 10), ("c0", 0, 9)], [("c0", 20, 30), ("c9", 20, 30)])
    assert values(found, truth, "R1@0.5", "R10@0.5", "mIoU") == [[0, 0], [100, 0], [0, 0]]
    assert evaluate_moments(found, truth).all_clips
    assert [*evaluate_moments(found, truth).summary][:3] == ["R1@0.5", "R10@0.5", "R100@0.5"]


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["c0", "c1", "c2"]), WHOLE_SECONDS), min_size=1, max_size=5),
        min_size=3,
        max_size=3,
    )
)
def test_recall_in_all_clips_is_that_of_a_slow_loop(rows: list[list[tuple[str, tuple[int, int]]]]) -> None:
    truth = truth_of([[2, 8]], [[0, 6]], [[5, 12]])
    found = in_clips(*([(clip, *window) for clip, window in row] for row in rows))
    expected = []
    for number, row in enumerate(rows):
        true = truth.windows[number]
        right = [clip == f"c{number}" and overlaps(np.array([w], float), true).max() >= 0.5 for clip, w in row]
        expected.append(100.0 * any(right[:2]))
    assert values(found, truth, "R2@0.5") == [expected]


def test_beside_it_stands_what_naming_clips_alone_finds() -> None:
    truth = truth_of([[0, 80]], [[20, 30]])
    found = in_clips([("c1", 0, 10), ("c0", 0, 9), ("c1", 3, 4)], [("c7", 1, 44), ("c7", 1, 2)])
    alone = clips_alone(found, truth)
    assert alone.clips == {"q0": ("c1", "c0"), "q1": ("c7",)}
    assert {name: one.tolist() for name, one in alone.windows.items()} == {
        "q0": [[0, 100], [0, 100]],
        "q1": [[0, 44]],  # as long as the first that is predicted of it
    }


def test_clips_of_another_corpus_and_systems_of_two_kinds_get_a_sentence(tmp_path: Path) -> None:
    truth = truth_of([[0, 10]])
    with pytest.raises(ScoresError, match="No query is about one of the 1 clips that predictions name, x"):
        evaluate_moments(in_clips([("x", 0, 1)]), truth)
    both = {
        "one": evaluate_moments(in_clips([("c0", 0, 1)]), truth),
        "other": evaluate_moments(predicted([[0, 1]]), truth),
    }
    with pytest.raises(ScoresError, match="Some systems searched all clips and others each query's own"):
        compare_moments(both)
    path = tmp_path / "predictions.jsonl"
    path.write_text(json.dumps({"qid": 1, "pred_relevant_windows": [["c0", 0, 1], [0, 1]]}))
    with pytest.raises(ScoresError, match="says of some windows which clip they are in"):
        load_predictions(path)
    lines = ({"qid": 1, "pred_relevant_windows": [["c0", 0, 1]]}, {"qid": 2, "pred_relevant_windows": [[0, 1]]})
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ScoresError, match="of those of query '2'; say it of all"):
        load_predictions(path)


def test_windows_in_clips_are_ranked_with_their_clips(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_text(json.dumps({"qid": 1, "pred_relevant_windows": [["c0", 0, 1, 0.2], ["c1", 2, 3, 0.9]]}))
    found = load_predictions(path)
    assert (found.clips["1"], found.windows["1"].tolist()) == (("c1", "c0"), [[2, 3], [0, 1]])


def test_p_values_are_those_of_signed_ranks_over_clips() -> None:
    truth = truth_of(*([[0, 10]] for _ in range(6)))
    first = evaluate_moments(predicted(*([[0, 2]] for _ in range(6))), truth)
    better = evaluate_moments(predicted(*([[0, 3 + n]] for n in range(6))), truth)
    found = compare_moments({"first": first, "better": better, "same": first})
    by_system = {one.system: one for one in found if one.metric == "mIoU"}
    assert by_system["better"].p_wilcoxon == pytest.approx(2 / 2**6)  # all six of one sign
    assert by_system["better"].p_holm == pytest.approx(4 / 2**6)
    assert by_system["same"].p_wilcoxon == 1
