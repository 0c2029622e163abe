"""Files of `evenreel evaluate`: the scores by name, the page, every query's columns, a run, judgements, scores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import OutputError, UsageError

if TYPE_CHECKING:
    import polars as pl

    from evenreel.evaluation import Evaluation, RelevanceLike
    from evenreel.evaluation.settings import Direction
    from evenreel.types import Corpus, ScoreBlocks


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
        """Files that are asked for."""
        return [path for path in vars(self).values() if isinstance(path, Path)]

    @property
    def side_by_side(self) -> bool:
        """Whether a file has all systems side by side."""
        return bool(self.latex or self.markdown or self.csv)

    def check(self, read: Iterable[Path]) -> None:
        """Check that every file can be written, before hours are spent on what belongs in it."""
        self._check_hub()
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

    def _check_hub(self) -> None:
        from evenreel.report.hub import HubDataset

        for_hub = self.eval_results or self.model_card
        if for_hub and not self.dataset_id:
            raise UsageError(f"{for_hub} says which dataset was measured; name it with --dataset-id owner/name.")
        if self.dataset_id and not for_hub:
            raise UsageError(
                "--dataset-id belongs to --eval-results or --model-card; name one of them, or leave it out."
            )
        if self.dataset_id:
            HubDataset(self.dataset_id)


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
    """Write the figures of one system for the hub, each form where `files` says so."""
    from evenreel.files import output_file
    from evenreel.report.hub import HubDataset, eval_results, model_card

    if not files.dataset_id:
        return
    dataset = HubDataset(files.dataset_id, split or "")
    if files.eval_results:
        with output_file(files.eval_results) as part:
            part.write_text(eval_results(evaluation, dataset), encoding="utf-8")
    if files.model_card:
        with output_file(files.model_card) as part:
            part.write_text(model_card(path.stem, evaluation, dataset), encoding="utf-8")


def write_per_query(path: Path, evaluations: Mapping[str, Evaluation]) -> None:
    """Write a table with a row for each system, direction and query: the columns that figures are calculated from."""
    import polars as pl

    tables = [
        pl.DataFrame({"query_id": list(result.query_ids), **result.per_query}).select(
            pl.lit(system).alias("system"), pl.lit(direction).alias("direction"), pl.all()
        )
        for system, evaluation in evaluations.items()
        for direction, result in evaluation.directions.items()
    ]
    write_rows(path, pl.concat(tables), ("system", "query_id"))


def write_rows(path: Path, table: pl.DataFrame, names: Sequence[str]) -> None:
    """Write a table as csv or parquet."""
    import polars as pl

    from evenreel.corpus.tables import as_cell
    from evenreel.files import output_file

    with output_file(path) as part:
        if path.suffix.lower() == ".csv":
            table.with_columns(pl.col(*names).map_elements(as_cell, pl.String)).write_csv(part)
        else:
            table.write_parquet(part)


def write_ranked(
    files: EvaluationFiles, scores: ScoreBlocks, corpus: Corpus, relevance: RelevanceLike, direction: Direction
) -> None:
    """Write scores of one direction, as a TREC run or whole, and what is relevant in it, each where `files` says so."""
    from evenreel.evaluation import save_scores
    from evenreel.evaluation.answers import relevance_of
    from evenreel.evaluation.blocks import CheckedScores
    from evenreel.evaluation.trec import write_qrels, write_run

    if files.save_run:
        write_run(scores, files.save_run, direction=direction)
    if files.save_scores:
        save_scores(scores, files.save_scores)
    if files.save_qrels:
        judged = relevance_of(relevance, corpus, CheckedScores(scores))
        write_qrels(judged, scores.caption_ids, scores.video_ids, files.save_qrels, direction=direction)
