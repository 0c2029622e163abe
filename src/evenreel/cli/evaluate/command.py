"""`evenreel evaluate`: options in, evaluations and a comparison out; what is printed is in `show`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli.evaluate.files import EvaluationFiles, system_names, write_for_hub, write_per_query, write_ranked
from evenreel.cli.evaluate.moments import MomentsJob
from evenreel.cli.options import MOST, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.errors import UsageError
from evenreel.progress import Progress
from evenreel.provenance import provenance_of

if TYPE_CHECKING:
    from evenreel.cli.evaluate.correction import Correction
    from evenreel.evaluation import Comparison, Evaluation, EvaluationSettings, RelevanceName
    from evenreel.evaluation.answers import Judgements, Truth
    from evenreel.evaluation.comparison import SideBySide
    from evenreel.evaluation.metrics import Direction
    from evenreel.types import Corpus, ScoreBlocks

TUNING = "Settings of --rescore, those of its authors where left out"


@dataclass(frozen=True)
class ScoredSystems:
    """Scores of one system or more, and the corpus that they are of.

    Attributes:
        scores: matrix (npy, npz, csv, tsv, txt, parquet), TREC run or predictions of MTEB (json); with --moments
            predicted windows in jsonl. Of several, the others are tested against the first, as with --against.
        corpus: folder of the corpus the scores are of; without it and --qrels the diagonal of a square matrix is the
            truth, row i a caption of clip i.
        qrels: read what answers what from relevance judgements (TREC, csv, tsv, jsonl, parquet, json).
        captions_per_clip: without a corpus, how many rows that follow each other are captions of one clip.
        against: another system's scores, tested against the first of SCORES; may be given again.
        split: part of the corpus the scores are of, such as test.
    """

    scores: Annotated[tuple[Path, ...], typer.Argument(metavar="SCORES...")]
    corpus: Path | None = None
    qrels: Path | None = None
    captions_per_clip: Annotated[int, typer.Option(min=1, max=MOST)] = 1
    against: tuple[Path, ...] = ()
    split: str | None = None

    @property
    def files(self) -> list[Path]:
        """Files of all systems, the baseline first."""
        return [*self.scores, *self.against]


@dataclass(frozen=True)
class MeasureChoice:
    """What `evenreel evaluate` measures.

    Attributes:
        direction: `t2v` or `v2t`; one alone also says whose lists a run has, where ids fit both; empty for both.
        moments: measure predicted windows in time by the corpus's true ones, beside two guesses that look at no video.
        metric: R@k, MedR, MeanR, MRR, Rsum, GeoR, nDCG, nDCG@k, nDCG@R, mAP, mAP-EPIC, P@k; may be given again. With
            --moments: Rn@IoU, mAP@IoU, mAP, mIoU, nDCG@n@IoU, Rank@n, HL-mAP-VeryGood, HIT@1-VeryGood and so on; empty
            for R@1 R@5 R@10 MedR MeanR Rsum MRR.
        relevance: `clip`, `text`, `classes` or `classes-iou`.
        side_by_side: also show all systems in one table, the best in bold where significantly better than every other.
        mean: also show the mean of both directions, as EPIC-KITCHENS prints it.
    """

    direction: tuple[str, ...] = ()
    moments: bool = False
    metric: Annotated[tuple[str, ...], typer.Option("--metric", "-m")] = ()
    relevance: str = "clip"
    side_by_side: bool = False
    mean: bool = False


def evaluate(
    systems: ScoredSystems = from_settings(ScoredSystems),
    choice: MeasureChoice = from_settings(MeasureChoice),
    correction: Correction = from_settings(
        "evenreel.cli.evaluate.correction:Correction",
        settings=from_settings("evenreel.evaluation.metrics:RescoringSettings", panel=TUNING),
    ),
    settings: EvaluationSettings = from_settings(
        "evenreel.evaluation:EvaluationSettings",
        leave_out=("metrics", "directions", "band_bytes", "threads"),
    ),
    files: EvaluationFiles = from_settings(EvaluationFiles),
    as_json: JsonOption = False,
) -> None:
    """Measure scores of any system: recall, ranks, nDCG, mAP with intervals, and paired tests against others."""
    from evenreel.cli.evaluate.show import show_evaluation, write_side_by_side
    from evenreel.report import evaluation_page, write_page

    if choice.moments:
        tables = choice.side_by_side or choice.mean or files.side_by_side
        of_rankings = bool(choice.direction or choice.relevance != "clip" or tables or correction.given)
        asked = MomentsJob(choice.metric, settings, files, of_rankings or systems.qrels is not None)
        if systems.corpus is None:
            raise UsageError("--moments needs the true windows of a corpus; name it with --corpus FOLDER.")
        asked.run(systems.files, systems.corpus, systems.split, as_json)
        return
    if choice.metric:
        settings = replace(settings, metrics=choice.metric)  # type: ignore[arg-type]  # words become metrics
    if choice.direction:
        settings = replace(settings, directions=cast("tuple[Direction, ...]", choice.direction))
    paths = system_names(systems.files)
    _check(paths, settings, choice.relevance)
    correction.check(choice.direction, alone=len(paths) == 1)
    if files.save_scores and not correction.rescore:
        raise UsageError("--save-scores keeps corrected scores; name the correction with --rescore, or leave it out.")
    files.check([*paths.values(), *correction.banks, *([systems.qrels] if systems.qrels else ())])
    job = _job(systems, paths, settings, choice, correction)
    evaluations = {name: job.evaluate(path) for name, path in paths.items()}
    comparison = _compared(evaluations, settings)
    inputs = {
        "scores": [*paths.values()], "bank": correction.banks, "corpus": systems.corpus, "qrels": systems.qrels
    }  # fmt: skip
    made = provenance_of(inputs) if as_json or files.html else None
    together = _together(evaluations, settings, choice, files)
    show_evaluation(evaluations, comparison, as_json, made, together)
    if files.html:
        write_page(evaluation_page(evaluations, job.part, comparison, settings, together), files.html, made)
        if not as_json:
            typer.echo(f"The page with figures: {files.html}")
    if together:
        write_side_by_side(files, together)
    write_for_hub(files, systems.files[0], next(iter(evaluations.values())), systems.split)
    if files.per_query:
        write_per_query(files.per_query, evaluations)
    if files.save_run or files.save_qrels or files.save_scores:
        first = next(iter(next(iter(evaluations.values())).directions))
        write_ranked(files, job.scores_of(systems.files[0], first), job.part, job.relevance, first)


def _check(paths: Mapping[str, Path], settings: EvaluationSettings, relevance: str) -> None:
    """What would else be found out after the first system is ranked."""
    from evenreel.evaluation import RELEVANCE
    from evenreel.evaluation.scores import check_file

    if relevance not in RELEVANCE:
        raise UsageError(f"{relevance!r} is no kind of relevance; there are: {', '.join(RELEVANCE)}.")
    if len(paths) > 1 and not settings.resamples:
        raise UsageError("A comparison needs at least one resample; leave --resamples 0 out, or name one system.")
    for path in paths.values():
        check_file(path)


def _job(
    systems: ScoredSystems,
    paths: Mapping[str, Path],
    settings: EvaluationSettings,
    choice: MeasureChoice,
    correction: Correction,
) -> _Job:
    """What answers what: by a corpus, by judgements, or by the diagonal."""
    from evenreel.corpus import load_corpus, select
    from evenreel.evaluation.answers import QRELS, read_qrels, truth_of
    from evenreel.evaluation.scores import read_scores

    if systems.qrels and choice.relevance != "clip":
        raise UsageError(
            f"--qrels says what is relevant, and so does --relevance {choice.relevance}; give one of them."
        )
    judged = read_qrels(systems.qrels) if systems.qrels else None
    if systems.corpus is not None:
        if systems.captions_per_clip != 1:
            raise UsageError("The corpus says which captions a clip has; leave --captions-per-clip out.")
        whole = load_corpus(systems.corpus)
        part = whole if systems.split is None else select(whole, split=systems.split)
        relevance = judged or cast("RelevanceName", choice.relevance)
        return _Job(whole, part, settings, choice, correction, relevance, QRELS if judged else choice.relevance)
    if systems.split is not None:
        raise UsageError(
            f"--split {systems.split} names a part of a corpus; give --corpus FOLDER too, or leave it out."
        )
    queries = _asked(choice, settings)
    own = {str(path): read_scores(path, queries=queries) for path in paths.values()}
    truth = truth_of(own, judged or choice.relevance, systems.captions_per_clip)
    return _Job(truth.corpus, truth.corpus, settings, choice, correction, truth.relevance, truth.name, truth)


def _asked(choice: MeasureChoice, settings: EvaluationSettings) -> Direction | None:
    """The direction whose lists a run has, where one alone is asked for."""
    return settings.directions[0] if choice.direction and len(settings.directions) == 1 else None


def _compared(evaluations: Mapping[str, Evaluation], settings: EvaluationSettings) -> Comparison | None:
    from evenreel.evaluation import compare

    name, *others = evaluations
    if not others:
        return None
    with share_bar(f"comparing with {name}") as progress:
        return compare(evaluations[name], {one: evaluations[one] for one in others}, settings, progress=progress)


def _together(
    evaluations: Mapping[str, Evaluation], settings: EvaluationSettings, choice: MeasureChoice, files: EvaluationFiles
) -> SideBySide | None:
    """All systems in one table, if it is asked for."""
    from evenreel.evaluation.comparison import side_by_side

    if not (choice.side_by_side or choice.mean or files.side_by_side):
        return None
    with share_bar("testing the best of each column") as progress:
        return side_by_side(evaluations, settings, mean=choice.mean, progress=progress)


@dataclass(frozen=True, eq=False)
class _Job:
    """What is done to each file alike; `truth` stands for a corpus where there is none."""

    whole: Corpus
    part: Corpus
    settings: EvaluationSettings
    choice: MeasureChoice
    correction: Correction
    relevance: RelevanceName | Judgements
    named: str  # the relevance
    truth: Truth | None = None

    def evaluate(self, path: Path) -> Evaluation:
        """Figures of one file, with what was noticed while it was read."""
        from evenreel.evaluation.scores import served

        notices: list[str] = []
        scores = self._load(path, notices.append)
        directions = self.settings.directions if self.choice.direction else served(scores, notices.append)
        measured = self._figures if self.correction.rescore is None else self._corrected
        with share_bar(f"ranking {path.name}") as progress:
            found = measured(scores, directions, progress)
        return replace(found, notices=tuple(dict.fromkeys((*notices, *found.notices))))

    def scores_of(self, path: Path, direction: Direction) -> ScoreBlocks:
        """The scores of one file as they are ranked in one direction; corrected ones say where they serve it alone."""
        from evenreel.evaluation.rescoring import ALONE

        scores = self._load(path, lambda _: None)
        if self.correction.rescore is None:
            return scores
        corrected = self.correction.apply(scores, direction, [])
        if self.correction.method.serves_both and scores.about.complete:
            return corrected
        return replace(corrected, about=corrected.about.using(ALONE[direction]))

    def _load(self, path: Path, notice: Callable[[str], object]) -> ScoreBlocks:
        from evenreel.evaluation import load_scores
        from evenreel.evaluation.scores import read_scores

        queries, partial = _asked(self.choice, self.settings), self.settings.partial
        if self.truth:
            return self.truth.fitted(read_scores(path, queries=queries), str(path), notice, partial=partial)
        return load_scores(path, self.part, partial=partial, queries=queries, whole=self.whole, notice=notice)

    def _figures(self, scores: ScoreBlocks, directions: tuple[Direction, ...], progress: Progress) -> Evaluation:
        from evenreel.evaluation import evaluate as evaluate_scores

        settings = replace(self.settings, directions=directions)
        found = evaluate_scores(scores, self.part, settings, relevance=self.relevance, progress=progress)
        return replace(found, relevance=self.named)

    def _corrected(self, scores: ScoreBlocks, directions: tuple[Direction, ...], progress: Progress) -> Evaluation:
        """A correction is for one direction, so each is evaluated with its own."""
        from evenreel.evaluation.rescoring import dense

        scores = dense(scores)  # read once, for what is looked at and for each direction
        notices = self.correction.notices(scores, directions)
        found = []
        for one in self.correction.served(directions):
            corrected = self.correction.apply(scores, one, notices)
            found.append(self._figures(corrected, (one,), progress))
        merged = {one: result for part in found for one, result in part.directions.items()}
        said = (*notices, *(sentence for part in found for sentence in part.notices))
        return replace(found[0], directions=merged, notices=said)
