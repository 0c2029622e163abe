"""The figures of the paper on frame-length bias, as the audit prints them of the real annotations."""

from __future__ import annotations

import numpy as np
import pytest

from evenreel.audits import AuditSettings, audit_length
from evenreel.audits.class_lengths import tail_by_frequency
from evenreel.audits.length import LengthData, TrainTestClasses
from evenreel.corpus import Imported, class_relevance, select
from evenreel.report import AuditTable
from evenreel.types import Corpus, Scores

STEP = 10
"""Every tenth caption: the figures of classes need none, and correlations are told with these."""
TAKE_RUBBISH = (0, 54)


@pytest.fixture(scope="module")
def ranked(epic_kitchens: Imported) -> tuple[Scores, Corpus, Corpus]:
    """Some captions and every test clip, ranked by verb and noun with noise, blind to length; and the training part."""
    train, test = (select(epic_kitchens.corpus, split=split) for split in ("train", "test"))
    captions, clips = test.captions["caption_id"].to_list()[::STEP], test.clips["clip_id"].to_list()
    alike = class_relevance(test, captions, clips).block(slice(0, len(captions)), slice(0, len(clips)))
    scores = Scores(alike + 0.15 * np.random.default_rng(0).normal(size=alike.shape), captions, clips)
    return scores, test, train


@pytest.fixture(scope="module")
def found(ranked: tuple[Scores, Corpus, Corpus]) -> dict[str, AuditTable]:
    return {
        table.title: table for table in audit_length(*ranked[:2], AuditSettings(resamples=0), train=ranked[2]).tables
    }


@pytest.fixture(scope="module")
def held(ranked: tuple[Scores, Corpus, Corpus]) -> TrainTestClasses:
    scores, test, train = ranked
    classes = LengthData.of(scores, test, train).classes
    assert classes is not None
    return classes


def rows(table: AuditTable) -> dict[object, tuple[object, ...]]:
    return {row[0]: row[1:] for row in table.rows}


def test_clips_and_classes(found: dict[str, AuditTable], held: TrainTestClasses) -> None:
    classes = rows(found["Classes"])
    assert classes["clips in training"] == (67_217, 67_217)
    assert classes["clips in test"] == (9_668, 9_668)
    assert classes["classes in both"] == (1_114, 1_114)
    number = held.actions.pairs.index(TAKE_RUBBISH)
    assert (held.counts(trained=True)[number], held.counts(trained=False)[number]) == (95, 4)
    assert held.train_mean[number] == pytest.approx(177.1, abs=0.2)
    assert held.test_mean[number] == 305.5
    example = rows(next(table for title, table in found.items() if title.startswith("The paper's example")))
    assert example["clips in training"] == (95, 95)
    assert example["mean length in training, frames"] == (pytest.approx(177.1, abs=0.2), 177.11)
    assert example["mean length in test, frames"] == (305.5, 305.5)


def test_discrepancies_stand_beside_the_papers_with_the_reason(found: dict[str, AuditTable]) -> None:
    table = found["How far classes differ in length between training and test"]
    told = rows(table)
    assert told["classes that differ by more than 60 frames"] == (577, 559)
    assert told["classes that differ by at least 200 frames"] == (218, 212)
    assert told["classes longer in test"][0] == 692
    assert told["mean length of training clips, frames"][0] == pytest.approx(172.4, abs=0.05)
    assert told["mean length of test clips, frames"][0] == pytest.approx(221.0, abs=0.05)
    assert "up to 2 frames; 20 classes lie that near to the one limit and 6 to the other" in table.note


def test_most_classes_differ_so_because_they_have_few_clips(found: dict[str, AuditTable]) -> None:
    """Of 577 and 218 classes random divisions of the same clips give about 505 and 176."""
    by_chance = rows(found["How far classes would differ if their test clips were drawn at random"])
    for what, measured, expected in (
        ("classes that differ by more than 60 frames", 577, 505),
        ("classes that differ by at least 200 frames", 218, 176),
    ):
        own, mean, low, high = by_chance[what]
        assert own == measured and mean == pytest.approx(expected, abs=3)
        assert low < mean < high < measured  # type: ignore[operator]


def test_strata_and_what_trimming_leaves_out(found: dict[str, AuditTable]) -> None:
    strata = rows(found["Training clips in two strata"])
    assert strata["a share of 0.748 in the first"] == (50_282, 16_935, "50,282 + 16,935")
    assert strata["below the mean length of training clips"][:2] == (50_393, 16_824)
    assert strata["below the mean length of test clips (uses test statistics)"][:2] == (54_372, 12_845)
    trimming = rows(found["What trimming would leave out (uses test statistics)"])
    assert trimming["paper_literal"] == (10.0, 60, 6_999, 158, "2,392 of 164 classes")
    assert trimming["paper_reproducing"] == (60.0, 20, 2_448, 168, "2,392 of 164 classes")


def test_a_ranking_blind_to_length_has_no_lean_though_its_lengths_go_with_those_of_training(
    found: dict[str, AuditTable],
) -> None:
    """Classes that are long in training are long in test, and so are related ones: the test mean tells only a part."""
    plain, given_test, effect = rows(found["Length of the first clips"])[20][-3:]
    assert plain > 0.5  # type: ignore[operator]
    assert given_test > 0.2  # type: ignore[operator]
    assert effect == pytest.approx(0, abs=0.1)


def test_the_tail_by_frequency_is_that_of_the_official_lists(held: TrainTestClasses) -> None:
    """The lists have 86 verbs, which are 10 and 12 to 96, and 228 nouns."""
    tail = tail_by_frequency(held.actions.pairs, held.actions.classes[held.trained])
    assert tail.verbs == {10, *range(12, 97)}
    assert len(tail.nouns) == 228
