"""Phrases of captions with clips, before and after the correction of bias: by the formulas of the paper, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from evenreel.adaptation.stream import text_vectors, video_vectors
from evenreel.adaptation.titan import rank_sums
from evenreel.adaptation.titan_correction import TargetStage, chosen, judged, label_rank
from evenreel.errors import UsageError
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers import Workspace, run_study
from evenreel.report.result import AuditResult
from tests.papers.worded_clips import adapting, quick_settings, read, worded_material

PLAIN = adapting(counterfactuals=None)


@pytest.fixture(scope="module")
def material() -> Workspace:
    return worded_material()


@pytest.fixture(scope="module")
def found(material: Workspace) -> AuditResult:
    return run_study("titan/f5", material, replace(quick_settings(PLAIN), queries=("test 4 falls",)))


def test_phrases_are_judged_by_the_formulas(material: Workspace, found: AuditResult) -> None:
    (model,) = material.models
    assert model.prepared is not None and model.prepared.correction is not None
    with torch.no_grad():
        q = text_vectors(model.matcher, text_batch(model.part.texts))
        v = video_vectors(model.matcher, video_batch(model.part.videos))
    scores = matcher_scores(model.matcher, model.part.texts, model.part.videos).score_all().values
    sums = rank_sums(scores, 1.0)
    labels = [min(range(len(row)), key=lambda at, r=r: (sums[r, at], -scores[r, at])) for r, row in enumerate(scores)]
    candidates = np.array(
        [
            [label, *[at for at in np.argsort(-row, kind="stable") if at != label][:9]]
            for label, row in zip(labels, scores, strict=True)
        ]
    )
    confounders = model.prepared.target_confounders(model.part.videos)
    stage = TargetStage(model.prepared.correction, confounders, PLAIN.causal_fit)
    stage.learn(q, v, candidates)
    after = stage.correction
    corrected = chosen(judged(after, q, v, candidates), candidates)
    row = material.test.captions["caption_id"].to_list().index("test 4 falls")
    clips = model.part.videos.ids
    (table,) = found.tables
    assert {line[2] for line in table.rows} == {clips[labels[row]], clips[corrected[row]]}
    assert table.rows[0][5] == "the whole caption"
    for line in table.rows:
        text = material.test.captions["text"][row] if line[5] == "the whole caption" else str(line[5])
        column = clips.index(str(line[2]))
        texts = replace(read([text]), ids=("asked",))
        expected = matcher_scores(model.matcher, texts, model.part.videos).score_all().values[0, column]
        with torch.no_grad():
            asked = text_vectors(model.matcher, text_batch(texts))
            sides = [one.logits(asked, v[[column]]).sigmoid().item() for one in (model.prepared.correction, after)]
        assert line[6:] == pytest.approx((expected, *sides), abs=1e-5)
        assert line[4] == ("right" if line[2] == "test 4" else "wrong")
    own = material.test.captions["clip_id"].to_list()
    right = [
        100 * np.mean([clips[at] == clip for at, clip in zip(some, own, strict=True)]) for some in (labels, corrected)
    ]
    assert found.effect.value == pytest.approx(right[1] - right[0])
    changed = sum(one != other for one, other in zip(labels, corrected, strict=True))
    assert (
        f"mine: the correction gives {changed:,} of {len(own)} captions another clip; {right[1]:.1f} %"
        in found.sentence
    )
    ranks = [label_rank(judged(one, q, v, candidates)) for one in (model.prepared.correction, after)]
    assert f"pseudo clips rank {ranks[0]:.2f} of 10 before it trained on them, {ranks[1]:.2f} after" in found.sentence


def test_captions_are_chosen_where_the_correction_changed_something(material: Workspace) -> None:
    found = run_study("titan/f5", material, quick_settings(adapting()))
    roles = {line[3] for line in found.tables[0].rows}
    assert roles <= {"without correction", "with correction", "with and without correction"}
    assert ("with and without correction" in roles) == ("gives 0 of" in found.sentence)
    assert any("whose label the correction changed" in one for one in found.notices)


def test_what_cannot_be_shown_is_refused(material: Workspace) -> None:
    for given, changes, queries, sentence in (
        (worded_material(reads=False), {}, (), "reads phrases with the text tower of the features"),
        (worded_material(carries=False), {}, (), "carries no bias correction; make one with `evenreel prepare"),
        (material, {}, ("nothing",), "has no caption 'nothing' with a label"),
        (material, {"causal": False}, (), "is about the correction of bias, and causal is false"),
        (material, {"objective": "ttt"}, (), "go out from pseudo-labels, and the objective is ttt"),
    ):
        settings = quick_settings(adapting(counterfactuals=None, **changes))
        with pytest.raises(UsageError, match=sentence):
            run_study("titan/f5", given, replace(settings, queries=queries))
