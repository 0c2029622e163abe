"""`evenreel evaluate`: options in, evaluations, a comparison and files out; what is printed is in `show`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli.options import MOST, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.errors import OutputError, UsageError
from evenreel.progress import Progress
from evenreel.provenance import provenance_of

if TYPE_CHECKING:
    from evenreel.evaluation import Evaluation, RelevanceLike, RelevanceName
    from evenreel.evaluation.measure import Judgements, Truth
    from evenreel.evaluation.metrics import Direction, EvaluationSettings, RescoringSettings
    from evenreel.evaluation.rescoring import Bank, Rescoring
    from evenreel.types import Corpus, ScoreBlocks, Scores


@dataclass(frozen=True)
class EvaluationFiles:
    """Files that `evenreel evaluate` writes; None for one that is not asked for.

    Attributes:
        html: also write a page with figures to this file.
        per_query: also write a row a query, csv or parquet.
        save_run: also write the best 1,000 of the first SCORES as a TREC run, of the first direction.
        save_qrels: also write what is relevant as TREC judgements; degrees of relevance become grades of 0 to 100.
        save_scores: also write the corrected scores of the first SCORES, of the first direction (.npz): for --rescore.
        latex: also write all systems side by side, as a table of LaTeX.
        markdown: also write all systems side by side, as a table of Markdown.
        csv: also write all systems side by side, a row a system, direction and metric (.csv or .parquet).
        eval_results: also write the figures of the first SCORES as a file for `.eval_results/` of a model on the hub
            (.yaml).
        model_card: also write the figures of the first SCORES for a model card (.md): its `model-index` and a table.
        dataset_id: id on the hub of the dataset that was measured, owner/name; for the last two.
    """

    html: Path | None = None
    per_query: Path | None = None
    save_run: Path | None = None
    save_qrels: Path | None = None
    save_scores: Path | None = None
    latex: Path | None = None
    markdown: Path | None = None
    csv: Path | None = None
    eval_results: Path | None = None
    model_card: Path | None = None
    dataset_id: str = ""

    @property
    def all(self) -> list[Path]:
        return [path for path in vars(self).values() if isinstance(path, Path)]

    @property
    def side_by_side(self) -> bool:
        return bool(self.latex or self.markdown or self.csv)

    def check(self, read: Iterable[Path]) -> None:
        """Check that every file can be written, before hours are spent on what belongs in it."""
        from evenreel.report.evaluation import HubDataset

        for_hub = self.eval_results or self.model_card
        if for_hub and not self.dataset_id:
            raise UsageError(f"{for_hub} says which dataset was measured; name it with --dataset-id owner/name.")
        if self.dataset_id and not for_hub:
            raise UsageError(
                "--dataset-id belongs to --eval-results or --model-card; name one of them, or leave it out."
            )
        if self.dataset_id:
            HubDataset(self.dataset_id)
        asked = self.all
        places, taken = [path.resolve() for path in asked], {path.resolve() for path in read}
        if len(set(places)) < len(places):
            raise UsageError("Two of the files to write are one; give each a name of its own.")
        for path, place in zip(asked, places, strict=True):
            if place in taken:
                raise UsageError(f"{path} is one of the files to read; give what is written another name.")
        for option, rows in (("--per-query", self.per_query), ("--csv", self.csv)):
            if rows and rows.suffix.lower() not in (".csv", ".parquet"):
                raise UsageError(f"{rows} ends neither in .csv nor in .parquet; {option} writes those two.")
        if self.save_scores and self.save_scores.suffix != ".npz":
            raise UsageError(f"{self.save_scores} does not end in .npz, which says what the scores use; name it so.")
        for path in asked:
            check_place(path)


def system_names(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the files of scores by their names, or by their whole paths where two have one name."""
    short = [path.name for path in paths]
    long = [str(path) for path in paths]
    if len(set(long)) < len(long):
        raise UsageError(f"{max(long, key=long.count)} is named twice; compare different files.")
    return dict(zip(short if len(set(short)) == len(short) else long, paths, strict=True))


def check_place(path: Path) -> None:
    """Check that a file can be written; folders that it lies in are made."""
    why = "it is a folder" if path.is_dir() else ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
    if why:
        raise OutputError(f"{path} cannot be written ({why}); choose another place.")


