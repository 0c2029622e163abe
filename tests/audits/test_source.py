from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import evenreel
from evenreel.audits import AUDITS, AuditSettings, audit_source
from evenreel.audits.source import (
    EVERY_GROUP,
    Exposure,
    Preference,
    gap_shares,
    measure_source,
    rank_gaps,
    unpaired_sentence,
)
from evenreel.errors import UsageError
from evenreel.evaluation import Interval
from evenreel.report import AuditResult
from evenreel.types import Corpus, Scores
from tests.audits.small_pairs import pairs_of, scores_of

QUICK = AuditSettings(resamples=60)
GROUPS = ("sora", "kling image")


@cache
def a_case(pairs: int, shift: float, groups: tuple[str, ...] = ("sora",)) -> tuple[Corpus, Scores]:
    """Two captions a pair; mirrors score higher by `shift` for every caption."""
    corpus = pairs_of(tuple(range(pairs)) * 2, pairs, groups)
    values = np.random.default_rng(1).normal(size=(2 * pairs, pairs * (1 + len(groups))))
    captions = np.arange(2 * pairs)
    for kind in range(1 + len(groups)):
        values[captions, kind * pairs + captions % pairs] += 2
    values[:, pairs:] += shift
    return corpus, scores_of(values, corpus)


def audited(pairs: int, shift: float, groups: tuple[str, ...] = ("sora",)) -> AuditResult:
    corpus, scores = a_case(pairs, shift, groups)
    return audit_source(scores, corpus, QUICK)


def without_pairs(corpus: Corpus) -> Corpus:
    clips = corpus.clips.clear(corpus.clips.height).with_columns(corpus.clips["clip_id"], corpus.clips["source"])
    return Corpus(clips, corpus.captions)


def test_pairs_give_the_normalized_delta_in_a_sentence() -> None:
    corpus, scores = a_case(40, 1.0)
    found, measured = audit_source(scores, corpus, QUICK), measure_source(scores, corpus, "sora", QUICK)
    delta, wins = measured.deltas["normalized"]["MixR"], measured.win_rate
    assert (found.effect.value, found.effect.low, found.effect.high) == (delta.value, delta.low, delta.high)
    assert found.effect.name == "Normalized Δ MixR (sora)"
    assert found.effect.is_significant
    for told in (f"MixR is {delta.value:.1f} (95% interval {delta.low:.1f} to", f"For {wins.value:.1f}%", "40 pairs"):
        assert told in found.sentence


@pytest.mark.parametrize(
    ("shift", "lead"),
    [
        (-1.0, "The ranking favours real clips: "),
        (1.0, "The ranking favours generated clips: "),
        (0.0, "No preference between real and generated clips can be told: "),
    ],
)
def test_the_first_words_say_who_is_favoured(shift: float, lead: str) -> None:
    assert audited(40, shift).sentence.startswith(lead)
    corpus, scores = a_case(40, shift)
    if not shift:  # the mirror of a caption's clip, which nobody knows to be one, is a generated clip that scores more
        scores = scores_of(np.random.default_rng(2).normal(size=scores.values.shape), corpus)
    found = audit_source(scores, without_pairs(corpus), QUICK)
    assert found.sentence.startswith(f"{lead}of a real and a generated clip that are not known to answer")
    assert (found.effect.neutral, found.effect.is_significant) == (50, shift != 0)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (Interval(90.0, 80.0, 95.0), "of the first places, more than their 50.0% of the gallery: they answer more"),
        (Interval(10.0, 2.0, 20.0), "of the first places, less than their 50.0% of the gallery: they answer fewer"),
        (Interval(55.0, 45.0, 65.0), "of the first places, which cannot be told from their 50.0% of the gallery."),
        (Interval(90.0), "of the first places, beside their 50.0% of the gallery."),
    ],
)
def test_who_takes_the_first_places_is_compared_with_the_gallery(first: Interval, words: str) -> None:
    """Clips that answer nothing may stand alike while all first places go to one kind; both are said."""
    alike = Preference(40, 40, 20, 40, Interval(50.0, 48.0, 52.0), 1.0)
    sentence = unpaired_sentence(alike, Exposure(50.0, {1: first}, 20), 0.95)
    assert sentence.startswith("No preference between real and generated clips can be told")
    assert words in sentence


def test_too_few_are_said_first() -> None:
    assert audited(12, 1.0).sentence.startswith(
        "Too few clips to conclude: 12 real and 12 generated. What was seen leans towards generated clips: Normalized"
    )
    corpus, scores = a_case(12, -1.0)
    kept = [*range(8), 12, 13]
    part = Scores(scores.values[:, kept], scores.caption_ids, [scores.video_ids[column] for column in kept])
    assert audit_source(part, without_pairs(corpus)).sentence.startswith(
        "Too few clips to conclude: 8 real and 2 generated. What was seen leans towards real clips: of a real"
    )
    few, enough = audited(12, 4.0).effect, audited(30, 4.0).effect
    assert few.high is not None and few.high < 0 and not few.is_significant
    assert (few.enough, enough.enough) == (False, True)


