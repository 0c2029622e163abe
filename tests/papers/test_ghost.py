"""Tables of rankings, other orders of frames, and galleries, on pairs whose offset is known."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits.inputs import pair_scores
from evenreel.audits.source import measure_source
from evenreel.corpus import make_corpus, select
from evenreel.errors import CorpusError
from evenreel.matchers.batches import VideoBatch
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings, PooledVectors
from evenreel.papers import Model, StudySettings, Workspace, run_study
from evenreel.papers.ghost.figures import SHARES, count_galleries, draw_replaced
from evenreel.report.page import audit_page, render
from evenreel.types import Corpus, Scores
from tests.papers.offset_pairs import DIMENSION, GROUP, PAIRS, offset_material


def test_the_preference_has_the_sign_of_the_offset(quick: StudySettings) -> None:
    effects = {lead: run_study("ghost/t2", offset_material(lead, seed=2), quick).effect for lead in (-0.5, 0.0, 0.5)}
    assert effects[-0.5].is_significant and effects[-0.5].value > 0
    assert effects[0.5].is_significant and effects[0.5].value < 0
    assert not effects[0.0].is_significant


def test_rows_are_those_of_the_audit(favoured: Workspace, quick: StudySettings) -> None:
    found = run_study("ghost/t2", favoured, quick)
    measures = measure_source(favoured.systems()["mean_pool"], favoured.test, GROUP, quick.audit)
    table = next(one for one in found.tables if one.title == f"Real clips and {GROUP}")
    rows = {row[1]: row[2:] for row in table.rows}
    assert table.columns[2:] == ("R@1", "R@5", "R@10", "MedR", "MeanR", "MixR")
    assert rows["mixed-AI"] == (*(one.value for one in measures.figures["mixed generated"].values()), None)
    assert rows["Normalized Δ"] == tuple(one.value for one in measures.deltas["normalized"].values())
    assert found.effect.value == measures.deltas["normalized"]["MixR"].value
    assert found.sentence.startswith(f"mean_pool favours generated clips on {GROUP}: Normalized Δ MixR -")


def test_settings_go_to_their_tables(quick: StudySettings) -> None:
    both = offset_material(0.3, ("text", "image"))
    groups = {
        name: {row[0] for row in run_study(name, both, quick).tables[0].rows} for name in ("ghost/t2", "ghost/t3")
    }
    assert groups == {"ghost/t2": {GROUP}, "ghost/t3": {"generator image"}}
    with pytest.raises(CorpusError, match=f"made from an image or a video .* there are: {GROUP}"):
        run_study("ghost/t3", offset_material(0.3), quick)
    with pytest.raises(CorpusError, match="which is the study ghost/t3"):
        run_study("ghost/t2", offset_material(0.3, ("image",)), quick)


def test_several_systems_are_counted(favoured: Workspace, quick: StudySettings) -> None:
    other = offset_material(-0.5).systems()["mean_pool"]
    found = run_study("ghost/t2", replace(favoured, scores={"other": other}), quick)
    assert "1 favour generated clips, 1 real ones, and of 0 it cannot be told" in found.sentence


def test_too_few_pairs_are_said_first(favoured: Workspace, quick: StudySettings) -> None:
    few = select(favoured.test, where=pl.col("clip_id").str.contains(r"r[0-9](@|$)"))
    found = run_study("ghost/t2", replace(favoured, test=few), quick)
    assert found.sentence.startswith(f"Too few pairs of a real clip and its mirror to conclude: 10 of {GROUP}. ")
    assert not found.effect.is_significant


def test_what_is_left_out_is_said(favoured: Workspace, quick: StudySettings) -> None:
    scores = favoured.systems()["mean_pool"].block(slice(0, 80), slice(0, 70))  # ten mirrors are missing
    part = Scores(scores, favoured.test.captions["caption_id"].to_list(), favoured.test.clips["clip_id"].to_list()[:70])
    found = run_study("ghost/t2", replace(favoured, models=(), scores={"theirs": part}), quick)
    assert found.notices == (f"Pairs of {GROUP} of which a clip is not in the scores: 10 left out.",)


def test_the_benchmark_and_its_page(favoured: Workspace, quick: StudySettings) -> None:
    found = run_study("ghost/f2", favoured, quick)
    forms, near, alike = found.tables
    assert {row[:2] for row in forms.rows} == {
        ("camera", "test"),
        ("camera", "train"),
        (GROUP, "test"),
        (GROUP, "train"),
    }
    assert [row[:3] for row in near.rows] == [(GROUP, "test", PAIRS), (GROUP, "train", PAIRS)]
    assert 0.5 < found.effect.value < 1 and abs(alike.rows[0][2]) < 0.1  # type: ignore[arg-type]
    page = render(audit_page([found]))
    assert "Similarity of the two clips of a pair" in page
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["name"] == "ghost/f2"


# other orders of frames and single frames: nothing changes for a model that does not see them -------------------------


class FirstFrame(MeanPool):
    """A model that sees nothing but the frame that comes first."""

    def encode_video(self, video: VideoBatch) -> PooledVectors:
        return PooledVectors(video.frames[:, 0])


@pytest.fixture
def by_first(favoured: Workspace) -> Workspace:
    """Frames grow worse for generated clips: the later ones are those of other clips."""
    model = favoured.models[0]
    frames = model.part.videos.frames.copy()
    frames[40:, 1:] = np.roll(frames[40:, 1:], 1, axis=0)
    part = replace(model.part, videos=replace(model.part.videos, frames=frames))
    return replace(favoured, models=(Model("first", FirstFrame(DIMENSION, MeanPoolSettings()), part),))


def test_a_mean_of_frames_does_not_see_their_order(favoured: Workspace, quick: StudySettings) -> None:
    found = run_study("ghost/t4", favoured, quick)
    assert found.effect.value == pytest.approx(0.0, abs=1e-9)
    assert found.notices == (
        "mean_pool does not see the order of frames, so what moving them changes is not about motion.",
    )
    assert [row[2] for row in found.tables[0].rows] == [
        "as it is",
        "random, both",
        "random, generated alone",
        "reversed, both",
        "reversed, generated alone",
    ]


def test_a_model_that_sees_the_order_loses_what_it_saw(by_first: Workspace, quick: StudySettings) -> None:
    found = run_study("ghost/t4", by_first, quick)
    assert not found.notices
    changes = {row[2]: row[6] for row in found.tables[0].rows}
    assert changes["as it is"] == 0
    assert changes["reversed, generated alone"] > 10  # type: ignore[operator]
    paper = {(row[0], row[1]): row[2:] for row in found.tables[1].rows}
    assert paper["reversed, generated alone", "REAL"] == paper["as it is", "REAL"]
    assert paper["reversed, both", "REAL"] != paper["as it is", "REAL"]
    assert paper["reversed, both", "AI"] == paper["reversed, generated alone", "AI"]


def test_frames_taken_after_the_clip_is_moved_are_others(favoured: Workspace, quick: StudySettings) -> None:
    """Two of four frames: a mean sees which they are, not in which order."""
    moved = run_study("ghost/t4", favoured, replace(quick, frames=2, stage="video"))
    changes = {row[2]: row[6] for row in moved.tables[0].rows}
    assert changes["random, both"] != 0
    assert changes["as it is"] == 0


def test_single_frames(favoured: Workspace, quick: StudySettings) -> None:
    found = run_study("ghost/t5", favoured, quick)
    assert [row[2] for row in found.tables[0].rows] == ["as it is", "middle frame", "first frame", "random frame"]
    assert all(row[3] < 0 for row in found.tables[0].rows)  # type: ignore[operator]  # the offset is in every frame
    drawn = found.figures[0].draw()
    assert [bar.name for bar in drawn.data] == ["as it is", "middle frame", "first frame", "random frame"]
    assert list(drawn.data[0].x) == ["mean_pool,<br>generator<br>text"]


# galleries with a share of generated clips, against a search that is spelt out ----------------------------------------

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