def write_for_hub(files: EvaluationFiles, path: Path, evaluation: Evaluation, split: str | None) -> None:
    from evenreel.files import output_file
    from evenreel.report.evaluation import HubDataset, eval_results, model_card

    if not files.dataset_id:
        return
    dataset = HubDataset(files.dataset_id, split or "")
    name_and_card = partial(model_card, path.stem)
    for target, text in ((files.eval_results, eval_results), (files.model_card, name_and_card)):
        if target:
            with output_file(target) as part:
                part.write_text(text(evaluation, dataset), encoding="utf-8")


def write_ranked(
    files: EvaluationFiles, scores: ScoreBlocks, corpus: Corpus, relevance: RelevanceLike, direction: Direction
) -> None:
    from evenreel.evaluation import save_scores
    from evenreel.evaluation.measure import relevance_of
    from evenreel.evaluation.ranking import CheckedScores
    from evenreel.evaluation.saving import write_qrels, write_run

    if files.save_run:
        write_run(scores, files.save_run, direction=direction)
    if files.save_scores:
        save_scores(scores, files.save_scores)
    if files.save_qrels:
        judged = relevance_of(relevance, corpus, CheckedScores(scores))
        write_qrels(judged, scores.caption_ids, scores.video_ids, files.save_qrels, direction=direction)


def _rescoring() -> RescoringSettings:
    from evenreel.evaluation.metrics import RescoringSettings  # a --help reads no settings of others

    return RescoringSettings()


