"""`evenreel evaluate`: options in, evaluations and a comparison out; what is printed is in `show_evaluation`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from evenreel.errors import ScoresError, UsageError

if TYPE_CHECKING:
    from evenreel.evaluation import Evaluation, EvaluationSettings, RelevanceName
    from evenreel.evaluation.results import Direction, TextProtocol, Ties, VideoProtocol
    from evenreel.types import Corpus, ScoreBlocks

RESCORE_HELP = "Correct all scores first: dsl, dsl-double, inverted, csls; with --bank: qb-norm, nnn."
DEFAULT_WORDS = ["R@1", "R@5", "R@10", "MedR", "MeanR", "Rsum", "MRR"]


def evaluate(
    scores: Annotated[Path, typer.Argument(help="npy, npz, parquet or a TREC run.")],
    corpus: Annotated[Path, typer.Option(help="Folder of the corpus the scores are of.")],
    against: Annotated[
        list[Path] | None, typer.Option(help="Another system's scores, tested against SCORES; may be given again.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Part of the corpus the scores are of, such as test.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help=f"May be given again. [default: {' '.join(DEFAULT_WORDS)}]"),
    ] = None,
    direction: Annotated[list[str] | None, typer.Option(help="t2v or v2t. [default: both]")] = None,
    t2v_protocol: Annotated[str, typer.Option("--t2v-protocol", help="caption or video-mean.")] = "caption",
    v2t_protocol: Annotated[
        str, typer.Option("--v2t-protocol", help="best-caption, caption-group or every-caption.")
    ] = "best-caption",
    relevance: Annotated[str, typer.Option(help="clip, text, classes or classes-iou.")] = "clip",
    ties: Annotated[str, typer.Option(help="expected, optimistic or pessimistic.")] = "expected",
    rescore: Annotated[str | None, typer.Option(help=RESCORE_HELP)] = None,
    bank: Annotated[Path | None, typer.Option(help="Scores of other captions with the same clips, npz or npy.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Accept scores that leave captions or clips out.")] = False,
    resamples: Annotated[int, typer.Option(min=0, help="Bootstrap samples and arrangements; 0: no interval.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the samples.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Also write a page with figures to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Measure scores of any system: recall, ranks, nDCG, mAP with intervals, and paired tests against others."""
    from evenreel.cli.show_evaluation import show_evaluation
    from evenreel.corpus import load_corpus, select
    from evenreel.evaluation import EvaluationSettings, parse_metrics
    from evenreel.evaluation.comparison import compare

    if bank and (against or not rescore):
        raise UsageError(
            "A bank belongs to one system and one correction: use --bank with --rescore, without --against."
        )
    settings = EvaluationSettings(
        metrics=parse_metrics(metric or DEFAULT_WORDS),
        directions=cast("tuple[Direction, ...]", tuple(dict.fromkeys(direction or ("t2v", "v2t")))),
        t2v_protocol=cast("TextProtocol", t2v_protocol),
        v2t_protocol=cast("VideoProtocol", v2t_protocol),
        ties=cast("Ties", ties),
        resamples=resamples,
        seed=seed,
        partial=partial,
    )
    whole = load_corpus(corpus)
    part = whole if split is None else select(whole, split=split)
    job = _Job(part, settings, relevance, rescore, bank, asked=bool(direction))
    evaluations = {name: job.evaluate(path) for name, path in _names([scores, *(against or [])]).items()}
    name, *others = evaluations
    comparison = compare(evaluations[name], {one: evaluations[one] for one in others}, settings) if others else None
    if html:
        from evenreel.report import evaluation_page, write_page

        write_page(evaluation_page(evaluations, part, comparison, settings), html)
    show_evaluation(evaluations, comparison, as_json)


def _names(paths: Sequence[Path]) -> dict[str, Path]:
    """The files by their names, or by their whole paths where two have one name."""
    short = [path.name for path in paths]
    long = [str(path) for path in paths]
    if len(set(long)) < len(long):
        raise UsageError(f"{max(long, key=long.count)} is named twice; compare different files.")
    return dict(zip(short if len(set(short)) == len(short) else long, paths, strict=True))


class _Job:
    """What is done to each file alike."""

    def __init__(
        self,
        corpus: Corpus,
        settings: EvaluationSettings,
        relevance: str,
        rescoring: str | None,
        bank: Path | None,
        *,
        asked: bool,
    ) -> None:
        self._corpus, self._settings, self._relevance = corpus, settings, relevance
        self._rescoring, self._bank, self._asked = rescoring, bank, asked

    def evaluate(self, path: Path) -> Evaluation:
        """Figures of one file, with what was noticed while it was read."""
        from evenreel.cli.waiting import share_bar
        from evenreel.evaluation.scores import load_scores

        notices: list[str] = []
        scores = load_scores(path, self._corpus, partial=self._settings.partial, notice=notices.append)
        directions = self._directions(scores, path, notices)
        with share_bar(f"ranking {path.name}") as progress:
            if self._rescoring is None:
                found = self._figures(scores, directions, progress)
            else:
                found = self._corrected(scores, directions, self._rescoring, progress)
        return replace(found, notices=(*notices, *found.notices))

    def _directions(self, scores: ScoreBlocks, path: Path, notices: list[str]) -> tuple[Direction, ...]:
        """Those that were asked for; without being asked, lists with gaps serve only the side that they belong to."""
        from evenreel.evaluation.listed import ListedScores

        if self._asked or not isinstance(scores, ListedScores) or scores.complete:
            return self._settings.directions
        other = "v2t" if scores.queries == "t2v" else "t2v"
        notices.append(f"{path} has lists for {scores.queries} only, so {other} is left out; --direction asks for it.")
        return (scores.queries,)

    def _figures(
        self, scores: ScoreBlocks, directions: tuple[Direction, ...], progress: Callable[[float], None]
    ) -> Evaluation:
        from evenreel.evaluation import evaluate as evaluate_scores

        settings = replace(self._settings, directions=directions)
        relevance = cast("RelevanceName", self._relevance)  # it says which there are, of a word it does not know
        return evaluate_scores(scores, self._corpus, settings, relevance=relevance, progress=progress)

    def _corrected(
        self, scores: ScoreBlocks, directions: tuple[Direction, ...], word: str, progress: Callable[[float], None]
    ) -> Evaluation:
        """A correction is for one direction, so each is evaluated with its own."""
        from evenreel.evaluation.rescoring import RESCORINGS, rescore

        method = RESCORINGS.get(word)
        # A bank is one of captions, so what needs it corrects their searches alone.
        served = ("t2v",) if method and method.needs_bank and not self._asked else directions
        found = []
        for one in served:
            corrected = rescore(word, scores, one, self._bank_values(scores, one))
            found.append(self._figures(corrected, (one,), progress))
        notices = [f"The scores are corrected by {RESCORINGS[word].name}."]
        if left := [one for one in directions if one not in served]:
            notices.append(f"{RESCORINGS[word].name} is given a bank of captions, so {left[0]} is left out.")
        merged = {one: result for part in found for one, result in part.directions.items()}
        said = dict.fromkeys((*notices, *(sentence for part in found for sentence in part.notices)))
        return replace(found[0], directions=merged, notices=tuple(said))

    def _bank_values(self, scores: ScoreBlocks, direction: Direction) -> Any:
        if self._bank is None:
            return None
        from evenreel.evaluation.bank import load_bank

        if direction != "t2v":
            raise ScoresError(f"{self._bank} is a bank of captions, which serves t2v; leave --direction v2t out.")
        return load_bank(self._bank, scores.video_ids)
