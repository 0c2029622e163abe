"""Predictions of MTEB (`TASK_predictions.json`): the best items of each query with their scores, as ranked lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from evenreel.errors import ScoresError
from evenreel.evaluation.listed import ListedScores, make_listed
from evenreel.evaluation.settings import Direction
from evenreel.types import Corpus

_HEAD = "mteb_model_meta"


def read_predictions(
    path: Path,
    corpus: Corpus | None,
    *,
    split: str | None = None,
    subset: str | None = None,
    partial: bool = False,
    queries: Direction | None = None,
) -> ListedScores:
    """Read predictions of MTEB as scores; pairs that are not listed score minus infinity."""
    document = read_document(path)
    if "scores" in document and "task_name" in document:
        raise ScoresError(
            f"{path} is a result file of MTEB, which holds figures alone; give the predictions that "
            "mteb.evaluate(prediction_folder=...) writes as TASK_predictions.json."
        )
    listed = _part(path, document, split, subset)
    rows = [(query, item, score) for query, items in listed.items() for item, score in _items(path, query, items)]
    listing = pl.DataFrame(rows, schema={"query": pl.String, "item": pl.String, "score": pl.Float64}, orient="row")
    return make_listed(
        listing.with_row_index("number", 1),
        corpus,
        lambda number: f"Pair {number} of {path}",
        partial=partial,
        queries=queries,
    )


def read_document(path: Path) -> dict[str, Any]:
    """Read a file of MTEB, which is a table of names in JSON."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ScoresError(f"{path} cannot be read as JSON ({error}); give a file that MTEB wrote.") from error
    if not isinstance(document, dict):
        raise ScoresError(f"{path} holds no table of names; give a file that MTEB wrote.")
    return document


def _part(path: Path, document: dict[str, Any], split: str | None, subset: str | None) -> dict[str, Any]:
    """The one part of a split and a subset: items by query."""
    parts = {
        f"{one}/{each}": listed
        for one, splits in document.items()
        if one != _HEAD and isinstance(splits, dict)
        for each, listed in splits.items()
        if isinstance(listed, dict)
    }
    there = ", ".join(sorted(parts)) or "none"
    fitting = [
        name for name in parts if subset in (None, name.rpartition("/")[0]) and split in (None, name.rpartition("/")[2])
    ]
    if not fitting:
        asked = f"{subset or 'any subset'}/{split or 'any split'}"
        raise ScoresError(f"{path} has no predictions of {asked}; it has: {there}.")
    if len(fitting) > 1:
        raise ScoresError(
            f"{path} has predictions of several parts ({there}); load one with "
            "evenreel.integrations.mteb.load_predictions(path, corpus, split, subset)."
        )
    found: dict[str, Any] = parts[fitting[0]]
    if not any(found.values()):
        raise ScoresError(f"{path} lists nothing for {fitting[0]}; run the task again.")
    return found


def _items(path: Path, query: str, items: Any) -> list[tuple[str, float]]:
    try:
        return [(item, float(score)) for item, score in items.items()]
    except (AttributeError, TypeError, ValueError) as error:
        raise ScoresError(
            f"{path} has no table of numbers for the query {query!r}; give predictions that MTEB wrote."
        ) from error
