"""The audit of lengths where the answer is known, what it says of its data, and what it is made of against loops."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import combinations, pairwise, permutations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from evenreel.audits import (
    AuditInputs,
    AuditSettings,
    TailClasses,
    audit,
    audit_length,
    measure_length,
    read_tail_classes,
)
from evenreel.audits.class_lengths import class_lengths, drawn_discrepancies
from evenreel.audits.inputs import OrderedRows
from evenreel.audits.length import DEPTHS, FirstClipLengths, LengthData, measure_first, rank_correlation
from evenreel.corpus import make_corpus
from evenreel.corpus.actions import ActionLengths
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.ranking import CheckedScores
from evenreel.report import Effect
from evenreel.report.page import audit_page, render
from evenreel.types import Corpus, Scores
from tests.audits.small_lengths import CLASSES, NOUNS, TESTED, TRAINED, corpus_of, ranked_clips, ranking, training_clips
from tests.audits.small_pairs import rows_of as rows

TRAIN, MEANS = training_clips()
CORPUS, LENGTHS = ranked_clips()
QUICK, TAIL = AuditSettings(resamples=100), TailClasses(frozenset(), frozenset(), "none")
SETTINGS = {"settings": QUICK, "train": TRAIN, "tail": TAIL}
WITHOUT = SETTINGS | {"train": None}


def of_seeds(lean: float, longer: float = 0.0) -> list[Effect]:
    return [measure_length(ranking(lean, longer, seed), CORPUS, **SETTINGS).effect for seed in range(3)]


def test_a_ranking_by_content_alone_has_no_lean() -> None:
    """Nor has one that simply favours long clips: the effect is of the lengths of training."""
    for longer in (0.0, 0.15):
        found = of_seeds(0.0, longer)
        assert np.mean([one.value for one in found]) == pytest.approx(0, abs=0.06)
        assert sum(one.is_significant for one in found) <= 1
    quiet = audit_length(ranking(0.0, seed=0), CORPUS, **SETTINGS)
    assert quiet.sentence.startswith("No lean towards the lengths that classes had in training can be told: rank")
    assert "as some do in any ranking" in quiet.sentence


def test_taking_classes_for_related_ones_that_are_as_long_is_no_lean() -> None:
    """Classes are as long in test as in training, and those of like lengths are confused; clips are drawn blindly."""
    generator = np.random.default_rng(0)
    number = np.repeat(np.arange(CLASSES), TESTED)
    corpus = corpus_of("test", np.rint(MEANS[number] * generator.uniform(0.5, 2.0, len(number))) + 1, TESTED)
    related = -np.abs(np.log(MEANS[number])[:, None] - np.log(MEANS[number])[None])
    ids = corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()
    noise = 0.3 * generator.normal(size=related.shape)
    blind = measure_length(Scores(related + noise, *ids), corpus, **SETTINGS)
    assert blind.length_biases[3][1].value > 0.2
    assert not blind.effect.is_significant


def test_a_ranking_that_is_drawn_to_the_lengths_of_training_leans() -> None:
    some, more = of_seeds(0.1), of_seeds(0.4)
    assert all(one.is_significant and one.value > 0 for one in [*some, *more])
    assert all(a.value < b.value for a, b in zip(some, more, strict=True))
    found = audit_length(ranking(0.4), CORPUS, **SETTINGS)
    assert found.sentence.startswith("The ranking leans towards the lengths that classes had in training: rank")
    short, long = (
        rows(found, "First clips by the length of the class in training")[name] for name in ("shortest", "longest")
    )
    assert short[-1] < 1 < long[-1]
    away = audit_length(ranking(-0.2), CORPUS, **SETTINGS)
    assert away.sentence.startswith("The ranking leans away from the lengths")


def test_without_training_the_question_is_whether_first_clips_are_long() -> None:
    fair, long, short = (audit_length(ranking(0.0, longer), CORPUS, **WITHOUT) for longer in (0.0, 0.2, -0.2))
    assert not fair.effect.is_significant
    assert long.effect.is_significant and long.effect.value > 1.2
    assert short.effect.is_significant and short.effect.value < 0.8
    assert long.sentence.startswith("The ranking returns long clips first: the first 20 are ")
    assert short.sentence.startswith("The ranking returns short clips first: the first 20 are ")
    assert long.effect.neutral == 1.0
    assert any("name the training part (--train-split)" in notice for notice in long.notices)
    assert [table.title for table in long.tables] == ["Length of the first clips"]


def hub_world(seed: int, *, classes: bool) -> tuple[Scores, Corpus]:
    """Clips that all captions like more or less, and lengths that have nothing to do with it."""
    random, count = np.random.default_rng(seed), 60
    clips = {"clip_id": [f"v{row}" for row in range(count)], "fps": [25.0] * count}
    clips["frame_count"] = (np.rint(np.exp(random.normal(5, 0.7, count))) + 1).astype(int).tolist()
    if classes:
        clips |= {"verb_classes": [[row // 6] for row in range(count)], "noun_classes": [[0]] * count}
    ids = [f"c{row}" for row in range(2 * count)]
    captions = {"caption_id": ids, "clip_id": np.repeat(clips["clip_id"], 2), "text": [f"text {row}" for row in ids]}
    values = random.normal(size=count) + random.normal(size=(2 * count, count))
    return Scores(values, ids, clips["clip_id"]), make_corpus(pl.DataFrame(clips), pl.DataFrame(captions))


@pytest.mark.parametrize("classes", [False, True])
def test_hubs_are_no_preference_for_a_length(classes: bool) -> None:
    """Samples of captions report one in 45 to 88 % of such galleries; 5 % of 40 are at most 6 with a chance of .99."""
    told = 0
    for seed in range(40):
        found = measure_length(*hub_world(seed, classes=classes), AuditSettings(resamples=100, seed=seed))
        told += found.ratio.is_significant
    assert told <= 6


@pytest.mark.parametrize("classes", [False, True])
def test_the_excess_is_a_sum_over_clips(classes: bool) -> None:
    """What each clip adds to the mean excess, and each caption to it, by the lengths as they are."""
    scores, corpus = hub_world(3, classes=classes)
    for known in (corpus, without_some(corpus)):
        measured = measure_length(scores, known, AuditSettings(resamples=0))
        first, of_clips = measured.first, measured.data.beyond_class
        there = ~np.isnan(measured.data.lengths)
        excess = first.excess[first.main]
        assert first.pull[there] @ of_clips.values == pytest.approx(np.nanmean(excess))
        assert (measured.effect.value, measured.effect.low) == (pytest.approx(np.exp(np.nanmean(excess))), None)
        assert not first.pull[~there].any()
        np.testing.assert_allclose(first.own[:, 0], excess)


def without_some(corpus: Corpus) -> Corpus:
    """The same in seconds, of which every seventh is not known."""
    ends = [None if row % 7 == 0 else one / 25 for row, one in enumerate(corpus.clips["frame_count"])]
    clips = corpus.clips.with_columns(start_s=0.0, end_s=pl.Series(ends), frame_count=pl.lit(None, pl.Int64))
    return make_corpus(clips, corpus.captions)


def test_classes_are_compared_and_captions_get_the_means_of_theirs() -> None:
    measured = measure_length(ranking(0.0), CORPUS, **SETTINGS)
    number = np.repeat(np.arange(CLASSES), TESTED)
    np.testing.assert_allclose(measured.train_mean, MEANS[number])
    np.testing.assert_allclose(measured.test_mean, LENGTHS.reshape(CLASSES, TESTED).mean(axis=1)[number])
    found = audit_length(ranking(0.0), CORPUS, **SETTINGS)
    gap = LENGTHS.reshape(CLASSES, TESTED).mean(axis=1) - MEANS
    told = rows(found, "How far classes differ in length between training and test")
    assert told["classes longer in test"] == (int((gap > 0).sum()),)
    assert told["classes that differ by more than 60 frames"] == (int((np.abs(gap) > 60).sum()),)
    assert told["classes that differ by at least 200 frames"] == (int((np.abs(gap) >= 200).sum()),)
    counts = rows(found, "Classes")
    assert (counts["clips in training"], counts["classes in both"]) == ((CLASSES * TRAINED,), (CLASSES,))
    strata = rows(found, "Training clips in two strata")
    assert strata["equal halves"] == (CLASSES * TRAINED / 2, CLASSES * TRAINED / 2)
    assert sum("uses test statistics" in str(rule) for rule in strata) == 1


def test_failures_are_filtered_rule_by_rule() -> None:
    """By loops: rank, tail, distance of the means, and which of them the first clips are nearer to."""
    tail = TailClasses(frozenset({2}), frozenset({1, 4}), "two")
    scores = ranking(3.0)
    measured = measure_length(scores, CORPUS, **SETTINGS | {"tail": tail})
    left: list[list[int]] = [[], [], [], []]
    for row, number in enumerate(np.repeat(np.arange(CLASSES), TESTED).tolist()):
        order = np.argsort(-scores.values[row])
        own = LENGTHS[number * TESTED : (number + 1) * TESTED].mean()
        if order.tolist().index(next(clip for clip in order if clip // TESTED == number)) < 10:
            continue
        left[0].append(row)
        if number // NOUNS == 2 or number % NOUNS in (1, 4):
            continue
        left[1].append(row)
        if abs(own - MEANS[number]) < 60:
            continue
        left[2].append(row)
        first = LENGTHS[order[:20]].mean()
        if abs(first - own) >= abs(first - MEANS[number]):
            left[3].append(row)
    failures = measured.failures
    assert failures is not None and left[3]
    assert (failures.failed, *failures.left) == tuple(map(len, left))
    assert failures.suspected.tolist() == left[3]
    suspects = next(
        t for t in audit_length(scores, CORPUS, **SETTINGS | {"tail": tail}).tables if t.title.startswith("Suspected")
    )
    assert len(suspects.rows) == len(left[3])


def test_captions_of_classes_that_training_lacks_are_told() -> None:
    few = Corpus(TRAIN.clips.filter(pl.col("verb_classes").list.first() < 4), TRAIN.captions)
    found = audit_length(ranking(0.0), CORPUS, **SETTINGS | {"train": few})
    lost = CLASSES * TESTED // 2
    assert any(f"training does not have, or that have none: {lost} take no part" in notice for notice in found.notices)
    other = Corpus(TRAIN.clips.with_columns(verb_classes=pl.lit([99])), TRAIN.captions)
    none = audit_length(ranking(0.0), CORPUS, **SETTINGS | {"train": other})
    assert none.effect.neutral == 1.0
    assert any("No caption is of a class that training has" in notice for notice in none.notices)
    again = audit_length(ranking(0.0), CORPUS, **SETTINGS | {"train": CORPUS})
    assert any(f"training clips too: {CLASSES * TESTED}" in notice for notice in again.notices)


def test_a_clip_of_several_verbs_counts_with_a_part_for_each() -> None:
    clips = pl.DataFrame(
        {"clip_id": ["a", "b"], "frame_count": [90, 20], "verb_classes": [[1, 2, 3], [1]], "noun_classes": [[0], [0]]}
    )
    captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["x", "y"]})
    corpus = make_corpus(clips, captions)
    measured = measure_length(Scores(np.eye(2), ["0", "1"], ["a", "b"]), corpus, **SETTINGS | {"train": corpus})
    assert measured.data.lengths.tolist() == [30.0, 20.0]
    assert measured.train_mean.tolist() == [pytest.approx((25 + 30 + 30) / 3), 25.0]
    assert not measured.effect.enough


def test_seconds_and_unknown_lengths() -> None:
    """A corpus that knows no frames is measured in seconds; a clip of unknown length is in no mean, and is told."""
    timed = CORPUS.clips.drop("frame_count").with_columns(start_s=pl.lit(0.0), end_s=pl.Series(LENGTHS / 60))
    gone = timed.with_columns(end_s=pl.when(pl.col("clip_id") == "test7").then(None).otherwise("end_s"))
    found = audit_length(ranking(0.4), make_corpus(gone, CORPUS.captions), **WITHOUT)
    assert "mean length, s" in found.tables[0].columns
    assert any(notice.startswith("Of 1 of 240 clips the length is not known") for notice in found.notices)
    with pytest.raises(CorpusError, match="says of no clip how long it is"):
        audit_length(ranking(0.0), make_corpus(CORPUS.clips.drop("frame_count"), CORPUS.captions), **WITHOUT)


def test_scores_of_other_clips_are_refused() -> None:
    scores = ranking(0.0)
    with pytest.raises(CorpusError, match="'stranger' is a clip of the scores and not of the corpus"):
        audit_length(replace(scores, video_ids=["stranger", *scores.video_ids[1:]]), CORPUS, **SETTINGS)


def test_the_page_draws_every_figure_and_takes_names_for_text() -> None:
    texts = CORPUS.captions.with_columns(text=pl.lit("<b>cut</b> the bread into rather many thin slices"))
    (found,) = audit("length", ranking(0.4), Corpus(CORPUS.clips, texts), QUICK, AuditInputs(TRAIN, TAIL))
    drawn = {figure.title: figure.draw() for figure in found.figures}
    assert list(drawn) == [
        "Lengths of the clips that are returned first",
        "How much longer each class is in test",
        "Spread of the lengths",
        "How relevant the first 50 are",
    ]
    bars = drawn["How much longer each class is in test"].data
    assert [len(one.y) for one in bars] == [CLASSES, CLASSES]
    assert (np.diff(bars[0].y) <= 0).all() and (np.diff(bars[1].y) <= 0).all() and min(bars[1].y) >= 0
    axis = drawn["Lengths of the clips that are returned first"].layout.xaxis
    assert {"50", "100", "200"} <= set(axis.ticktext)
    strips = drawn["How relevant the first 50 are"].data
    assert [np.asarray(one.z).shape[1] for one in strips] == [50, 50]
    html = render(audit_page([found]))
    assert "<b>cut" not in html
    assert len(html) < 7_000_000


def test_lists_of_the_tail(tmp_path: Path) -> None:
    (tmp_path / "verbs.csv").write_text("verb\n3\n5\n")
    (tmp_path / "nouns.csv").write_text("noun_class,count\n7,1\n")
    found = read_tail_classes([tmp_path / "verbs.csv", tmp_path / "nouns.csv"])
    assert (set(found.verbs), set(found.nouns)) == ({3, 5}, {7})
    assert found.rule == "as verbs.csv, nouns.csv lists them"
    assert [found.hold(*one) for one in (([3], []), ([1, 2], [7]), ([7], [3]))] == [True, True, False]
    for words, sentence in (
        ("class\n1\n", "it needs verb, noun, or both"),
        ("verb\nred\n", "something else than whole"),
    ):
        (tmp_path / "wrong.csv").write_text(words)
        with pytest.raises(UsageError, match=sentence):
            read_tail_classes([tmp_path / "wrong.csv"])
    with pytest.raises(UsageError, match=r"none\.csv cannot be read"):
        read_tail_classes([tmp_path / "none.csv"])


# First clips, class lengths and partial rank correlations, against loops.


NO_CAPTIONS = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
ROW = st.lists(st.sampled_from([0.0, 1.0, 2.0, -np.inf]), min_size=1, max_size=6)


def first_of(scores: Scores, corpus: Corpus, band_bytes: int = 2**26) -> FirstClipLengths:
    checked = CheckedScores(scores)
    return measure_first(checked, LengthData.of(checked, corpus, None), band_bytes)


@given(ROW, st.integers(1, 8))
def test_shares_of_the_first_are_those_of_all_orders(row: list[float], depth: int) -> None:
    columns, shares = OrderedRows.of(np.array([row])).first(depth)
    counts = np.zeros(len(row))
    every = permutations(range(len(row)))
    orders = [order for order in every if all(row[a] >= row[b] for a, b in pairwise(order))]
    for order in orders:
        counts[[one for one in order[:depth] if row[one] > -np.inf]] += 1
    found = np.zeros(len(row))
    found[columns[0]] = shares[0]
    np.testing.assert_allclose(found, counts / len(orders))


@given(st.integers(0, 10**6))
def test_without_classes_the_first_clips_are_held_against_all_others(seed: int) -> None:
    """Ties, clips that are not retrieved and unknown lengths, against loops; nobody knows what answers."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 50, 30).astype(np.float64)
    values = generator.choice([-np.inf, 0.0, 1.0, 2.0, 3.0], size=(3, 30))
    unknown = generator.random(30) < 0.2
    clips = pl.DataFrame(
        {
            "clip_id": [f"v{n}" for n in range(30)],
            "start_s": [0.0] * 30,
            "end_s": [None if gone else length for gone, length in zip(unknown, lengths, strict=True)],
        },
        schema_overrides={"end_s": pl.Float64},
    )
    found = first_of(Scores(values, ["q1", "q2", "q3"], clips["clip_id"].to_list()), make_corpus(clips, NO_CAPTIONS), 8)
    typical = np.log(lengths[~unknown]).mean()
    assert found.depths == (1, 5, 10, 20)
    for row in range(3):
        for place, depth in enumerate(found.depths):
            mean, excess = slow_first(values[row], np.where(unknown, np.nan, lengths), depth)
            np.testing.assert_allclose(found.means[place, row], mean)
            np.testing.assert_allclose(found.excess[place, row], excess - typical)
    assert np.isnan(found.rank).all()


