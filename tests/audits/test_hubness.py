"""The audit of hubs where the hub is known, where there is none, by loops, and by many galleries that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from scipy import sparse, stats

from evenreel.audits import AuditSettings, audit_hubness, measure_hubness
from evenreel.audits import hubness as hubness_audit
from evenreel.audits.hubness import (
    DRAWS,
    HubnessMeasures,
    ShownSets,
    _distinct,
    _gini_slope,
    _skewness_slope,
    hub_words,
    occurrence_shares,
    query_words,
)
from evenreel.errors import CorpusError
from evenreel.evaluation.concentration import gini, skewness
from evenreel.language import Token
from evenreel.report.page import audit_page, render
from evenreel.types import Corpus, ScoreNotes, Scores
from tests.evaluation import small_corpus
from tests.evaluation.small_corpus import scores_of

Table = np.ndarray
NONE = -np.inf


def corpus_of(clips: int, own: Sequence[int] = (), texts: list[str] | None = None) -> Corpus:
    """Caption n describes clip own[n]."""
    return small_corpus.corpus_of(own, clips, texts)


def measured(values: Table, own: Sequence[int] = (), band_bytes: int = 2**26) -> HubnessMeasures:
    return measure_hubness(scores_of(values), corpus_of(values.shape[1], own), AuditSettings(band_bytes=band_bytes))


def test_three_queries_by_hand() -> None:
    """Clip 0 is first for queries 0 and 1, clips 1 and 2 share the first place for query 2, clip 3 is never first."""
    values = np.array([[3.0, 1, 0, 2], [5, 4, 0, 1], [1, 2, 2, NONE]])
    found = measured(values, [0, 1, 1])
    (first,) = found.occurrences
    assert first.counts.tolist() == [2.0, 0.5, 0.5, 0.0]
    assert first.own.tolist() == [1.0, 0.5, 0.0, 0.0]
    assert found.asked is not None and found.asked.tolist() == [1, 2, 0, 0]
    assert found.clusters.tolist() == [0, 1, 1]
    assert (first.expected, first.never) == (0.75, 25.0)
    assert first.gini.value == pytest.approx(gini(np.array([4, 1, 1, 0])))
    assert first.skewness.value == pytest.approx(stats.skew([2, 0.5, 0.5, 0]))
    # Captions 1 and 2 are of one clip and show three clips between them, so of 4 clips they miss one.
    assert first.chance_never == pytest.approx(100 * 0.75 * 0.25)
    assert found.hubs.tolist() == []  # 2 is less than 0.75 + 2 x 0.75


@limits(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([8, 2**26]))
def test_counts_are_those_of_loops(seed: int, band_bytes: int) -> None:
    """Equal scores, clips that are not retrieved, captions of one clip, of no clip and of a clip that is not ranked."""
    generator = np.random.default_rng(seed)
    values = generator.choice([NONE, 0.0, 1.0, 2.0, 3.0], size=(7, 12))
    own = generator.integers(0, 14, 6).tolist()  # the seventh caption is unknown, clips 12 and 13 have no column
    corpus = corpus_of(14, own)
    found = measure_hubness(scores_of(values), corpus, AuditSettings(band_bytes=band_bytes))
    assert [one.depth for one in found.occurrences] == [1, 5, 10]
    for one in found.occurrences:
        chances = np.array([[slow_chance(row, clip, one.depth) for clip in range(12)] for row in values])
        np.testing.assert_allclose(one.counts, chances.sum(axis=0), atol=1e-9)
        of_own = [sum(chances[row, clip] for row, mine in enumerate(own) if mine == clip) for clip in range(12)]
        np.testing.assert_allclose(one.own, of_own, atol=1e-9)
        assert one.skewness.value == pytest.approx(slow_skewness(chances.sum(axis=0).tolist()), abs=1e-6, nan_ok=True)
    hubs = np.isin(np.arange(12), found.hubs)
    np.testing.assert_allclose(found.hub_places, chances[:, hubs].sum(axis=1), atol=1e-9)
    limit = one.counts.mean() + 2 * one.counts.std()
    assert all((count > limit) == hub for count, hub in zip(one.counts, hubs, strict=True) if abs(count - limit) > 1e-6)


def slow_chance(row: Table, clip: int, depth: int) -> float:
    """Of a clip to be among the first where equals are in random order."""
    above, equal = (row > row[clip]).sum(), (row == row[clip]).sum()
    return 0.0 if row[clip] == NONE else min(1.0, max(0.0, (depth - above) / equal))


def slow_skewness(counts: list[float]) -> float:
    """Of N_k as the paper on hubs has it: the mean cube of what a count is above the mean, over sigma cubed."""
    mean = sum(counts) / len(counts)
    second, third = (sum((one - mean) ** power for one in counts) / len(counts) for power in (2, 3))
    return third / second**1.5 if second > 1e-12 else float("nan")


def planted(queries: int, clips: int, seed: int, hub: int | None = None, taken: int = 0) -> Table:
    """Independent scores; so many queries, the first ones, are shown the hub before all others."""
    values = np.random.default_rng(seed).random((queries, clips))
    if hub is not None:
        values[:, hub] = NONE
        values[:taken, hub] = 2.0
    return values


def test_a_planted_hub_is_found_with_its_count() -> None:
    found = measured(planted(200, 80, 0, hub=7, taken=120))
    for one in found.occurrences:
        assert one.counts[7] == 120
        assert int(one.counts.argmax()) == 7
    assert found.hubs[0] == 7
    assert found.effect.is_significant and found.effect.value > 5 * found.effect.neutral
    result = audit_hubness(scores_of(planted(200, 80, 0, hub=7, taken=120)), corpus_of(80))
    assert result.sentence.startswith("A few clips crowd the rankings: the skewness of how often a clip is among the")
    assert "'v7' is there for 120 of 200 queries, by chance for" in result.sentence
    known = audit_hubness(
        scores_of(planted(200, 80, 0, hub=7, taken=120)), corpus_of(80, [row % 80 for row in range(200)])
    )
    assert "evenreel.evaluation.rescoring" in result.sentence and "evaluate --rescore csls" in known.sentence
    (most,) = [table for table in known.tables if table.title == "Clips that are shown the most"]
    assert most.columns == (
        "clip", "among the first 10", "times chance", "of these, its own", "stands first", "first, its own",
        "ask for it",
    )  # fmt: skip
    assert most.rows[0][0:2] == ("v7", 120) and most.rows[0][3:] == (2, 120, 2, 3)  # captions 7 and 87, not 167
    assert len(most.rows) == 20


def test_random_rankings_are_as_skewed_as_chance_says() -> None:
    found = [measured(planted(300, 120, seed)) for seed in range(20)]
    for number in range(3):
        ones = [one.occurrences[number] for one in found]
        binomial = stats.binom(300, ones[0].depth / 120)
        assert ones[0].chance_never == pytest.approx(100 * float(binomial.pmf(0)))
        assert ones[0].chance_gini == pytest.approx(gini(binomial.rvs(200_000, random_state=1)), rel=0.02)
        for figure in ("skewness", "gini"):
            values = np.array([getattr(one, figure).value for one in ones])
            error = values.std() / len(ones) ** 0.5
            assert values.mean() == pytest.approx(getattr(ones[0], f"chance_{figure}"), abs=4 * error)
    assert sum(one.effect.is_significant for one in found) <= 4  # 5 % of 20 are more than that once in 400


def test_captions_of_one_clip_that_rank_alike_make_random_rankings_uneven() -> None:
    """Twenty copies of a caption's ranking: chance is that of the 100 clips' rankings, not of 2,000."""
    values, own = planted(60, 60, 1), list(range(60))
    once = measured(values, own)
    copied = measured(np.repeat(values, 20, axis=0), list(np.repeat(own, 20)))
    for one, more in zip(once.occurrences, copied.occurrences, strict=True):
        for figure in ("chance_skewness", "chance_gini", "chance_never"):
            assert getattr(more, figure) == pytest.approx(getattr(one, figure))
    alone = measured(np.repeat(values, 20, axis=0))
    assert alone.main.chance_skewness < 0.5 * copied.main.chance_skewness


def test_chance_of_sets_by_loops() -> None:
    """Sets that each show some clips so often, of which it is drawn anew which ones these are."""
    sets = [[1.0, 1.0, 2.0], [0.5, 0.5], [3.0], []]
    shown = ShownSets(6)
    for number, shares in enumerate(sets):
        shown.add(np.array([number]), np.arange(len(shares))[None], np.array([shares]))
    random, values = np.random.default_rng(5), []
    for _ in range(4000):
        counts = np.zeros(6)
        for one in sets:
            counts[random.permutation(6)[: len(one)]] += one
        values.append(skewness(counts))
    (found,), never = shown.chance(4, [skewness], 0)
    assert found.mean == pytest.approx(np.mean(values), abs=4 * np.std(values) / DRAWS**0.5)
    assert found.variance == pytest.approx(np.var(values), rel=0.5)
    assert never == pytest.approx(100 * (3 / 6) * (4 / 6) * (5 / 6))


def test_wide_sets_are_drawn_without_a_clip_twice() -> None:
    widths = np.array([30, 2, 0, 29, 5])
    for seed in range(20):
        columns = np.split(_distinct(widths, 30, np.random.default_rng(seed)), np.cumsum(widths)[:-1])
        assert [len(np.unique(one)) for one in columns] == widths.tolist()


def test_intervals_cover_what_other_queries_give() -> None:
    """Clips of unequal popularity, many sets of queries: the interval of each against the mean of all."""
    generator = np.random.default_rng(5)
    popular = generator.normal(size=150)
    found = [measured(popular + generator.gumbel(size=(200, 150))) for _ in range(30)]
    for figure in ("skewness", "gini"):
        each = [getattr(one.main, figure) for one in found]
        truth = np.mean([one.value for one in each])
        covered = np.mean([one.low <= truth <= one.high for one in each])
        assert covered >= 0.85, figure
        spread = np.std([one.value for one in each])
        half = np.mean([one.high - one.low for one in each]) / 2 / 1.97
        assert 0.8 * spread < half < 1.6 * spread, figure


@pytest.mark.parametrize(("slope", "figure"), [(_skewness_slope, skewness), (_gini_slope, gini)])
def test_slopes_are_differences(slope: object, figure: object) -> None:
    counts = np.random.default_rng(2).permutation(np.geomspace(1, 40, 12))
    found = slope(counts)  # type: ignore[operator]
    step = 1e-6
    nudged = [(figure(counts + step * one) - figure(counts - step * one)) / (2 * step) for one in np.eye(12)]  # type: ignore[operator]
    np.testing.assert_allclose(found, nudged, rtol=1e-5, atol=1e-8)
    assert found @ counts == pytest.approx(0, abs=1e-12)  # twice as many queries, the same figure


def test_where_all_clips_are_shown_alike_there_is_no_hub() -> None:
    for values in (np.zeros((50, 40)), np.full((50, 40), NONE)):
        result = audit_hubness(scores_of(values), corpus_of(40))
        assert result.sentence.endswith("as often as any other, or none is ever: there is no hub.")
        assert np.isnan(result.effect.value) and not result.effect.is_significant
        assert result.to_json()["effect"]["value"] is None
        render(audit_page([result]))
    even = np.array([[(clip - row) % 40 for clip in range(40)] for row in range(40)], np.float64)
    assert np.isnan(measured(even).effect.value)


def test_a_short_list_is_told_and_one_clip_refused() -> None:
    listed = planted(60, 40, 1)
    listed[np.argsort(np.argsort(-listed, axis=1), axis=1) >= 4] = NONE
    result = audit_hubness(scores_of(listed), corpus_of(40))
    assert any("fewer than 10 clips: 4.0 on average" in notice for notice in result.notices)
    assert measured(listed).main.expected == pytest.approx(6)
    with pytest.raises(CorpusError, match="of one clip; which clips crowd a ranking needs two"):
        measured(np.zeros((3, 1)))


def token(word: str, tag: str = "NN") -> Token:
    return Token(word, word, tag)


def test_words_that_bring_hubs_by_loops() -> None:
    """Clusters of unequal size; the test is the correlation of numpy over clusters."""
    generator = np.random.default_rng(0)
    count = 300
    clusters = np.sort(generator.integers(0, 120, count))
    dog, red, runs = (generator.random(count) < share for share in (0.3, 0.3, 0.3))
    rare = np.arange(count) < 2
    hub_places = generator.random(count) + 1.0 * dog
    tagged = [
        tuple(
            [token("dog")] * 2 * bool(dog[row])
            + [token("red", "JJ")] * bool(red[row])
            + [token("run", "VBZ")] * bool(runs[row])
            + [token("quickly", "RB")] * bool(dog[row])
            + [token("gnu")] * bool(rare[row])
        )
        for row in range(count)
    ]
    (found,), tested = hub_words(tagged, hub_places, clusters, 10)
    assert tested == 3  # no adverb, and gnu is in too few
    hubs, others = hub_places[dog].mean(), hub_places[~dog].mean()
    assert [*found.values()] == ["dog", "noun", dog.sum(), *map(pytest.approx, (hubs, others, hubs / others))]
    groups = np.unique(clusters)
    by_group = np.array([[column[clusters == one].mean() for one in groups] for column in (dog, red, runs, hub_places)])
    has, words = hubness_audit._bag(tagged)
    sizes = np.array([(clusters == one).sum() for one in groups])
    means = np.array([(clusters == one) / size for one, size in zip(groups, sizes, strict=True)])
    z = hubness_audit._correlations(sparse.csr_array(means @ has), by_group[3])
    for word, column in zip((("dog", "noun"), ("red", "adjective"), ("run", "verb")), by_group, strict=False):
        assert z[words.index(word)] == pytest.approx(np.corrcoef(column, by_group[3])[0, 1])


def test_words_that_bring_none_are_seldom_listed() -> None:
    """40 words at random, 40 times: about 1 in 20 of the times may list one."""
    listed = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        has = generator.random((120, 40)) < 0.2
        tagged = [tuple(token(f"w{word}") for word in np.flatnonzero(row)) for row in has]
        listed += bool(hub_words(tagged, generator.poisson(1.0, 120).astype(np.float64), np.arange(120), 10)[0])
    assert listed <= 6


def crowded() -> tuple[Scores, Corpus]:
    """Captions with a dog are shown clips 0 to 2 first."""
    generator = np.random.default_rng(0)
    values = generator.random((90, 60))
    values[::3, :3] += 1
    texts = [f"a {('dog', 'horse', 'cat')[row % 3]} is running over a field" for row in range(90)]
    return scores_of(values), corpus_of(60, [row % 60 for row in range(90)], texts)


def test_over_attended_words_come_with_the_corpus_or_the_scores_or_from_nowhere() -> None:
    """A library knows its queries; a corpus of clips alone does not."""
    scores, corpus = crowded()
    bare = Corpus(corpus.clips, corpus.captions.clear())
    texts = dict(corpus.captions.select("caption_id", "text").iter_rows())
    told = audit_hubness(replace(scores, about=ScoreNotes(texts=texts)), bare)
    for result in (audit_hubness(scores, corpus), told):
        word, part, queries, hubs, others, _ = result.tables[2].rows[0]
        assert (len(result.tables[2].rows), word, part, queries, hubs) == (1, "dog", "noun", 30, 3.0)
        assert isinstance(others, float) and others < 1
        assert " Queries with 'dog' have more hubs" in result.sentence and "Tagger: " in result.method[-1]
    assert any(notice.startswith("Nobody says which clip answers which query") for notice in told.notices)
    silent = audit_hubness(scores, bare)
    assert "The words of the queries are not known, so none can be said to bring hubs." in silent.notices
    assert len(silent.tables) == 2 and silent.tables[1].columns[-1] == "stands first"


def test_words_of_many_queries_and_of_another_language(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, corpus = crowded()
    monkeypatch.setattr(hubness_audit, "MOST_TAGGED", 50)
    first, again = (audit_hubness(scores, corpus) for _ in range(2))
    assert any("in 50 of 90 queries, drawn at random" in notice for notice in first.notices)
    assert first.to_json() == again.to_json()
    other = query_words(["собака бежит по полю"] * 20, np.ones(20), np.arange(20), 10)
    assert "unknown to the English dictionary" in other.notices[0] and not other.found


def test_bins_hold_every_clip() -> None:
    counts = np.random.default_rng(0).poisson(10, 500).astype(np.float64)
    counts[0] = 400
    labels, shares, chance = occurrence_shares(counts, 600)
    assert len(labels) == len(shares) == len(chance)
    assert shares.sum() == pytest.approx(100) and chance.sum() == pytest.approx(100, abs=1e-6)
    assert shares[labels.index("201–500")] == pytest.approx(100 / 500)
    assert occurrence_shares(np.full(4, 3.0), 3)[0][-1] == "3"


def test_confidence_is_heeded_and_places_add_up() -> None:
    scores, corpus = crowded()
    wide, narrow = (audit_hubness(scores, corpus, AuditSettings(confidence=one)) for one in (0.99, 0.5))
    assert wide.effect.low < narrow.effect.low < narrow.effect.high < wide.effect.high  # type: ignore[operator]
    curves = wide.figures[1].draw()
    assert [one.name for one in curves.data] == ["first 1", "first 5", "first 10", "first 10, at random"]
    assert all(one.y[0] == 0 and one.y[-1] == pytest.approx(100) for one in curves.data)
