"""The audit of sources: what it says; and clips without pairs, against loops and a bootstrap."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenreel
from evenreel.audits import AUDITS, AuditSettings, audit_source
from evenreel.audits.inputs import OrderedRows
from evenreel.audits.source import (
    EVERY_GROUP,
    FIRST_PLACES,
    Exposure,
    Preference,
    Unpaired,
    gap_shares,
    measure_source,
    measure_unpaired,
    rank_gaps,
    unpaired_sentence,
)
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import Interval
from evenreel.report import AuditResult
from evenreel.types import Corpus, Scores
from tests.audits.small_pairs import beats, hit, pairs_of, scores_of

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


# Without pairs.


VALUES = (-math.inf, 0.0, 0.5, 0.75)

# Two pairs, a real clip and two generated ones that mirror nothing that is there, a caption of a mirror among the rest.
CLIPS = [
    ("r0", "camera", None), ("r1", None, None), ("r2", "camera", None), ("s0", "sora", "r0"), ("k0", "kling", "r0"),
    ("s1", "sora", "r1"), ("s9", "sora", None), ("k9", "kling", "elsewhere"),
]  # fmt: skip
CAPTIONS = [("c0", "r0"), ("c1", "r0"), ("c2", "r1"), ("c3", "s1"), ("c4", "s9"), ("c5", "r2")]
SCENE = {"s0": "r0", "k0": "r0", "s1": "r1"}
QUERIES = [*(caption for caption, _ in CAPTIONS), "what a user typed"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(
        pl.DataFrame(CLIPS, {"clip_id": pl.String, "source": pl.String, "pair_id": pl.String}, orient="row"),
        pl.DataFrame(
            [(*one, "words") for one in CAPTIONS],
            {"caption_id": pl.String, "clip_id": pl.String, "text": pl.String},
            orient="row",
        ),
    )


def tables() -> st.SearchStrategy[np.ndarray]:
    """Scores of `QUERIES` and `CLIPS`, with many ties or with none."""
    shape = len(QUERIES), len(CLIPS)
    return st.builds(
        lambda seed, tied: (
            np.random.default_rng(seed).choice(VALUES, shape)
            if tied
            else np.random.default_rng(seed).normal(size=shape)
        ),
        st.integers(0, 2**32),
        st.booleans(),
    )


def measured(values: Any, corpus: Corpus) -> Unpaired:
    return measure_unpaired(Scores(np.asarray(values), QUERIES, [clip for clip, _, _ in CLIPS]), corpus)


def slow_share(values: np.ndarray, made: Iterable[str]) -> float:
    """Every meeting of a real and a generated clip that do not answer the caption."""
    clips, clip_of = [clip for clip, _, _ in CLIPS], dict(CAPTIONS)
    real = [clip for clip, source, _ in CLIPS if source in ("camera", None)]
    shares = []
    for query, row in zip(QUERIES, values, strict=True):
        own = clip_of.get(query)
        answer = {clip for clip in clips if own and SCENE.get(clip, clip) == SCENE.get(own, own)}
        score = dict(zip(clips, map(float, row), strict=True))
        won = [beats(score[one], score[other]) for one in real for other in made if not {one, other} & answer]
        if won:
            shares.append(np.mean(won))
    return 100 * float(np.mean(shares))


@given(values=tables())
def test_shares_are_those_of_slow_loops(corpus: Corpus, values: np.ndarray) -> None:
    found = measured(values, corpus).preferences
    groups = {name: [clip for clip, source, _ in CLIPS if source == name] for name in ("sora", "kling")}
    assert [*found] == [EVERY_GROUP, *groups]
    for name, made in {EVERY_GROUP: groups["sora"] + groups["kling"], **groups}.items():
        assert found[name].share.value == pytest.approx(slow_share(values, made))
        assert (found[name].real, found[name].generated, found[name].captions) == (3, len(made), len(QUERIES))
        low, high = found[name].share.low, found[name].share.high
        assert low is not None and high is not None and 0 <= low <= found[name].share.value <= high <= 100


@given(values=tables())
def test_exposure_is_the_mean_over_orders(corpus: Corpus, values: np.ndarray) -> None:
    """The chance of each generated clip to be among the first k, summed, of those that are shown."""
    exposure = measured(values, corpus).exposure
    made = [place for place, (_, source, _) in enumerate(CLIPS) if source not in ("camera", None)]
    assert exposure.gallery == 62.5
    assert exposure.captions == len(QUERIES)
    assert [*exposure.shown] == [k for k in FIRST_PLACES if k < len(CLIPS)]
    for k, share in exposure.shown.items():
        expected = []
        for row in values:
            shown = min(k, int((row > -math.inf).sum()))
            chances = [hit(row[place], np.delete(row, place).tolist(), k) for place in made]
            expected += [sum(chances) / shown] if shown else []
        assert share.value == pytest.approx(np.mean(expected))
        assert share.low is not None and share.high is not None
        assert 0 <= share.low <= share.value + 1e-9 and share.value - 1e-9 <= share.high <= 100 + 1e-9


@settings(max_examples=15)
@given(values=tables(), seed=st.integers(0, 2**32))
def test_order_and_bands_do_not_matter(corpus: Corpus, values: np.ndarray, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows, columns = generator.permutation(len(QUERIES)), generator.permutation(len(CLIPS))
    ids = [QUERIES[row] for row in rows], [CLIPS[column][0] for column in columns]
    other = measure_unpaired(Scores(values[np.ix_(rows, columns)], *ids), corpus, AuditSettings(band_bytes=1))
    found = measured(values, corpus)
    for name, one in found.preferences.items():
        again = other.preferences[name].share
        assert (again.value, again.low, again.high) == pytest.approx((one.share.value, one.share.low, one.share.high))
    assert {k: share.value for k, share in other.exposure.shown.items()} == pytest.approx(
        {k: share.value for k, share in found.exposure.shown.items()}
    )


def test_equal_scores_prefer_nobody(corpus: Corpus) -> None:
    found = measured(np.zeros((len(QUERIES), len(CLIPS))), corpus)
    for one in found.preferences.values():
        assert (one.share.value, one.share.low, one.share.high) == (50.0, 50.0, 50.0)
    assert {share.value for share in found.exposure.shown.values()} == {found.exposure.gallery}


def test_what_answers_a_caption_meets_nobody() -> None:
    """Every answer scores best, every other clip the same."""
    corpus = pairs_of((0, 1, 2), 3)
    values = np.zeros((3, 6))
    values[[0, 1, 2], [0, 1, 2]] = values[[0, 1, 2], [3, 4, 5]] = 9
    assert measure_unpaired(scores_of(values, corpus), corpus).preferences[EVERY_GROUP].share.value == 50
    one = pairs_of((0,), 1)
    nobody = measure_unpaired(scores_of([[1.0, 0.0]], one), one).preferences[EVERY_GROUP]
    assert math.isnan(nobody.share.value)
    assert nobody.captions == 0


def unlike(seed: int, captions: int, real: int, made: int) -> tuple[Corpus, np.ndarray]:
    """A gallery without pairs, each clip and caption with a liking of its own."""
    generator = np.random.default_rng(seed)
    clips = [f"r{n}" for n in range(real)] + [f"s{n}" for n in range(made)]
    corpus = make_corpus(
        pl.DataFrame({"clip_id": clips, "source": ["camera"] * real + ["sora"] * made}),
        pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String}),
    )
    liking = generator.normal(size=real + made) - np.repeat([0, 0.4], [real, made])
    leaning = generator.normal(size=(captions, 1)) * np.repeat([1, -1], [real, made]) / 2
    return corpus, liking + leaning + generator.normal(size=(captions, real + made))


def test_the_interval_is_as_wide_as_that_of_a_bootstrap() -> None:
    """Captions, real and generated clips drawn anew, each for themselves, and every meeting counted."""
    corpus, values = unlike(0, 60, 50, 40)
    share = (
        measure_unpaired(Scores(values, [f"q{n}" for n in range(60)], corpus.clips["clip_id"].to_list()), corpus)
        .preferences[EVERY_GROUP]
        .share
    )
    real, made = values[:, :50], values[:, 50:]
    wins = (real[:, :, None] > made[:, None, :]).astype(np.float32)
    generator, drawn = np.random.default_rng(1), []
    for _ in range(400):
        queries, first, second = (np.bincount(generator.integers(0, n, n), minlength=n) / n for n in (60, 50, 40))
        drawn.append(100 * float(queries @ (wins @ second @ first)))
    assert share.low is not None and share.high is not None
    width = np.quantile(drawn, 0.975) - np.quantile(drawn, 0.025)
    assert share.value == pytest.approx(100 * wins.mean(), abs=1e-3)
    assert share.high - share.low == pytest.approx(width, rel=0.15)


def test_a_small_interval_by_hand() -> None:
    """Every way to call three of eight clips real; four queries that all rank alike add nothing of their own."""
    corpus, values = unlike(0, 1, 3, 5)
    row = values[0].tolist()
    drawn = []
    for real in itertools.combinations(range(8), 3):
        made = [one for one in range(8) if one not in real]
        drawn.append(100 * np.mean([beats(row[one], row[other]) for one in real for other in made]) - 50)
    names = [f"q{n}" for n in range(4)], corpus.clips["clip_id"].to_list()
    how = AuditSettings(resamples=5_000, confidence=0.5)
    found = measure_unpaired(Scores(np.repeat(values, 4, axis=0), *names), corpus, how).preferences[EVERY_GROUP]
    value = 50 + drawn[0]
    expected = value - np.quantile(drawn, 0.75), value - np.quantile(drawn, 0.25)
    assert (found.share.value, found.share.low, found.share.high) == pytest.approx((value, *expected))
    assert found.p_value == pytest.approx(np.mean(np.abs(drawn) >= abs(drawn[0]) - 1e-9), abs=0.02)


def test_the_interval_holds_what_is_true_as_often_as_it_says() -> None:
    """Few captions, each leaning its own way, and few clips; nothing is preferred in the long run."""
    corpus, _ = unlike(0, 8, 12, 10)
    names, held = ([f"q{n}" for n in range(8)], corpus.clips["clip_id"].to_list()), 0
    generator = np.random.default_rng(0)
    for _ in range(60):
        leaning = generator.normal(size=(8, 1)) * np.repeat([0.5, -0.5], [12, 10])
        values = generator.normal(size=22) + leaning + generator.normal(size=(8, 22))
        share = measure_unpaired(Scores(values, *names), corpus).preferences[EVERY_GROUP].share
        held += share.low <= 50 <= share.high  # type: ignore[operator]
    assert 52 <= held <= 59


def test_a_pair_counts_as_one() -> None:
    """Mirrors that score as their clips make the preference surer than as many clips without a tie would."""
    corpus = pairs_of((), 40)
    generator = np.random.default_rng(0)
    liking = generator.normal(size=40)
    values = np.hstack([liking, liking - 0.2]) + generator.normal(size=(30, 80)) / 10
    names = [f"q{n}" for n in range(30)], corpus.clips["clip_id"].to_list()
    paired = measure_unpaired(Scores(values, *names), corpus)
    alone = Corpus(corpus.clips.with_columns(pair_id=pl.lit(None, pl.String)), corpus.captions)
    unpaired = measure_unpaired(Scores(values, *names), alone)
    first, second = (one.preferences[EVERY_GROUP].share for one in (paired, unpaired))
    assert first.value == second.value
    assert first.high - first.low < 0.5 * (second.high - second.low)  # type: ignore[operator]


@pytest.mark.parametrize(("queries", "real", "made"), [(1, 5, 5), (5, 1, 5), (5, 5, 1)])
def test_one_of_a_kind_is_never_sure(queries: int, real: int, made: int) -> None:
    corpus, values = unlike(0, queries, real, made)
    one = measure_unpaired(Scores(values, [f"q{n}" for n in range(queries)], corpus.clips["clip_id"].to_list()), corpus)
    found = one.preferences[EVERY_GROUP]
    assert found.share.low is not None and found.share.high is not None and found.p_value is not None
    assert 0 <= found.share.low <= 50 <= found.share.high <= 100 or queries == 1
    assert found.p_value > 0.05 or queries == 1


def hubs(seed: int, captions: int, spread: float) -> tuple[Corpus, Scores]:
    """40 real and 30 generated clips that all captions like more or less, whatever their source."""
    corpus, _ = unlike(0, captions, 40, 30)
    random = np.random.default_rng(seed)
    values = spread * random.normal(size=70) + random.normal(size=(captions, 70))
    return corpus, Scores(values, [f"q{n}" for n in range(captions)], corpus.clips["clip_id"].to_list())


def test_hubs_are_no_preference() -> None:
    """Samples of captions report exposure in most such worlds; 5 % of 60 are at most 8 with a chance of .998."""
    alarms: dict[str, int] = {}
    for world in range(60):
        corpus, scores = hubs(world, 40, 1.0)
        found = measure_unpaired(scores, corpus, AuditSettings(resamples=100, seed=world))
        told = {"share": (found.preferences[EVERY_GROUP].share, 50.0)}
        told |= {f"first {k}": (one, found.exposure.gallery) for k, one in found.exposure.shown.items()}
        for name, (one, neutral) in told.items():
            assert one.low is not None and one.high is not None
            alarms[name] = alarms.get(name, 0) + (not one.low <= neutral <= one.high)
    assert 1 <= max(alarms.values()) <= 8, alarms


def of_videos(seed: int) -> tuple[Corpus, Scores]:
    """6 videos of 8 real clips, each with its mirror; the real ones of a video are liked alike, the others too."""
    random, names = np.random.default_rng(seed), [f"r{n}" for n in range(48)]
    made, video = [f"s{name}" for name in names], [f"v{n // 8}" for n in range(48)]
    clips = pl.DataFrame(
        {
            "clip_id": names + made, "source": ["camera"] * 48 + ["sora"] * 48, "pair_id": [None] * 48 + names,
            "video_id": video + [None] * 48,
        }
    )  # fmt: skip
    captions = pl.DataFrame({"caption_id": [f"c{n}" for n in range(48)], "clip_id": names, "text": ["x"] * 48})
    liked = random.normal(size=(2, 6)).repeat(8, axis=1).ravel()
    values = liked + random.normal(size=(48, 96))
    return make_corpus(clips, captions), Scores(values, captions["caption_id"].to_list(), names + made)


def test_clips_of_a_video_are_one_piece_of_evidence() -> None:
    """By themselves, clips of such videos report a preference in every other world."""
    told = {"auto": 0, "clip": 0}
    for world in range(30):
        corpus, scores = of_videos(world)
        for cluster in told:
            found = measure_unpaired(scores, corpus, AuditSettings(resamples=100, seed=world, cluster=cluster))
            share = found.preferences[EVERY_GROUP].share
            told[cluster] += not share.low <= 50 <= share.high  # type: ignore[operator]
            assert found.preferences[EVERY_GROUP].drawn == (6 if cluster == "auto" else 48)
    assert told["auto"] <= 5
    assert told["clip"] >= 10


def test_one_clip_that_takes_all_first_places_is_one_clip() -> None:
    corpus, scores = hubs(0, 60, 0.0)
    values = np.array(scores.values)
    values[:, corpus.clips["source"].to_list().index("sora")] += 100
    found = measure_unpaired(Scores(values, scores.caption_ids, scores.video_ids), corpus)
    first = found.exposure.shown[1]
    assert first.value == first.high == 100
    assert first.low is not None and first.low < found.exposure.gallery


def test_the_p_value_goes_with_the_interval() -> None:
    corpus, values = unlike(0, 60, 50, 40)
    names = [f"q{n}" for n in range(60)], corpus.clips["clip_id"].to_list()
    how = AuditSettings(resamples=5_000)
    found = measure_unpaired(Scores(values, *names), corpus, how).preferences[EVERY_GROUP]
    assert found.p_value is not None
    at_edge = measure_unpaired(Scores(values, *names), corpus, replace(how, confidence=1 - found.p_value))
    share = at_edge.preferences[EVERY_GROUP].share
    assert min(abs(share.low - 50), abs(share.high - 50)) < 0.5  # type: ignore[operator]


def test_clips_that_the_corpus_does_not_have_are_left_out(corpus: Corpus) -> None:
    values = np.random.default_rng(0).normal(size=(len(QUERIES), len(CLIPS) + 1))
    ids = ["stranger", *(clip for clip, _, _ in CLIPS)]
    found = measure_unpaired(Scores(values, QUERIES, ids), corpus)
    assert found.notices == ("Clips in the scores that are not in the corpus: 1 left out.",)
    assert found.preferences == measured(values[:, 1:], corpus).preferences


def test_a_gallery_of_one_kind_is_refused(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match="2 are real and 0 generated; .* column source"):
        measure_unpaired(Scores(np.zeros((1, 2)), ["c0"], ["r0", "r1"]), corpus)
    with pytest.raises(CorpusError, match="0 are real and 1 generated"):
        measure_unpaired(Scores(np.zeros((1, 1)), ["c0"], ["s0"]), corpus)


def test_whole_numbers_are_scores_too() -> None:
    ordered = OrderedRows.of(np.array([[3, 1, 3, 0]], dtype=np.uint8))
    marks = ordered.placed(np.array([[True, False, True, False]]))
    assert ordered.beaten(~marks)[0].tolist() == [0.5, 1.5, 2.0, 2.0]
