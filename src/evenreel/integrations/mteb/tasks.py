"""Retrieval tasks of MTEB as corpora, so that its predictions can be measured and compared here."""

from __future__ import annotations

from typing import Any

import polars as pl

from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.types import Corpus


def task_corpus(task: Any, split: str = "test", subset: str = "default") -> Corpus:
    """Make a corpus of a loaded retrieval task between texts and videos (or pictures): its ids are those of the task.

    Args:
        task: retrieval task of MTEB, after `load_data`.
        split: split of the task.
        subset: subset of the task.

    Raises:
        UsageError: the task has no texts on one side alone, or a text answers several videos.
    """
    data = task.dataset[subset][split]
    asked_in_words = "text" in data["queries"].column_names
    if asked_in_words == ("text" in data["corpus"].column_names):
        raise UsageError(
            f"{task.metadata.name} is no retrieval between texts and videos; one side alone must be texts."
        )
    texts, clips = (data["queries"], data["corpus"]) if asked_in_words else (data["corpus"], data["queries"])
    pairs = [
        (query, item) if asked_in_words else (item, query)
        for query, items in data["relevant_docs"].items()
        for item, degree in items.items()
        if degree > 0
    ]
    if len(dict(pairs)) < len(pairs):
        raise UsageError(
            f"A text of {task.metadata.name} belongs to several videos, and a caption here to one; give evaluate the "
            "degrees of relevance instead (relevance=)."
        )
    clip_of = dict(pairs)
    captions = [
        {"caption_id": name, "clip_id": clip_of[name], "text": text}
        for name, text in zip(texts["id"], texts["text"], strict=True)
        if name in clip_of
    ]
    return make_corpus(pl.DataFrame({"clip_id": list(clips["id"])}), pl.DataFrame(captions))
