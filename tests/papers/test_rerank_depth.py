"""What a shortlist loses, against a search that is spelt out caption by caption."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenreel.errors import CorpusError, ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, Interval, evaluate, parse_metrics
from evenreel.matchers import scoring
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Limits
from evenreel.matchers.mean_pool import PooledVectors
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers import Model, StudySettings, Workspace, run_study
from evenreel.papers.rerank_depth import AtDepth, Stage, smallest, told
from evenreel.similarity.tiles import Encoded
from evenreel.types import Scores
from tests.papers.offset_pairs import DIMENSION, offset_material


class LastFrame(nn.Module):
    """Cosine with the last frame; with `cheap`, its own cheap score is that with the first frame."""

    logit_scale = torch.tensor(0.0)
    limits = Limits(DIMENSION)

    def encode_text(self, text: TextBatch) -> PooledVectors:
        return PooledVectors(text.sentence)

    def encode_video(self, video: VideoBatch) -> PooledVectors:
        return PooledVectors(video.frames[:, -1])

    def score(self, text: PooledVectors, video: PooledVectors) -> Tensor:
        return text.vectors @ video.vectors.T

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        raise NotImplementedError("it has nothing to learn")


class WithCoarse(LastFrame):
    """Its cheap score looks at half of the numbers."""

    def coarse(self, text: PooledVectors, video: PooledVectors) -> Tensor:
        half = DIMENSION // 2
        return text.vectors[:, :half] @ video.vectors[:, :half].T


def material(matcher: Any) -> Workspace:
    """80 clips, 80 captions of half of them."""
    made = offset_material(0.2)
    return replace(made, models=(Model("tcd", matcher, made.models[0].part),))


def rows_of(found: Any, table: int = 0) -> dict[Any, tuple[Any, ...]]:
    return {row[0]: row for row in found.tables[table].rows}


def spelt_out(made: Workspace, cheap: np.ndarray, depth: int) -> tuple[float, float, float]:
    """Percent of captions whose clip is on the shortlist, found first and found among five."""
    part = made.models[0].part
    dear = matcher_scores(made.models[0].matcher, part.texts, part.videos).score_all().values  # type: ignore[attr-defined]
    clips = list(part.corpus.clips["clip_id"])
    inside, first, five = [], [], []
    for row, clip in enumerate(part.corpus.captions["clip_id"]):
        by_cheap = sorted(range(len(clips)), key=lambda place: -cheap[row, place])
        short = sorted(by_cheap[:depth], key=lambda place: -dear[row, place])
        ranking = [clips[place] for place in short + by_cheap[depth:]]
        inside.append(clip in ranking[:depth])
        first.append(ranking[0] == clip)
        five.append(clip in ranking[:5])
    return tuple(100 * float(np.mean(one)) for one in (inside, first, five))  # type: ignore[return-value]


def test_figures_are_those_of_a_search(quick: StudySettings) -> None:
    made = material(LastFrame())
    part = made.models[0].part
    mean = part.videos.frames.mean(axis=1)
    mean /= np.linalg.norm(mean, axis=-1, keepdims=True)
    found = rows_of(run_study("rerank/depth", made, quick))
    assert list(found) == ["none: the cheap score alone", "5", "10", "20", "50", "all 80"]
    for depth in (5, 10, 20, 50):
        row = found[str(depth)]
        expected = spelt_out(made, part.texts.sentence @ mean.T, depth)
        assert (row[1], row[2], row[5]) == pytest.approx(expected)
        assert row[-1] > 0
    assert found["5"][1] < found["20"][1] <= 100 == found["all 80"][1]
    assert found["none: the cheap score alone"][-1] is None


def test_with_all_clips_the_figures_are_those_of_evaluate(quick: StudySettings) -> None:
    for matcher in (LastFrame(), WithCoarse()):
        made = material(matcher)
        part = made.models[0].part
        wanted = EvaluationSettings(
            metrics=parse_metrics(["R@1", "R@5", "R@10"]), directions=("t2v",), resamples=quick.audit.resamples
        )
        summary = evaluate(matcher_scores(matcher, part.texts, part.videos), part.corpus, wanted).directions["t2v"]  # type: ignore[arg-type]
        row = rows_of(run_study("rerank/depth", made, quick))["all 80"]
        ends = [(one.value, one.low, one.high) for one in summary.summary.values()]
        assert row[2:11] == tuple(end for three in ends for end in three)
        assert row[11:14] == (0.0, 0.0, 0.0)


def test_a_matcher_s_own_cheap_score_chooses(quick: StudySettings) -> None:
    made = material(WithCoarse())
    part, half = made.models[0].part, DIMENSION // 2
    found = run_study("rerank/depth", made, quick)
    assert [table.title for table in found.tables] == ["tcd after its own cheap score"]
    cheap = part.texts.sentence[:, :half] @ part.videos.frames[:, -1, :half].T
    assert rows_of(found)["10"][1:3] == pytest.approx(spelt_out(made, cheap, 10)[:2])


def test_other_scores_may_choose_too(quick: StudySettings) -> None:
    made = material(LastFrame())
    part = made.models[0].part
    captions, clips = list(part.corpus.captions["caption_id"]), list(part.corpus.clips["clip_id"])
    own = np.array([[float(clip == mine) for clip in clips] for mine in part.corpus.captions["clip_id"]])
    oracle = Scores(own[::-1, ::-1], captions[::-1], clips[::-1])  # by their ids, in whatever order
    found = run_study("rerank/depth", replace(made, scores={"oracle": oracle}), quick)
    assert [table.title for table in found.tables] == ["tcd after mean_pool", "tcd after oracle"]
    assert rows_of(found, 1)["5"][1] == 100.0
    lacking = Scores(own[:, 1:], captions, clips[1:])
    with pytest.raises(ScoresError, match="lack 1 of 80 clips"):
        run_study("rerank/depth", replace(made, scores={"oracle": lacking}), quick)


@pytest.mark.parametrize(
    ("losses", "margin", "expected"),
    [
        ({0: (-30, -40, -20), 5: (-0.4, -1.1, 0.3), 10: (-0.2, -0.9, 0.5), 80: (0, 0, 0)}, 1.0, 10),
        ({0: (-30, None, None), 5: (-0.4, None, None), 80: (0, None, None)}, 1.0, 5),
        ({0: (-0.1, -0.5, 0.3), 5: (0, 0, 0), 80: (0, 0, 0)}, 1.0, 0),
        ({0: (-9, -9, -9), 5: (-4, -5, -3), 80: (0, 0, 0)}, 1.0, 80),
    ],
)
def test_a_shortlist_is_long_enough_by_its_interval(
    losses: dict[int, tuple[float, float | None, float | None]], margin: float, expected: int
) -> None:
    depths = {length: AtDepth({}, Interval(0.0), Interval(*loss), None) for length, loss in losses.items()}
    assert smallest(depths, margin) == expected


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ((4.4, 0.2, 8.5), "re-ranking does harm: the cheap score alone has +4.4 (+0.2 to +8.5) points of R@1"),
        ((4.4, None, None), "re-ranking seems to do harm: the cheap score alone has +4.4 points"),
        ((0.3, -0.5, 1.1), "re-ranking gains nothing: the cheap score alone has +0.3 (-0.5 to +1.1) points"),
        ((-0.3, -0.9, 0.2), ": the cheap score alone surely loses less than 1 point of R@1 (-0.3 (-0.9 to +0.2))."),
        ((-0.3, None, None), ": the cheap score alone loses less than 1 point of R@1 (-0.3)."),
        ((-9.0, -9.5, -8.0), "re-ranking the first 5 of 80 clips surely loses less than 1 point of R@1 (-0.1 ("),
        ((-9.0, None, None), "re-ranking the first 5 of 80 clips loses less than 1 point of R@1 (-0.1)"),
    ],
)
def test_the_sentence_says_where_re_ranking_gains_nothing_or_does_harm(
    loss: tuple[float, float | None, float | None], said: str
) -> None:
    short = Interval(-0.1) if loss[1] is None else Interval(-0.1, -0.2, 0.0)
    depths = {
        length: AtDepth({"R@1": Interval(first)}, Interval(90.0), own, None)
        for length, first, own in ((0, 43.8, Interval(*loss)), (5, 40.0, short), (80, 39.4, Interval(0.0, 0.0, 0.0)))
    }
    assert said in told(Stage("tcd", "mean_pool"), depths, 1.0)


def test_all_clips_are_timed_without_a_copy_of_them(quick: StudySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    whole = scoring.chosen_rows

    def noted(encoded: Encoded, rows: NDArray[np.int64]) -> Encoded:
        copied.append(len(rows))
        return whole(encoded, rows)

    monkeypatch.setattr(scoring, "chosen_rows", noted)
    found = rows_of(run_study("rerank/depth", material(LastFrame()), quick))
    assert found["all 80"][-1] > 0
    assert set(copied) == {5, 10, 20, 50}


def test_what_cannot_be_studied_is_refused(quick: StudySettings) -> None:
    made = material(LastFrame())
    with pytest.raises(UsageError, match=r"Nothing can choose shortlists for mean_pool: .* --scores NAME=FILE"):
        run_study("rerank/depth", offset_material(0.2), quick)
    few = made.models[0].part.corpus.clips["clip_id"].to_list()[:5]
    part = made.models[0].part
    kept = part.only(
        type(part.corpus)(
            part.corpus.clips.head(5), part.corpus.captions.filter(part.corpus.captions["clip_id"].is_in(few))
        )
    )
    with pytest.raises(CorpusError, match="has 5 clips, and the shortest shortlist has 5"):
        run_study("rerank/depth", replace(made, models=(Model("tcd", LastFrame(), kept),)), quick)
    with pytest.raises(UsageError, match="margin is 0 points"):
        replace(quick, margin=0)