def slow_first(row: np.ndarray, lengths: np.ndarray, depth: int) -> tuple[float, float]:
    """Mean length and mean logarithm of the first, each clip with its chance to be among them."""
    chance = np.zeros(len(row))
    for place, value in enumerate(row):
        above, equal = (row > value).sum(), (row == value).sum()
        chance[place] = 0 if value == -np.inf else min(1, max(0, (depth - above) / equal))
    chance[np.isnan(lengths)] = 0
    if not chance.sum():
        return np.nan, np.nan
    known = np.nan_to_num(lengths, nan=1.0)
    return (chance @ known) / chance.sum(), (chance @ np.log(known)) / chance.sum()


def test_with_classes_each_is_held_against_those_of_its_own() -> None:
    corpus, lengths = ranked_clips()
    scores = ranking(0.1)
    found = first_of(scores, corpus, 2**16)
    verbs, nouns = (corpus.clips[name].list.first().to_numpy() for name in ("verb_classes", "noun_classes"))
    logs = np.log(lengths)
    for row in range(0, len(lengths), 17):
        kind = 2 * (verbs == verbs[row]) + (nouns == nouns[row])
        order = np.argsort(-scores.values[row])[:20]
        expected = np.mean([logs[(verbs == verbs[clip]) & (nouns == nouns[clip])].mean() for clip in order])
        assert found.expected[3, row] == pytest.approx(expected)
        assert found.excess[3, row] == pytest.approx(logs[order].mean() - expected)
        answers = np.flatnonzero(kind == 3)
        assert len(answers) == TESTED
        ranks = 1 + (scores.values[row] > scores.values[row][answers].max()).sum()
        assert (found.rank[row], found.recall[row]) == (ranks, 100.0 * (ranks <= 10))
    assert found.shown.sum() == pytest.approx(20 * len(lengths))
    assert found.depths == DEPTHS


