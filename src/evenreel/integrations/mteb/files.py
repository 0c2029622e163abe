"""Files that MTEB writes: predictions, which become scores, and results, which are figures alone."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from evenreel.errors import ScoresError
from evenreel.evaluation.metrics import Direction
from evenreel.evaluation.scores import ListedScores, read_document, read_predictions
from evenreel.types import Corpus


def load_predictions(
    path: str | Path, corpus: Corpus, split: str = "test", subset: str = "default", queries: Direction | None = None
) -> ListedScores:
    """Load predictions of MTEB (`TASK_predictions.json`) as scores, which `evenreel.evaluate` gives intervals.

    Args:
        path: file that `mteb.evaluate(prediction_folder=...)` wrote.
        corpus: corpus with the task's ids, such as `task_corpus` makes.
        split: split of the task.
        subset: subset of the task.
        queries: `t2v` where texts are the queries, `v2t` where videos are; needed where both have the same ids.

    Raises:
        ScoresError: the file is no such file, has no such part, or names ids that the corpus does not have.
    """
    return read_predictions(Path(path), corpus, split=split, subset=subset, queries=queries)


def read_results(path: str | Path) -> pl.DataFrame:
    """Read the figures of a result file of MTEB, as it prints them: a row a split, subset and metric.

    A result file has no figures of single queries, so there are no intervals; `load_predictions` gives them.

    Returns:
        Columns `task`, `split`, `subset`, `metric` and `value`.

    Raises:
        ScoresError: the file is no such file.
    """
    path = Path(path)
    document = read_document(path)
    if not isinstance(document.get("scores"), dict):
        raise ScoresError(f"{path} has no scores; give a result file of MTEB, TASK.json.")
    rows = [
        (str(document.get("task_name", path.stem)), split, str(part.get("hf_subset", "default")), metric, float(value))
        for split, parts in document["scores"].items()
        for part in parts
        for metric, value in part.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    names = ["task", "split", "subset", "metric"]
    return pl.DataFrame(rows, schema={**dict.fromkeys(names, pl.String), "value": pl.Float64}, orient="row")
