"""`evenreel evaluate --moments`: predicted windows of several systems, beside guesses that look at no video."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.cli.evaluate.files import EvaluationFiles, system_names
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.evaluation.metrics import EvaluationSettings
    from evenreel.evaluation.moments import MomentEvaluation, MomentPredictions, MomentSettings, MomentTruth
    from evenreel.types import Corpus

TRAIN = "train"


@dataclass(frozen=True)
class MomentsJob:
    """Evaluation of predicted windows in time, as `evenreel evaluate --moments` is asked for it.

    Attributes:
        metrics: words of metrics; empty for those that the corpus has an answer to.
        settings: settings of an evaluation, of which `partial` and `confidence` count here.
        files: files to write; only `per_query` can be.
        of_rankings: whether options were given that serve rankings of whole clips alone.
    """

    metrics: tuple[str, ...]
    settings: EvaluationSettings
    files: EvaluationFiles
    of_rankings: bool

    def run(self, paths: Sequence[Path], corpus: Path, split: str | None, as_json: bool) -> None:
        """Measure every system and both guesses, and print or write what is found."""
        from evenreel.cli.evaluate.show_moments import show_moments, write_moments
        from evenreel.corpus import load_corpus, select
        from evenreel.evaluation.moments import MomentSettings, compare_moments, load_predictions, moment_truth
        from evenreel.provenance import provenance_of

        self._check(paths)
        partial, confidence = self.settings.partial, self.settings.confidence
        settings = MomentSettings(self.metrics, partial=partial, confidence=confidence)
        whole = load_corpus(corpus)
        truth = moment_truth(whole if split is None else select(whole, split=split))
        predicted = {name: load_predictions(path) for name, path in system_names(paths).items()}
        found = measured(predicted, truth, learned_of(whole, split), settings)
        compared = compare_moments({name: found[name] for name in predicted}, confidence)
        made = provenance_of({"scores": paths, "corpus": corpus}) if as_json else None
        show_moments(found, compared, made)
        if self.files.per_query:
            write_moments(self.files.per_query, found)

    def _check(self, paths: Sequence[Path]) -> None:
        from evenreel.evaluation.metrics import EvaluationSettings

        plain = EvaluationSettings(partial=self.settings.partial, confidence=self.settings.confidence)
        others = replace(self.files, per_query=None) != EvaluationFiles()
        if self.of_rankings or others or self.settings != plain:
            raise UsageError(
                "--moments measures windows in time: beside it there are --corpus, --split, --against, --metric, "
                "--partial, --confidence, --per-query and --json."
            )
        self.files.check(paths)


def learned_of(corpus: Corpus, split: str | None) -> MomentTruth | None:
    """Return the true windows of the training split; None where it has none, or is among what is measured."""
    from evenreel.corpus import select
    from evenreel.evaluation.moments import has_windows, moment_truth

    if split in (None, TRAIN) or TRAIN not in corpus.clips["split"]:
        return None
    part = select(corpus, split=TRAIN)
    return moment_truth(part) if has_windows(part) else None


def measured(
    predicted: Mapping[str, MomentPredictions],
    truth: MomentTruth,
    learned: MomentTruth | None,
    settings: MomentSettings,
) -> dict[str, MomentEvaluation]:
    """Evaluate systems, and beside them two guesses that look at no video, by the metrics of windows alone.

    Where systems searched all clips, what each finds by naming whole clips stands in place of the guesses.
    """
    from evenreel.evaluation.moments import blind_predictions, clips_alone, evaluate_moments, parse_moment_metric

    found = {name: evaluate_moments(one, truth, settings) for name, one in predicted.items()}
    words = tuple(word for word in next(iter(found.values())).summary if not parse_moment_metric(word).of_highlights)
    if words:
        plain = replace(settings, metrics=words)
        searched = {name: one for name, one in predicted.items() if one.clips}
        named = {f"{name}, the whole of its clips": clips_alone(one, truth) for name, one in searched.items()}
        guesses = named or blind_predictions(truth, learned)
        found |= {name: replace(evaluate_moments(one, truth, plain), notices=()) for name, one in guesses.items()}
    return found