def test_a_clip_of_several_verbs_is_held_against_each_of_its_classes_and_one_without_against_its_like() -> None:
    clips = pl.DataFrame(
        {
            "clip_id": list("abcde"), "frame_count": [90, 20, 8, 2, 6], "verb_classes": [[1, 2], [1], [2], None, None],
            "noun_classes": [[0], [0], [0], None, [0]],
        }
    )  # fmt: skip
    corpus = make_corpus(clips, NO_CAPTIONS)
    logs = LengthData.of(CheckedScores(Scores(np.ones((1, 5)), ["q"], list("abcde"))), corpus, None).class_logs
    one, two, none = np.log([45, 20]).mean(), np.log([45, 8]).mean(), np.log([2, 6]).mean()
    assert logs is not None
    np.testing.assert_allclose(logs, [(one + two) / 2, one, two, none, none])


def test_known_answers_are_left_out_where_classes_are_not_known() -> None:
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"], "start_s": [0.0] * 3, "end_s": [1.0, 2.0, 8.0]})
    captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["c"], "text": ["x"]})
    found = first_of(Scores(np.array([[1, 2, 3]]), ["0"], ["a", "b", "c"]), make_corpus(clips, captions))
    assert (found.depths, found.means.tolist(), found.rank.tolist()) == ((1,), [[2.0]], [1.0])
    assert found.excess[0, 0] == pytest.approx(np.log(2) - (np.log(1) + np.log(2)) / 2)


