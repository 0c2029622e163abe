"""Retrieval tasks of MTEB as corpora, so that its predictions can be measured and compared here."""

from __future__ import annotations

from typing import Any

import polars as pl

from evenreel.corpus import make_corpus
from evenreel.corpus.relevance import OTHER_CLIPS
from evenreel.errors import UsageError
from evenreel.types import Corpus


def task_corpus(task: Any, split: str = "test", subset: str = "default") -> Corpus:
    """Make a corpus of a loaded retrieval task between texts and videos (or pictures): its ids are those of the task.

    Where a text answers several videos, these beside the first are in the captions' column `other_clips`.

    Args:
        task: retrieval task of MTEB, after `load_data`.
        split: split of the task.
        subset: subset of the task.

    Raises:
        UsageError: the task has no texts on one side alone, or is not loaded, or has no such part.
    """
    data = _part(task, split, subset)
    asked_in_words = "text" in data["queries"].column_names
    if asked_in_words == ("text" in data["corpus"].column_names):
        raise UsageError(
            f"{task.metadata.name} is no retrieval between texts and videos; one side alone must be texts."
        )
    texts, clips = (data["queries"], data["corpus"]) if asked_in_words else (data["corpus"], data["queries"])
    answers: dict[str, list[str]] = {}
    for query, items in data["relevant_docs"].items():
        for item in (item for item, degree in items.items() if degree > 0):
            text, clip = (query, item) if asked_in_words else (item, query)
            answers.setdefault(text, []).append(clip)
    rows = [
        (name, answers[name][0], text, answers[name][1:])
        for name, text in zip(texts["id"], texts["text"], strict=True)
        if name in answers
    ]
    columns = dict.fromkeys(["caption_id", "clip_id", "text"], pl.String) | {OTHER_CLIPS: pl.List(pl.String)}
    captions = pl.DataFrame(rows, schema=columns, orient="row")
    if not captions[OTHER_CLIPS].list.len().sum():
        captions = captions.drop(OTHER_CLIPS)
    return make_corpus(pl.DataFrame({"clip_id": list(clips["id"])}), captions)


def _part(task: Any, split: str, subset: str) -> Any:
    """What is loaded of a split and a subset."""
    if not task.data_loaded:
        raise UsageError(f"{task.metadata.name} is not loaded; call its load_data() first.")
    if split not in task.dataset.get(subset, {}):
        there = ", ".join(f"{one}/{each}" for one, splits in task.dataset.items() for each in splits)
        raise UsageError(f"{task.metadata.name} has no {subset}/{split}; it has: {there}.")
    return task.dataset[subset][split]
