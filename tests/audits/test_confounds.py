"""Pairs that are alike, against slow counts; and preferences that a property does or does not explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import t

from evenreel.audits.confounds import MOST_NAMES, PROPERTIES, audit_confounds, compare, outward_table
from evenreel.audits.settings import AuditSettings
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError
from evenreel.report.page import audit_page, render
from evenreel.types import Corpus, Scores

PAIRS = 60
REAL, MADE = [f"r{number}" for number in range(PAIRS)], [f"g{number}" for number in range(PAIRS)]
QUICK = AuditSettings(resamples=200)
Columns = dict[str, tuple[list[Any], list[Any]]]


def corpus_with(columns: Columns, captions: int = 1) -> Corpus:
    """Each of `PAIRS` real clips has a mirror and some captions; columns are given for real clips and for mirrors."""
    clips = pl.DataFrame(
        {
            "clip_id": REAL + MADE,
            "source": ["camera"] * PAIRS + ["sora"] * PAIRS,
            "pair_id": [None] * PAIRS + REAL,
            **{name: real + made for name, (real, made) in columns.items()},
        }
    )
    owners = REAL * captions
    names = [f"c{number}" for number in range(len(owners))]
    return make_corpus(clips, pl.DataFrame({"caption_id": names, "clip_id": owners, "text": ["a"] * len(owners)}))


def scores_with(corpus: Corpus, gaps: list[float], seed: int = 0) -> Scores:
    """Real clips score `gaps` more than their mirrors, by caption; all else is noise of no account."""
    captions, clips = corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()
    values = np.random.default_rng(seed).normal(size=(len(captions), len(clips)))
    for row, gap in enumerate(gaps):
        values[row, row % PAIRS] = values[row, PAIRS + row % PAIRS] + gap
    return Scores(values, captions, clips)


RATE_GAPS = [(-1.0 if number % 3 else 0.1) if number < 30 else (1.0 if number % 2 else -1.0) for number in range(PAIRS)]
"""Among the first 30 pairs, whose rates differ, most mirrors stand above; among the others there is no preference."""
RATES: Columns = {"fps": ([25.0] * PAIRS, [8.0] * 30 + [24.9] * 30)}
ALIKE: Columns = {
    "codec": (["h264"] * PAIRS, ["h264"] * PAIRS),
    "width": ([320] * PAIRS, [320] * PAIRS),
    "height": ([240] * PAIRS, [240] * PAIRS),
    "duration_s": ([4.0] * PAIRS, [4.3] * PAIRS),
}


def test_a_preference_that_a_property_explains_is_gone_among_alike_pairs() -> None:
    corpus = corpus_with(RATES | ALIKE)
    found = audit_confounds(scores_with(corpus, RATE_GAPS), corpus, QUICK)
    assert found.effect.value == 50.0
    assert not found.effect.is_significant
    assert found.effect.p_value == 1.0
    raw = 100 * np.mean([gap > 0 for gap in RATE_GAPS])
    assert found.tables[0].rows[0][7] == pytest.approx(raw)
    assert found.sentence.startswith("Among the 30 of 60 pairs (sora) that are alike in codec, frame rate, ")
    assert "cannot be told from no preference" in found.sentence


def test_a_preference_that_no_property_explains_is_left() -> None:
    corpus = corpus_with(RATES | ALIKE)
    found = audit_confounds(scores_with(corpus, [-1.0] * PAIRS), corpus, QUICK)
    square = t.ppf(0.975, 29) ** 2 / 30  # Wilson's upper end of no win in as many pairs
    assert (found.effect.value, found.effect.high) == (0.0, pytest.approx(100 * square / (1 + square)))
    assert found.effect.p_value is not None
    assert found.effect.p_value == pytest.approx(2 * 0.5**30)
    assert "do not explain the preference for generated clips" in found.sentence


def test_win_rates_and_counts_equal_slow_ones() -> None:
    """Captions vote, ties half; unknown values are neither alike nor different."""
    rng = np.random.default_rng(3)
    real, made = rng.choice([24.0, 25.0, 30.0], PAIRS).tolist(), rng.choice([23.976, 25.1, 15.0], PAIRS).tolist()
    made[4] = None
    lengths = rng.uniform(2, 4, PAIRS).tolist(), rng.uniform(2, 4, PAIRS).tolist()
    corpus = corpus_with({"fps": (real, made), "duration_s": lengths}, captions=3)
    gaps = rng.choice([-1.0, 0.0, 1.0], 3 * PAIRS).tolist()
    scores = scores_with(corpus, gaps)
    found = audit_confounds(scores, corpus, AuditSettings(resamples=0))
    rows = {str(row[1]): row[4:8] for row in found.tables[0].rows}  # pairs, alike, their share, win rate
    votes = [(1 + np.sign(gap)) / 2 for gap in gaps]
    same_rate = [made[n] is not None and max(real[n] / made[n], made[n] / real[n]) <= 1.01 for n in range(PAIRS)]
    same_length = [max(a / b, b / a) <= 1.1 for a, b in zip(*lengths, strict=True)]
    for name, alike in (("frame rate", same_rate), ("duration", same_length)):
        kept = [vote for row, vote in enumerate(votes) if alike[row % PAIRS]]
        rate = 100 * sum(kept) / len(kept)
        assert rows[name][1::2] == (sum(alike), pytest.approx(rate))
    together = sum(a and b for a, b in zip(same_rate, same_length, strict=True))
    assert (rows["frame rate"][0], rows["all of these"][:2]) == (PAIRS - 1, (PAIRS - 1, together))
    assert any("59 of 60 pairs" in notice for notice in found.notices)


def slow_ranks(values: list[float]) -> list[float]:
    return [sum(b < a for b in values) + (sum(b == a for b in values) + 1) / 2 for a in values]


def test_the_association_is_a_rank_correlation() -> None:
    rng = np.random.default_rng(5)
    lengths = rng.uniform(1, 9, PAIRS).round(1).tolist(), rng.uniform(1, 9, PAIRS).round(1).tolist()
    corpus = corpus_with({"duration_s": lengths})
    gaps = [float(np.log(b / a)) + noise for a, b, noise in zip(*lengths, rng.normal(size=PAIRS), strict=True)]
    found = audit_confounds(scores_with(corpus, gaps), corpus, QUICK)
    ranks = [slow_ranks(gaps), slow_ranks([b / a for a, b in zip(*lengths, strict=True)])]
    _, name, pairs, rho, p, p_holm = found.tables[1].rows[0]
    assert (name, pairs) == ("duration", PAIRS)
    assert rho == pytest.approx(np.corrcoef(ranks)[0, 1])
    assert p == p_holm
    assert isinstance(p, float)
    assert p < 0.001


def test_hazard_59_associations_are_corrected_for_their_number() -> None:
    rng = np.random.default_rng(6)
    columns: Columns = {
        "duration_s": (rng.uniform(1, 9, PAIRS).tolist(), [4.0] * PAIRS),
        "fps": (rng.uniform(10, 30, PAIRS).tolist(), [24.0] * PAIRS),
    }
    corpus = corpus_with(columns)
    found = audit_confounds(scores_with(corpus, rng.normal(size=PAIRS).tolist()), corpus, QUICK)
    plain, adjusted = zip(*((row[4], row[5]) for row in found.tables[1].rows), strict=True)
    small, large = sorted(plain)
    assert sorted(adjusted) == pytest.approx(sorted([min(1, 2 * small), min(1, max(2 * small, large))]))


def test_hazard_59_where_no_pair_is_alike_the_comparison_says_that_it_cannot_tell() -> None:
    columns = ALIKE | {"fps": ([25.0] * PAIRS, [8.0] * PAIRS), "codec": (["h264"] * PAIRS, ["mpeg4"] * PAIRS)}
    corpus = corpus_with(columns)
    found = audit_confounds(scores_with(corpus, [-1.0] * PAIRS), corpus, QUICK)
    assert np.isnan(found.effect.value)
    assert found.sentence.startswith(
        "The comparison cannot tell the source from codec and frame rate: none of 60 pairs (sora) is alike in them. "
    )
    assert found.to_json()["effect"]["value"] is None
    assert all(row[3] is None for row in found.tables[1].rows)  # every difference is the same in all pairs
    assert "cannot tell the source" in render(audit_page([found]))


def test_few_alike_pairs_are_too_few() -> None:
    corpus = corpus_with({"fps": ([25.0] * PAIRS, [25.0] * 7 + [8.0] * 53)})
    found = audit_confounds(scores_with(corpus, [1.0] * PAIRS), corpus, QUICK)
    assert found.sentence.startswith("Too few pairs to conclude: 7 alike. ")


def test_what_is_never_retrieved_has_no_gap() -> None:
    corpus = corpus_with({"duration_s": (np.linspace(1, 9, PAIRS).tolist(), [4.0] * PAIRS)})
    scores = scores_with(corpus, np.linspace(-1, 1, PAIRS).tolist())
    scores.values[0, PAIRS] = -np.inf
    scores.values[1, [1, PAIRS + 1]] = -np.inf
    found = audit_confounds(scores, corpus, QUICK)
    assert found.tables[1].rows[0][2] == PAIRS - 2


def test_hazard_59_a_property_of_too_many_names_is_left_out_with_a_notice() -> None:
    names = [f"codec {number}" for number in range(PAIRS)]
    corpus = corpus_with(RATES | {"codec": (names, names)})
    found = audit_confounds(scores_with(corpus, RATE_GAPS), corpus, QUICK)
    assert any(f"60 different names, more than {MOST_NAMES}" in notice for notice in found.notices)
    assert any("picture size of no pair" in notice for notice in found.notices)
    assert {row[1] for row in found.tables[0].rows} == {"all pairs", "frame rate"}


def test_hazard_59_without_pairs_or_properties_the_audit_says_what_to_do() -> None:
    bare = corpus_with({})
    with pytest.raises(CorpusError, match="--keep-facts"):
        audit_confounds(scores_with(bare, RATE_GAPS), bare, QUICK)
    alone = make_corpus(bare.clips.head(PAIRS), bare.captions)
    scores = Scores(np.zeros((PAIRS, PAIRS)), alone.captions["caption_id"].to_list(), REAL)
    with pytest.raises(CorpusError, match="evenreel corpus pair"):
        audit_confounds(scores, alone, QUICK)
    wrong = corpus_with({"width": (["broad"] * PAIRS, ["small"] * PAIRS)})
    with pytest.raises(CorpusError, match="holds something else"):
        audit_confounds(scores_with(wrong, RATE_GAPS), wrong, QUICK)


@pytest.mark.parametrize(
    ("name", "values", "alike"),
    [
        ("frame rate", {"fps": (24.0, 23.976)}, True),
        ("frame rate", {"fps": (25.0, 24.0)}, False),
        ("picture size", {"width": (320, 320), "height": (240, 240)}, True),
        ("picture size", {"width": (320, 240), "height": (240, 320)}, False),
        ("picture size", {"width": (320, 0), "height": (240, 240)}, False),
        ("duration", {"duration_s": (4.0, 4.4)}, True),
        ("duration", {"duration_s": (4.4, 4.0)}, True),
        ("duration", {"duration_s": (4.0, 4.41)}, False),
        ("duration", {"start_s": (10.0, 0.0), "end_s": (14.0, 4.2)}, True),
        ("codec", {"codec": ("h264", "h264")}, True),
        ("codec", {"codec": ("h264", "H264")}, False),
        ("codec", {"codec": ("h264", None)}, False),
    ],
)
def test_what_counts_as_alike(name: str, values: dict[str, tuple[Any, Any]], alike: bool) -> None:
    clips = pl.DataFrame({"clip_id": ["r", "g"], **{column: list(both) for column, both in values.items()}})
    captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["r"], "text": ["a"]})
    one = next(each for each in PROPERTIES if each.name == name)
    assert compare(outward_table(make_corpus(clips, captions)), one, ["r"], ["g"]).alike.tolist() == [alike]
