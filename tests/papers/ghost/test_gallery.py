"""Galleries with a share of generated clips, against a search that is spelt out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits.inputs import pair_scores
from evenreel.corpus import make_corpus
from evenreel.papers import StudySettings, run_study
from evenreel.papers.ghost.figures import SHARES, count_galleries, draw_replaced
from evenreel.types import Corpus, Scores
from tests.papers.offset_pairs import offset_material

Matrix = list[list[float]]


def small(pairs: int) -> Corpus:
    real = [f"r{number}" for number in range(pairs)]
    clips = pl.DataFrame(
        {
            "clip_id": [*real, *(f"g{number}" for number in range(pairs))],
            "source": ["camera"] * pairs + ["sora"] * pairs,
            "pair_id": [None] * pairs + real,
        }
    )
    captions = pl.DataFrame(
        {"caption_id": [f"c{n}" for n in range(2 * pairs)], "clip_id": real * 2, "text": ["x"] * 2 * pairs}
    )
    return make_corpus(clips, captions)


def spelt_out(values: np.ndarray, mirrors: np.ndarray) -> tuple[float, dict[bool, float]]:
    """Chance of a generated clip in the first place, and of the answer there, summed over captions."""
    pairs = len(mirrors)
    first, hits = 0.0, {False: 0.0, True: 0.0}
    for caption, row in enumerate(values):
        shown = [row[pairs + pair] if mirrors[pair] else row[pair] for pair in range(pairs)]
        leaders = [pair for pair in range(pairs) if shown[pair] == max(shown)]
        first += sum(mirrors[pair] for pair in leaders) / len(leaders)
        own = caption % pairs
        hits[bool(mirrors[own])] += (own in leaders and shown[own] > -np.inf) / len(leaders)
    return first, hits


@given(st.integers(1, 5), st.integers(0, 2**20), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_counts_are_those_of_a_search(pairs: int, seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(-1, 3, (2 * pairs, 2 * pairs)).astype(np.float64)  # full of ties
    values[values == -1] = -np.inf
    corpus = small(pairs)
    scores = Scores(values, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())
    mirrors = draw_replaced(pairs, share, seed)
    counted = count_galleries(pair_scores(scores, corpus, "sora"), mirrors[None], band_bytes=200)
    first, hits = spelt_out(values, mirrors)
    assert counted.first[0] == pytest.approx(first)
    assert counted.hits[:, 0].tolist() == pytest.approx([hits[False], hits[True]])
    assert counted.captions[:, 0].tolist() == [2 * int((~mirrors).sum()), 2 * int(mirrors.sum())]


@given(st.integers(0, 40), st.integers(0, 1000))
def test_what_is_replaced_stays_replaced(pairs: int, seed: int) -> None:
    drawn = [draw_replaced(pairs, share, seed) for share in SHARES]
    assert [int(one.sum()) for one in drawn] == [round(share * pairs) for share in SHARES]
    assert all((more | fewer == more).all() for fewer, more in pairwise(drawn))


def test_the_preferred_source_takes_more_than_its_share(quick: StudySettings) -> None:
    five = replace(quick, seeds=5)
    found = {lead: run_study("ghost/gallery", offset_material(lead), five) for lead in (-0.5, 0.5)}
    assert found[0.5].effect.value > 5 and found[0.5].effect.is_significant
    assert found[-0.5].effect.value < -5 and found[-0.5].effect.is_significant
    rows = found[0.5].tables[0].rows
    assert rows[0][0] == 0 and rows[0][1] == 0.0 and rows[-1][0] == 100 and rows[-1][1] == 100.0
    assert np.isnan(rows[0][7]) and np.isnan(rows[-1][4])  # type: ignore[arg-type]
    for one in found.values():
        assert len(one.figures[0].draw().data) == 3 * 2 + 1  # a band and a line in each panel, and what is even
