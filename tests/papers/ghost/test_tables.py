"""Tables of rankings, on pairs whose offset is known."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest

from evenreel.audits.source import measure_source
from evenreel.corpus import select
from evenreel.errors import CorpusError
from evenreel.papers import StudySettings, Workspace, run_study
from evenreel.report.page import audit_page, render
from evenreel.types import Scores
from tests.papers.offset_pairs import GROUP, PAIRS, offset_material


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
