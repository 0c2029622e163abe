"""The audit of lengths where the answer is known to be none, where it is known, and what it says of its data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.audits import (
    AuditInputs,
    AuditSettings,
    TailClasses,
    audit,
    audit_length,
    measure_length,
    read_tail_classes,
)
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.report import Effect
from evenreel.report.page import audit_page, render
from evenreel.types import Corpus, Scores
from tests.audits.small_lengths import (
    CLASSES,
    NOUNS,
    TESTED,
    TRAINED,
    corpus_of,
    ranked_clips,
    ranking,
    training_clips,
)
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