@dataclass(frozen=True)
class Correction:
    """A correction of all scores before they are measured.

    Attributes:
        rescore: correct all scores first: `dsl`, `dsl-double`, `inverted`, `csls`, `sinkhorn`, `hub-memory`; with a
            bank: `qb-norm`, `nnn`, `sinkhorn-bank`, `dbsn`.
        bank: scores of other captions with the same clips, npz or npy: corrects what captions find.
        video_bank: scores of the same captions with other clips, npz or npy: corrects what videos find.
        bank_pairs: scores of other captions with other clips, those of the banks, npz or npy: for `dbsn`.
        settings: settings of the correction.
    """

    rescore: str | None = None
    bank: Path | None = None
    video_bank: Path | None = None
    bank_pairs: Path | None = None
    settings: RescoringSettings = field(default_factory=_rescoring)

    @property
    def banks(self) -> list[Path]:
        return [path for path in (self.bank, self.video_bank, self.bank_pairs) if path]

    @property
    def given(self) -> bool:
        return bool(self.rescore or self.banks or self.settings.given)

    @property
    def method(self) -> Rescoring:
        from evenreel.evaluation.rescoring import RESCORINGS

        if self.rescore not in RESCORINGS:
            raise UsageError(f"{self.rescore!r} is no re-scoring; there are: {', '.join(RESCORINGS)}.")
        return RESCORINGS[self.rescore]

    def check(self, directions: Sequence[str], *, alone: bool) -> None:
        """Check that there is such a correction with such settings, and banks if and only if it uses some."""
        from evenreel.evaluation.scores import check_file

        if self.banks and not (self.rescore and alone):
            raise UsageError(
                "A bank belongs to one system and one correction: use --bank with --rescore, without --against."
            )
        if self.rescore is None:
            if given := list(self.settings.given):
                raise UsageError(f"--{given[0]} is a setting of a correction; name the correction with --rescore.")
            return
        method, of_captions, of_clips = self.method, self.bank, self.video_bank
        method.chosen(self.settings)
        for wrong, sentence in (
            (
                method.needs_bank and not (of_captions or of_clips),
                "{name} needs a bank; name the scores of other captions with --bank, or of other clips with "
                "--video-bank",
            ),
            (self.banks and not method.needs_bank, "{name} takes no bank; leave --bank out"),
            (
                method.needs_pairs and not self.bank_pairs,
                "{name} needs a second bank; name the scores of other captions with other clips with --bank-pairs",
            ),
            (self.bank_pairs and not method.needs_pairs, "{name} uses one bank alone; leave --bank-pairs out"),
            (
                of_captions and not of_clips and "v2t" in directions,
                "{bank} is a bank of captions, which serves t2v; name one of clips with --video-bank, or leave "
                "--direction v2t out",
            ),
            (
                of_clips and not of_captions and "t2v" in directions,
                "{videos} is a bank of clips, which serves v2t; name one of captions with --bank, or leave "
                "--direction t2v out",
            ),
        ):
            if wrong:
                raise UsageError(sentence.format(name=method.name, bank=of_captions, videos=of_clips) + ".")
        for path in self.banks:
            check_file(path)

    def served(self, directions: Sequence[Direction]) -> tuple[Direction, ...]:
        """Return those of the directions that it corrects with the banks that are given."""
        banks = {"t2v": self.bank, "v2t": self.video_bank}
        if found := tuple(one for one in directions if banks[one] or not self.method.needs_bank):
            return found
        raise UsageError(
            f"The scores serve {directions[0]} alone, and the bank that is given serves the other direction; name "
            f"one with {'--bank' if directions[0] == 't2v' else '--video-bank'}."
        )

    def notices(self, scores: ScoreBlocks, directions: Sequence[Direction]) -> list[str]:
        """List what has to be said of the figures of corrected scores: the correction, and what it is not made for."""
        said = [f"The scores are corrected by {self.method.described(self.settings)}."]
        if left := set(directions) - set(self.served(directions)):
            one = left.pop()
            bank = "captions" if one == "v2t" else "clips"
            said.append(f"{self.method.name} is given a bank of {bank}, so {one} is left out.")
        return said + ([sentence] if (sentence := self.method.unsuited(scores, self.settings)) else [])

    def apply(self, scores: ScoreBlocks, direction: Direction, notices: list[str]) -> Scores:
        """Correct the scores for one direction; what is noticed about the banks is added to `notices`."""
        from evenreel.evaluation.rescoring import load_bank, rescore

        assert self.rescore is not None
        path, bank = self.bank if direction == "t2v" else self.video_bank, None
        if path is not None:
            of_captions = direction == "t2v"
            if path.suffix.lower() == ".npy":
                line, what = ("column", "clip") if of_captions else ("row", "caption")
                notices.append(
                    f"{path} names no ids: its {line}s are taken for the {what}s in the order of the scores' {line}s."
                )
            bank = load_bank(path, scores.video_ids) if of_captions else load_bank(path, None, scores.caption_ids)
            asked, what = (scores.caption_ids, "caption") if of_captions else (scores.video_ids, "clip")
            notices += filter(None, [bank.notice(asked, what)])
        pairs = self._pairs(bank, scores, direction, notices) if bank and self.bank_pairs else None
        values, of_pairs = (None if one is None else one.values for one in (bank, pairs))
        return rescore(self.rescore, scores, direction, values, of_pairs, self.settings)

    def _pairs(self, bank: Bank, scores: ScoreBlocks, direction: Direction, notices: list[str]) -> Bank:
        from evenreel.evaluation.rescoring import load_bank

        path = self.bank_pairs
        assert path is not None
        line, ids = ("row", bank.caption_ids) if direction == "t2v" else ("column", bank.video_ids)
        pairs = load_bank(path, caption_ids=ids) if direction == "t2v" else load_bank(path, video_ids=ids)
        if ids is None or path.suffix.lower() == ".npy":
            notices.append(f"The {line}s of {path} are taken for those of the bank, in their order: one names no ids.")
        items, gallery, what = (
            (pairs.video_ids, scores.video_ids, "clip")
            if direction == "t2v"
            else (pairs.caption_ids, scores.caption_ids, "caption")
        )
        if own := set(items or ()).intersection(gallery):
            notices.append(
                f"{path} has scores of {len(own):,} {what}s of the gallery, {min(own)!r} for example, which then count "
                f"twice; give a bank of other {what}s."
            )
        return pairs


TRAIN = "train"


