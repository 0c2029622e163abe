"""`evenreel evaluate --moments`: predicted windows of several systems, beside guesses that look at no video."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.cli.evaluate.files import check_place, system_names
from evenreel.errors import CorpusError, UsageError

if TYPE_CHECKING:
    from evenreel.evaluation.moments import MomentEvaluation, MomentPredictions, MomentSettings, MomentTruth
    from evenreel.evaluation.settings import EvaluationSettings
    from evenreel.types import Corpus

TRAIN = "train"


@dataclass(frozen=True)
class MomentsJob:
    """What is asked of predicted windows.

    Attributes:
        words: metrics; None for those that the corpus has an answer to.
        partial: whether queries may be left out.
        confidence: of the intervals.
        per_query: file for a row a query; None for none.
    """

    words: tuple[str, ...] | None
    partial: bool
    confidence: float
    per_query: Path | None

    def check(self, settings: EvaluationSettings, unfit: bool) -> None:
        """Refuse options that are about rankings of whole clips.

        Args:
            settings: of an evaluation of rankings, which are to be the defaults.
            unfit: whether other options were given that belong to rankings.

        Raises:
            UsageError: there are any.
        """
        from evenreel.evaluation.settings import EvaluationSettings

        if unfit or settings != EvaluationSettings():
            raise UsageError(
                "--moments measures windows in time: beside it there are --corpus, --split, --against, --metric, "
                "--partial, --confidence, --per-query and --json."
            )

    def run(self, paths: Sequence[Path], corpus: Path, split: str | None, as_json: bool) -> None:
        """Measure every system and both guesses, and print or write what is found."""
        from evenreel.cli.evaluate.show_moments import show_moments, write_moments
        from evenreel.corpus import load_corpus, select
        from evenreel.evaluation.moments import MomentSettings, load_predictions, moment_truth
        from evenreel.evaluation.moments.compared import compare_moments
        from evenreel.provenance import provenance_of

        settings = MomentSettings(self.words or (), partial=self.partial, confidence=self.confidence)
        if self.per_query:
            check_place(self.per_query)
        whole = load_corpus(corpus)
        truth = moment_truth(whole if split is None else select(whole, split=split))
        predicted = {name: load_predictions(path) for name, path in system_names(paths).items()}
        found = measured(predicted, truth, learned_of(whole, split), settings)
        compared = compare_moments({name: found[name] for name in predicted}, self.confidence)
        if self.per_query:
            write_moments(self.per_query, found)
        made = provenance_of({"scores": paths, "corpus": corpus}) if as_json else None
        show_moments(found, compared, made)


def learned_of(corpus: Corpus, split: str | None) -> MomentTruth | None:
    """The training split's windows, where there are any and they are not those that are measured."""
    from evenreel.corpus import select
    from evenreel.evaluation.moments import moment_truth

    if split in (None, TRAIN):
        return None
    try:
        return moment_truth(select(corpus, split=TRAIN))
    except CorpusError:
        return None


def measured(
    predicted: Mapping[str, MomentPredictions],
    truth: MomentTruth,
    learned: MomentTruth | None,
    settings: MomentSettings,
) -> dict[str, MomentEvaluation]:
    """Evaluate systems, and beside them both guesses by the metrics of the first that windows alone have."""
    from evenreel.evaluation.moments import blind_predictions, evaluate_moments
    from evenreel.evaluation.moments.settings import parse_moment_metric

    found = {name: evaluate_moments(one, truth, settings) for name, one in predicted.items()}
    words = tuple(word for word in next(iter(found.values())).summary if not parse_moment_metric(word).of_highlights)
    if words:
        plain = replace(settings, metrics=words)
        guesses = blind_predictions(truth, learned)
        found |= {name: evaluate_moments(one, truth, plain) for name, one in guesses.items()}
    return found
