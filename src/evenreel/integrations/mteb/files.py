"""Files that MTEB writes: predictions, which become scores, and results, which are figures alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from evenreel.errors import ScoresError
from evenreel.evaluation.listed import ListedScores, make_listed
from evenreel.types import Corpus

_HEAD = "mteb_model_meta"


def load_predictions(path: Path, corpus: Corpus, split: str = "test", subset: str = "default") -> ListedScores:
    """Load predictions of MTEB (`TASK_predictions.json`) as scores, which `evenreel.evaluate` gives intervals.

    Args:
        path: file that `mteb.evaluate(prediction_folder=...)` wrote.
        corpus: corpus with the task's ids, such as `task_corpus` makes.
        split: split of the task.
        subset: subset of the task.

    Raises:
        ScoresError: the file is no such file, has no such part, or names ids that the corpus does not have.
    """
    document = _read(path)
    parts = {(one, each) for one, splits in document.items() if one != _HEAD for each in splits}
    if (subset, split) not in parts:
        there = ", ".join(sorted(f"{one}/{each}" for one, each in parts)) or "none"
        raise ScoresError(f"{path} has no predictions of {subset}/{split}; it has: {there}.")
    rows = [
        (query, item, float(score)) for query, items in document[subset][split].items() for item, score in items.items()
    ]
    if not rows:
        raise ScoresError(f"{path} lists nothing for {subset}/{split}; run the task again.")
    listing = pl.DataFrame(rows, schema={"query": pl.String, "item": pl.String, "score": pl.Float64}, orient="row")
    return make_listed(listing.with_row_index("number", 1), corpus, lambda number: f"Pair {number} of {path}")


def read_results(path: Path) -> pl.DataFrame:
    """Read the figures of a result file of MTEB, as it prints them: a row a split, subset and metric.

    A result file has no figures of single queries, so there are no intervals; `load_predictions` gives them.

    Returns:
        Columns `task`, `split`, `subset`, `metric` and `value`.

    Raises:
        ScoresError: the file is no such file.
    """
    document = _read(path)
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


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ScoresError(f"{path} cannot be read as JSON ({error}); give a file that MTEB wrote.") from error
    if not isinstance(document, dict):
        raise ScoresError(f"{path} holds no table of names; give a file that MTEB wrote.")
    return document
