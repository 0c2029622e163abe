"""Measuring of what corrupted clips cost a model: corpora, features, scores and figures, each made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from evenreel.checkpoint import load_features_for
from evenreel.corpus import load_corpus, select
from evenreel.edits.corruptions import CorruptedCorpus, corrupt_clips
from evenreel.edits.settings import KINDS, NONE, CorruptionSettings
from evenreel.errors import UsageError
from evenreel.evaluation import EvaluationSettings, save_scores
from evenreel.evaluation.rescoring.columns import dense
from evenreel.features import compute_features, feature_folder
from evenreel.features.pool import NoProgress, SetAside, StagedProgress
from evenreel.matchers.scoring import matcher_scores
from evenreel.progress import Progress
from evenreel.shifts.figures import METRIC, ShiftFigures, ShiftReport, shift_figures, shift_rows
from evenreel.shifts.model import SeeingModel
from evenreel.types import Corpus, Scores

SCORES = "scores.npz"
"""File of the scores in the folder of each corrupted corpus, for `evenreel evaluate`, `audit` and others."""

NO_COSINES = "The scores are no cosines, which the numbers of the hub memory are for; it is left out."
_PARTS = 1_000
"""Steps that a share of a stage is counted in."""


def measure_shifts(
    model: SeeingModel,
    corpus: Corpus,
    folder: str | Path,
    corruptions: CorruptionSettings,
    settings: EvaluationSettings | None = None,
    progress: StagedProgress | None = None,
) -> ShiftReport:
    """Measure what a model finds among clips that are corrupted in several ways; what is made already is kept.

    Args:
        model: the model, see `evenreel.shifts.model.load_model`.
        corpus: captions and clips; select the split first.
        folder: folder for a corpus of each corruption, with features and scores; made where it is missing.
        corruptions: kinds and strengths, and folder of the videos; `none` is measured in any case.
        settings: settings of intervals and tests; the metric is R@1.
        progress: receives the events of the run.
    """
    folder, settings = Path(folder), replace(settings or EvaluationSettings(), metrics=(METRIC,))  # type: ignore[arg-type]
    kinds = (NONE, *(kind for kind in corruptions.kinds or KINDS if kind != NONE))
    if len(kinds) < 2:
        raise UsageError("No corruption is measured; name one with --kind.")
    run = _ShiftRun(model, progress or NoProgress())
    with run.share("corrupting clips") as share:
        written = corrupt_clips(corpus, folder, replace(corruptions, kinds=kinds), share)
    aside = [*written.set_aside]
    features: dict[tuple[str, int], Path] = {}
    for one in written.corpora:
        features[one.kind, one.strength], missing = run.features(one)
        aside += missing
    aside = [*{one.clip_id: one for one in aside}.values()]  # a clip may be set aside after several corruptions
    left_out = pl.col("clip_id").is_in([one.clip_id for one in aside])
    figures: dict[tuple[str, int], ShiftFigures] = {}
    for one in written.corpora:
        part = select(load_corpus(one.folder), where=~left_out)
        scores = run.scores(one, part, features[one.kind, one.strength])
        figures[one.kind, one.strength] = shift_figures(scores, part, settings)
    return _reported(model, folder, aside, figures, settings)


def _reported(
    model: SeeingModel,
    folder: Path,
    aside: list[SetAside],
    figures: Mapping[tuple[str, int], ShiftFigures],
    settings: EvaluationSettings,
) -> ShiftReport:
    searched = next(iter(figures.values())).found.directions["t2v"]
    named, sizes = (model.name, model.encoder.encoder_id, str(folder)), (searched.gallery_size, len(searched.query_ids))
    report = ShiftReport(*named, *sizes, settings.confidence, set_aside=aside)
    report.rows = shift_rows(figures, settings)
    report.notices += dict.fromkeys(notice for one in figures.values() for notice in one.found.notices)
    report.notices += [NO_COSINES] if any(one.corrected is None for one in figures.values()) else []
    return report


@dataclass(frozen=True, eq=False)
class _ShiftRun:
    """What is done to each corrupted corpus alike."""

    model: SeeingModel
    progress: StagedProgress

    def features(self, one: CorruptedCorpus) -> tuple[Path, list[SetAside]]:
        """Compute the features of a corpus that are missing; return their folder, and the clips without."""
        folder = Path(one.folder)
        place = feature_folder(folder, self.model.encoder)
        settings = replace(self.model.settings, videos=folder)
        report = compute_features(load_corpus(folder), place, self.model.encoder, settings, self.progress)
        return place, report.set_aside

    def scores(self, one: CorruptedCorpus, part: Corpus, features: Path) -> Scores:
        """Score every caption with every clip, and keep the scores."""
        pretrained = self.model.matcher(features)
        name = Path(one.folder).name
        with self.share(f"scoring {name}") as share:
            loaded = load_features_for(pretrained, features, part, share)
            scores = dense(matcher_scores(pretrained.matcher, loaded.texts, loaded.videos))
        save_scores(scores, Path(one.folder) / SCORES)
        return scores

    @contextmanager
    def share(self, stage: str) -> Iterator[Progress]:
        """Begin a stage, and give what its share is told to."""
        self.progress.stage(stage, _PARTS)
        yield _in_steps(self.progress.advance)


def _in_steps(advance: Callable[[int], None]) -> Progress:
    """Turn a share that is done into steps."""
    done = 0

    def report(share: float) -> None:
        nonlocal done
        steps = int(share * _PARTS) - done
        done += max(0, steps)
        if steps > 0:
            advance(steps)

    return report