# Class lengths against a dictionary of lists; those of EPIC-KITCHENS-100 are in `test_length_epic_kitchens`.


Clips = list[tuple[int, float]]
CLIPS = st.lists(st.tuples(st.integers(0, 4), st.floats(1, 100) | st.just(float("nan"))), max_size=20)


def actions_of(clips: Clips) -> ActionLengths:
    return ActionLengths(
        np.array([c for c, _ in clips], np.int64), np.array([length for _, length in clips], np.float64)
    )


def listed(clips: Clips) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for name, length in clips:
        if not np.isnan(length):
            found[name].append(length)
    return found


@given(CLIPS, CLIPS)
def test_means_of_the_classes_that_both_have(train: Clips, test: Clips) -> None:
    found, first, second = class_lengths(actions_of(train), actions_of(test)), listed(train), listed(test)
    assert found.classes.tolist() == sorted(first.keys() & second.keys())
    for place, name in enumerate(found.classes.tolist()):
        assert found.discrepancy[place] == pytest.approx(np.mean(second[name]) - np.mean(first[name]))
        assert (found.train_count[place], found.test_count[place]) == (len(first[name]), len(second[name]))


def test_draws_are_of_all_ways_to_choose_as_many_test_clips_of_a_class() -> None:
    """Two of four clips: each of the six choices about as often; a class of one split has no part."""
    lengths = [1.0, 2.0, 4.0, 8.0]
    train = ActionLengths(np.array([0, 0, 5, 7]), np.array([*lengths[:2], 3.0, 9.0]))
    test = ActionLengths(np.array([0, 0, 0, 5, 6]), np.array([*lengths[2:], float("nan"), 3.0, 9.0]))
    found = drawn_discrepancies(train, test, draws=6000, seed=1)
    assert found.shape == (6000, 2) and not found[:, 1].any()
    choices = [np.mean(chosen) - np.mean([*set(lengths) - set(chosen)]) for chosen in combinations(lengths, 2)]
    values, counts = np.unique(found[:, 0].round(6), return_counts=True)
    assert values.tolist() == pytest.approx(sorted(choices))
    assert np.abs(counts - 1000).max() < 4 * (6000 / 6 * 5 / 6) ** 0.5
    assert np.array_equal(found, drawn_discrepancies(train, test, draws=6000, seed=1))


