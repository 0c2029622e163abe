"""A stream answered in the way of a row: ranks by slow loops, labels that only measure, banks, rows, settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.report import AdaptationStep, AdaptReport, LabelRank
from evenreel.adaptation.resources import RememberingReader
from evenreel.adaptation.settings import UNSAFE, SafetySettings, naive
from evenreel.adaptation.stream import taken
from evenreel.adaptation.titan.matching import MatchSettings
from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.evaluation.rescoring import nearest_neighbour_norm
from evenreel.matchers import build_matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers import CaptionBank
from evenreel.papers.titan import figures as titan_streams
from evenreel.papers.titan.figures import (
    BOTH,
    CBC,
    CHR,
    NEITHER,
    SOURCE,
    Norm,
    Row,
    Target,
    answered,
    diagnosed,
    offline,
    online,
    parts,
    switched,
    thresholds,
)
from evenreel.papers.workspace import Model, part_of
from evenreel.types import FloatArray, Scores
from tests.papers.worded_clips import DIMENSION, adapting, prepared, read, worded_material, worded_part


def target(**options: bool) -> Target:
    material = worded_material(**options)
    return Target(material.models[0], material.bank)


def quiet(share: float) -> None:
    """Nobody looks."""


def first_hits(rows: Sequence[Sequence[float]], ids: Sequence[str], one: Target) -> dict[str, float]:
    """100 where the caption's own clip is the only one with the best score, by loops; no ties here."""
    clips, own = one.part.videos.ids, dict(zip(one.part.corpus.captions["caption_id"], one.own, strict=True))
    return {
        name: 100.0 * (clips[max(range(len(clips)), key=lambda at, row=row: row[at])] == own[name])
        for name, row in zip(ids, rows, strict=True)
    }


def in_order(hits: dict[str, float], one: Target) -> list[float]:
    return [hits[name] for name in one.part.corpus.captions["caption_id"]]


def test_a_stream_is_answered_batch_by_batch_and_ranked_in_the_order_of_the_split() -> None:
    one, settings = target(), naive(adapting(protocol="online"))
    outcome = answered(one, Row(settings), 3, quiet, settings=settings)
    stream = one.stream(3)
    assert stream.texts.ids != one.part.texts.ids and set(stream.texts.ids) == set(one.part.texts.ids)
    model = TestTimeMatcher(one.matcher, stream.videos, replace(settings, seed=3))
    rows: list[list[float]] = []
    for start in range(0, len(stream.sentences), 16):
        batch = np.arange(start, min(start + 16, len(stream.sentences)))
        rows += model.see(taken(stream.texts, batch), [stream.sentences[row] for row in batch]).tolist()
    hits = in_order(first_hits(rows, stream.texts.ids, one), one)
    assert outcome.per_query["R@1"].tolist() == hits
    assert outcome.figure("R@1") == pytest.approx(np.mean(hits))
    assert outcome.labels is not None and outcome.labels["weights moved, %"] > 0  # type: ignore[operator]


@pytest.mark.parametrize("protocol", ["online", "offline"])
def test_nothing_learns_from_labels(protocol: str) -> None:
    """Captions that are said to be of other clips change what is measured, and nothing that is done."""
    settings = adapting(protocol=protocol)
    right = target()
    captions = right.part.corpus.captions
    clips = captions["clip_id"].to_list()
    wrong = captions.with_columns(clip_id=pl.Series([*clips[3:], *clips[:3]]))
    corpus = make_corpus(right.part.corpus.clips, wrong)
    part = part_of(corpus, right.part.texts, right.part.videos)
    other = Target(Model("mine", right.matcher, part, right.prepared, read), right.bank)
    told = [answered(one, Row(settings), 0, quiet, settings=settings).labels for one in (right, other)]
    assert told[0] is not None and told[1] is not None
    assert told[0]["right, %"] != told[1]["right, %"]
    assert {**told[0], "right, %": None} == {**told[1], "right, %": None}