def test_pairs_that_nobody_looks_for_are_not_enough() -> None:
    corpus, scores = a_case(40, 1.0)
    asked = Scores(scores.values[[0, 1, 40]], [scores.caption_ids[row] for row in (0, 1, 40)], scores.video_ids)
    found = audit_source(asked, corpus, QUICK)
    assert found.sentence.startswith("Too few clips to conclude: 2 of 40 pairs have a caption. What was seen ")
    assert not found.effect.enough


def test_queries_that_the_corpus_does_not_know() -> None:
    """A library's: the corpus has pairs, but none of its captions is in the scores."""
    corpus, scores = a_case(40, 1.0)
    asked = replace(scores, caption_ids=[f"query {row}" for row in range(80)])
    found = audit_source(asked, corpus, QUICK)
    assert found.effect.name == "real clip above a generated one, neither known to answer, %"
    assert found.notices[0].startswith("80 of 80 captions of the corpus have no scores, the first 'c0'")
    assert found.notices[1:] == (
        "Of no pair of sora are a caption, the real clip and its mirror all in the scores: left out.",
    )
    assert [table.title for table in found.tables] == [
        "Real against generated clips, neither known to answer the caption",
        "Generated clips among the first",
    ]


def test_nothing_to_compare_is_said() -> None:
    """The one real clip answers the one caption."""
    corpus = pairs_of((0,), 1)
    found = audit_source(scores_of([[1.0, 0.0]], corpus), without_pairs(corpus))
    assert found.sentence == (
        "Too few clips to conclude: 1 real and 1 generated. No caption has both a real and a generated clip that do "
        "not answer it, so none can be compared."
    )
    assert json.loads(json.dumps(found.to_json()))["effect"]["value"] is None


def test_several_groups_each_have_a_table_and_bars() -> None:
    found = audited(30, 1.0, GROUPS)
    titles = [table.title for table in found.tables]
    assert titles[:2] == [f"Real and generated clips: {group}" for group in GROUPS]
    assert [row[0] for row in found.tables[-2].rows] == [EVERY_GROUP, *GROUPS]
    bars = found.figures[0].draw()
    assert found.figures[0].title == "Normalized Δ by group"
    assert [bar.name for bar in bars.data] == ["R@1", "MedR", "MeanR", "MixR"]


def test_the_largest_group_is_the_headline() -> None:
    corpus, scores = a_case(30, 1.0, GROUPS)
    first = [clip for clip in scores.video_ids if clip != "sora0"]
    part = Scores(
        scores.values[:, [place for place, clip in enumerate(scores.video_ids) if clip != "sora0"]],
        scores.caption_ids,
        first,
    )
    found = audit_source(part, corpus, QUICK)
    assert found.effect.name == "Normalized Δ MixR (kling image)"
    assert found.notices[0].startswith("1 of 90 clips of the corpus have no scores, the first 'sora0'")
    assert found.notices[1:] == ("Pairs of sora of which a clip is not in the scores: 1 left out.",)


def test_tables_hold_the_measures() -> None:
    corpus, scores = a_case(40, 1.0)
    found, measured = audit_source(scores, corpus, QUICK), measure_source(scores, corpus, "sora", QUICK)
    main, wins, signs, videos, preference, exposure = found.tables
    rows = {row[0]: row[1:] for row in main.rows}
    assert main.columns == ("gallery", "R@1", "R@5", "R@10", "MedR", "MeanR", "MixR")
    assert rows["generated, mixed"] == (*(one.value for one in measured.figures["mixed generated"].values()), None)
    assert rows["Location Δ, high"] == tuple(one.high for one in measured.deltas["location"].values())
    assert [row[1] for row in wins.rows] == ["each caption", "at equal standing alone", "any caption with any (AUC)"]
    assert signs.rows == (("sora", measured.clips_won, measured.clips_lost, measured.sign_p),)
    assert videos.rows[2][2] == measured.video_deltas["R@1"].value
    assert len(preference.rows) == 1
    assert [row[0] for row in exposure.rows] == [1, 5, 10, 20]


def test_gaps_fall_into_bins_that_widen() -> None:
    gaps = np.array([0.0, 0.5, 1.0, 2.0, -3.0, -5.0, 5.5, -40.0])
    labels, generated, real = gap_shares(gaps)
    assert labels == ["1", "2", "3–5", "6–10", "11–20", "21–50"]
    assert (generated * 8 / 100).tolist() == [2, 1, 0, 1, 0, 0]
    assert (real * 8 / 100).tolist() == [0, 0, 2, 0, 0, 1]
    mirrored, alike, ahead = rank_gaps(gaps).data
    assert [*mirrored.customdata] == labels[::-1]
    assert sum([*mirrored.y, *alike.y, *ahead.y]) == pytest.approx(100)
    assert gap_shares(np.zeros(3))[0] == ["1"]


def test_audits_go_by_name() -> None:
    corpus, scores = a_case(12, 1.0)
    assert [one.name for one in evenreel.audit(["source", "source"], scores, corpus, QUICK)] == ["source", "source"]
    for names, said in (
        (["source", "lengths"], f"'lengths' is no audit; there are: {', '.join(AUDITS)}"),
        ([], "No audit is"),
    ):
        with pytest.raises(UsageError, match=said):
            evenreel.audit(names, scores, corpus)