def _measure_moments(
    systems: ScoredSystems,
    choice: MeasureChoice,
    correction: Correction,
    settings: EvaluationSettings,
    files: EvaluationFiles,
    as_json: bool,
) -> None:
    """Measure predicted windows of systems, and beside them two guesses that look at no video, by windows alone.

    The guesses learn from the training split, where it has windows and is not measured itself. Where systems searched
    all clips, what each finds by naming whole clips stands in place of the guesses.
    """
    from evenreel.cli.evaluate.show import show_moments, write_moments
    from evenreel.corpus import load_corpus, select
    from evenreel.evaluation.metrics import EvaluationSettings
    from evenreel.evaluation.moments import (
        MomentSettings,
        blind_predictions,
        clips_alone,
        compare_moments,
        evaluate_moments,
        has_windows,
        load_predictions,
        moment_truth,
        parse_moment_metric,
    )

    if systems.corpus is None:
        raise UsageError("--moments needs the true windows of a corpus; name it with --corpus FOLDER.")
    plain = MeasureChoice(moments=True, metric=choice.metric)
    usual = EvaluationSettings(partial=settings.partial, confidence=settings.confidence)
    others = replace(files, per_query=None) != EvaluationFiles() or systems.qrels is not None or correction.given
    if others or choice != plain or settings != usual:
        raise UsageError(
            "--moments measures windows in time: beside it there are --corpus, --split, --against, --metric, "
            "--partial, --confidence, --per-query and --json."
        )
    files.check(systems.files)
    whole = load_corpus(systems.corpus)
    truth = moment_truth(whole if systems.split is None else select(whole, split=systems.split))
    predicted = {name: load_predictions(path) for name, path in system_names(systems.files).items()}
    asked = MomentSettings(choice.metric, partial=settings.partial, confidence=settings.confidence)
    found = {name: evaluate_moments(one, truth, asked) for name, one in predicted.items()}
    compared = compare_moments(found, settings.confidence)
    words = tuple(word for word in next(iter(found.values())).summary if not parse_moment_metric(word).of_highlights)
    if words:
        searched = {name: one for name, one in predicted.items() if one.clips}
        guesses = {f"{name}, the whole of its clips": clips_alone(one, truth) for name, one in searched.items()}
        if not guesses:
            train = select(whole, split=TRAIN) if TRAIN in whole.clips["split"] else None
            learned = train is not None and systems.split not in (None, TRAIN) and has_windows(train)
            guesses = blind_predictions(truth, moment_truth(cast("Corpus", train)) if learned else None)
        own = replace(asked, metrics=words)
        found |= {name: replace(evaluate_moments(one, truth, own), notices=()) for name, one in guesses.items()}
    made = provenance_of({"scores": systems.files, "corpus": systems.corpus}) if as_json else None
    show_moments(found, compared, made)
    if files.per_query:
        write_moments(files.per_query, found)


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
        Correction, settings=from_settings("evenreel.evaluation.metrics:RescoringSettings", panel=TUNING)
    ),
    settings: EvaluationSettings = from_settings(
        "evenreel.evaluation:EvaluationSettings", leave_out=("metrics", "directions", "band_bytes", "threads")
    ),
    files: EvaluationFiles = from_settings(EvaluationFiles),
    as_json: JsonOption = False,
) -> None:
    """Measure scores of any system: recall, ranks, nDCG, mAP with intervals, and paired tests against others."""
    from evenreel.cli.evaluate.show import show_evaluation, write_per_query, write_side_by_side
    from evenreel.evaluation.comparison import compare, side_by_side
    from evenreel.report import evaluation_page, write_page

    if choice.moments:
        _measure_moments(systems, choice, correction, settings, files, as_json)
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
    comparison = together = None
    name, first = next(iter(evaluations.items()))
    if len(evaluations) > 1:
        with share_bar(f"comparing with {name}") as progress:
            rest = {one: found for one, found in evaluations.items() if one != name}
            comparison = compare(first, rest, settings, progress=progress)
    if choice.side_by_side or choice.mean or files.side_by_side:
        with share_bar("testing the best of each column") as progress:
            together = side_by_side(evaluations, settings, mean=choice.mean, progress=progress)
    inputs = {
        "scores": [*paths.values()], "bank": correction.banks, "corpus": systems.corpus, "qrels": systems.qrels
    }  # fmt: skip
    made = provenance_of(inputs) if as_json or files.html else None
    show_evaluation(evaluations, comparison, as_json, made, together)
    if files.html:
        write_page(evaluation_page(evaluations, job.part, comparison, settings, together), files.html, made)
        if not as_json:
            typer.echo(f"The page with figures: {files.html}")
    if together:
        write_side_by_side(together, files.latex, files.markdown, files.csv)
    write_for_hub(files, systems.files[0], first, systems.split)
    if files.per_query:
        write_per_query(files.per_query, evaluations)
    if files.save_run or files.save_qrels or files.save_scores:
        direction = next(iter(first.directions))
        write_ranked(files, job.scores_of(systems.files[0], direction), job.part, job.relevance, direction)


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
    from evenreel.evaluation.measure import QRELS, read_qrels, truth_of
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