def test_scores_are_corrected_by_the_queries_that_came_before() -> None:
    """QB-Norm (Bogolin et al. 2022), by loops; the first batch has nothing before it."""
    one, settings = target(), adapting(protocol="online", batch_size=10)
    found = answered(one, Row(norm=Norm("qb-norm")), 1, quiet, settings=settings)
    stream = one.stream(1)
    plain = matcher_scores(one.matcher, stream.texts, stream.videos).score_all().values.astype(np.float64)
    rows = []
    for at, row in enumerate(plain):
        bank = plain[: at // 10 * 10]
        hubs = {int(asked.argmax()) for asked in bank}
        lowered = [float(score) for score in row]
        if int(row.argmax()) in hubs:
            lowered = [value - np.log(sum(np.exp(20 * bank[:, column]))) / 20 for column, value in enumerate(row)]
        rows.append(lowered)
    assert found.per_query["R@1"].tolist() == in_order(first_hits(rows, stream.texts.ids, one), one)
    assert (
        found.per_query["R@1"].tolist() != answered(one, Row(), 1, quiet, settings=settings).per_query["R@1"].tolist()
    )


@pytest.mark.parametrize("trained", [True, False])
def test_scores_are_corrected_by_a_bank_of_all_queries(trained: bool) -> None:
    """NNN (Chowdhury et al. 2024), whose 128 neighbours are all of 45; offline the order counts for nothing."""
    one, settings = target(), adapting()
    found = answered(one, Row(norm=Norm("nnn", trained)), 5, quiet, settings=settings)
    assert one.bank is not None
    asked = one.bank.read(np.arange(one.bank.count)) if trained else one.part.texts
    scores, bank = (
        matcher_scores(one.matcher, texts, one.part.videos).score_all().values for texts in (one.part.texts, asked)
    )
    rows = [[value - 0.75 * bank[:, column].mean() for column, value in enumerate(row)] for row in scores]
    assert found.per_query["R@1"].tolist() == in_order(first_hits(rows, one.part.texts.ids, one), one)


def test_offline_the_bank_is_the_latest_of_the_stream_and_scores_are_corrected_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of more queries than `bank` holds; the whole table is never corrected at once."""
    tables: list[int] = []

    def noted(given: Scores, bank: FloatArray, *, top: int) -> Scores:
        tables.append(len(given.values))
        return nearest_neighbour_norm(given, bank, top=top)

    monkeypatch.setattr(titan_streams, "nearest_neighbour_norm", noted)
    monkeypatch.setattr(titan_streams, "AT_ONCE", 20)
    one, settings = target(), adapting(bank=10)
    found = answered(one, Row(norm=Norm("nnn")), 2, quiet, settings=settings)
    stream = one.stream(2)
    scores = matcher_scores(one.matcher, stream.texts, stream.videos).score_all().values
    rows = [[value - 0.75 * scores[-10:, column].mean() for column, value in enumerate(row)] for row in scores]
    assert found.per_query["R@1"].tolist() == in_order(first_hits(rows, stream.texts.ids, one), one)
    assert tables == [20, 20, 5]


def test_captions_of_a_bank_are_cut_to_what_the_matcher_takes() -> None:
    """Training captions may be longer than those that are searched with."""
    one, wordy = worded_part("test", 1.5, 0), read(["a red ball rolls over the blue cup", "the green tree falls"])
    matcher = build_matcher("x_clip", DIMENSION, {"max_words": 3, "max_frames": 2, "temporal_layers": 0})
    bank = CaptionBank(2, lambda rows: taken(wordy, rows))
    found = answered(
        Target(Model("mine", matcher, one), bank), Row(norm=Norm("nnn", True)), 0, quiet, settings=adapting()
    )
    assert len(found.per_query["R@1"]) == one.corpus.captions.height


def test_what_a_report_says_is_held_to_the_labels() -> None:
    one = target()
    first, second, third = one.part.corpus.captions["caption_id"].to_list()[:3]  # all of the first clip
    clips = one.part.videos.ids
    steps = (
        AdaptationStep(1, 3, counterfactual=2, labels=((first, clips[1]), (second, clips[0]))),
        AdaptationStep(
            2, 3, counterfactual=1, labels=((first, clips[0]), (third, clips[4])), label_rank=LabelRank(4, 1, 9, 0.5)
        ),
        AdaptationStep(3, 3, label_rank=LabelRank(5, 3, 9, 0.0)),
    )
    found = diagnosed(AdaptReport(True, "Done.", steps, moved=0.5, first_changed=0.25), one)
    assert (found["labels"], found["counterfactual captions"]) == (3, 3)
    assert (found["weights moved, %"], found["first clips changed, %"]) == (50.0, 25.0)
    assert found["right, %"] == pytest.approx(200 / 3)  # the last label of the first caption counts
    assert found["coverage, %"] == pytest.approx(200 / len(clips))
    assert (found["rank before"], found["rank after"]) == (4.5, 2.0)
    counts = [2, 0, 0, 0, 1, *[0] * (len(clips) - 5)]
    apart = sum(abs(one - other) for one in counts for other in counts)
    assert found["Gini"] == pytest.approx(apart / (2 * len(clips) * sum(counts)))  # Gini's mean difference
    nothing = diagnosed(AdaptReport(False, "", ()), one)
    unknown = ("right, %", "coverage, %", "Gini", "rank before", "rank after")
    assert nothing["labels"] == 0 and [nothing[head] for head in unknown] == [None] * 5


def test_each_caption_is_read_once() -> None:
    asked: list[str] = []

    def counted(sentences: Sequence[str]) -> object:
        asked.extend(sentences)
        return read(sentences)

    reader = RememberingReader(counted)  # type: ignore[arg-type]
    some = ["a dog jumps", "red", "a dog jumps"]
    found = [reader(some), reader(["red", "a cup"])]
    assert asked == ["a dog jumps", "red", "a cup"]
    for got, sentences in zip(found, (some, ["red", "a cup"]), strict=True):
        expected = read(sentences)
        np.testing.assert_array_equal(got.word_mask, expected.word_mask)
        np.testing.assert_array_equal(got.words, expected.words)
        np.testing.assert_array_equal(got.sentence, expected.sentence)


def test_parts_are_switched_one_by_one() -> None:
    settings = adapting(protocol="online")
    rows = parts(settings, True)

    def switches(name: str) -> tuple[bool, bool, bool]:
        own = rows[name].settings
        assert own is not None
        return own.matching.match == "rank_sum", own.counterfactuals is not None, own.causal

    assert rows[SOURCE].settings is None and rows[BOTH].settings == settings
    assert [switches(name) for name in (NEITHER, CHR, CBC)] == [(False,) * 3, (True, True, False), (False, False, True)]
    together = rows[f"{BOTH}, ranks decide"].settings
    assert together == replace(settings, decides="ranks")
    halves = ("source debias alone", "target amplification alone")
    correction = prepared().correction
    assert correction is not None
    told = [switched(correction, rows[name]).settings for name in halves]
    assert [(one.source_debias, one.target_amplification) for one in told] == [(True, False), (False, True)]
    assert correction.settings.source_debias and correction.settings.target_amplification
    warm = parts(adapting(matching=MatchSettings(temperature=0.2)), False)[f"{BOTH}, sinkhorn"].settings
    assert warm is not None and warm.matching == MatchSettings("sinkhorn", temperature=0.2)


def test_rows_beside_the_paper_have_its_settings_and_safety_apart() -> None:
    rows = online(adapting(protocol="online"), True)
    whole, safe, first = (rows[name].settings for name in ("TITAN", "TITAN with safety", "TITAN, predicted first"))
    assert whole is not None and safe is not None and first is not None
    assert (whole.safety, safe.safety, first.predict) == (UNSAFE, SafetySettings(), "before")
    assert replace(safe, safety=UNSAFE) == replace(first, predict="after") == whole
    own = SafetySettings(keep=0.5)
    kept = offline(adapting(safety=own), False)
    assert kept["TITAN with safety"].settings == adapting(safety=own)
    assert "QB-Norm, own queries" in kept and not any("training" in name or "predicted" in name for name in kept)


@pytest.mark.parametrize(
    ("rows", "settings", "sentence"),
    [
        (online, {"protocol": "offline"}, "the protocol online, and the settings say offline; make titan/t3"),
        (offline, {"protocol": "online"}, "the protocol offline, and the settings say online; make titan/t1"),
        (offline, {"objective": "ttt"}, "go out from pseudo-labels, and the objective is ttt"),
        (parts, {"causal": False}, "leave causal, counterfactuals and matching.match as they are"),
        (parts, {"counterfactuals": None}, "leave causal, counterfactuals and matching.match as they are"),
        (thresholds, {"counterfactuals": None}, "is about counterfactual captions"),
        (thresholds, {"objective": "ttt_flow"}, "go out from pseudo-labels, and the objective is ttt_flow"),
    ],
)
def test_settings_that_a_study_cannot_vary_are_refused(
    rows: object, settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        rows(adapting(**settings), False)  # type: ignore[operator]