# Rank correlations against scipy and regressions of ranks; samples against columns that are drawn by hand.


QUIET = AuditSettings(resamples=0)


def columns(seed: int, count: int, size: int = 60) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 12, size) + generator.integers(0, 2, size) * 0.5 for _ in range(count)]


def slow(one: np.ndarray, other: np.ndarray, *given_: np.ndarray) -> float:
    """The correlation of what regressions of the ranks leave."""
    design = np.stack([np.ones(len(one)), *map(rankdata, given_)], axis=1)
    left = [rankdata(x) - design @ np.linalg.lstsq(design, rankdata(x), rcond=None)[0] for x in (one, other)]
    return float(np.corrcoef(*left)[0, 1])


@given(st.integers(0, 10**6), st.integers(0, 3))
def test_it_is_the_correlation_of_what_regressions_of_ranks_leave(seed: int, more: int) -> None:
    found = columns(seed, 2 + more)
    value = rank_correlation(found, np.arange(60), QUIET, "r").value
    assert value == pytest.approx(slow(*found), abs=1e-9)
    if not more:
        assert value == pytest.approx(spearmanr(*found).statistic, abs=1e-12)


def test_a_column_that_is_told_by_the_others_has_no_correlation() -> None:
    one, other = columns(0, 2)
    groups = np.arange(60)
    for told in ([one, other, one], [np.ones(60), other], [one[:0], other[:0]]):
        assert np.isnan(rank_correlation(told, groups[: len(told[0])], AuditSettings(resamples=20), "r").value)
    twice = rank_correlation([one, other, one * 0 + 1, one * 0], groups, QUIET, "r").value
    assert twice == pytest.approx(spearmanr(one, other).statistic)


def test_a_sample_counts_a_drawn_row_as_often_as_it_is_drawn() -> None:
    """The interval is of the correlations of the rows that a sample repeats, calculated anew."""
    one, other, held = columns(3, 3)
    groups = np.repeat(np.arange(12), 5)
    how = AuditSettings(resamples=40, seed=5, confidence=0.9)
    found = rank_correlation([one, other, held], groups, how, "r")
    picks = np.random.default_rng(5).integers(0, 12, size=(40, 12))
    drawn = []
    for pick in picks:
        rows = np.concatenate([np.flatnonzero(groups == group) for group in pick])
        drawn.append(slow(one[rows], other[rows], held[rows]))
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.05, 0.95]).tolist())
    below, above = np.sum(np.array(drawn) <= 0), np.sum(np.array(drawn) >= 0)
    assert found.p_value == pytest.approx(min(1, 2 * (1 + min(below, above)) / 41))
