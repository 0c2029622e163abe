"""Verb and noun classes found in the words of captions: put into a corpus's tables, named in `classes.parquet`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from evenreel.corpus.tables import CLASSES, make_corpus
from evenreel.errors import CorpusError
from evenreel.files import replacing, write_durably
from evenreel.types import Corpus

CLASS_NAMES = "classes.parquet"

Sets = Sequence[Sequence[int]]


def with_classes(
    corpus: Corpus, captions: tuple[Sets, Sets], clips: Mapping[str, tuple[Sequence[int], Sequence[int]]]
) -> Corpus:
    """Return a copy of a corpus with other verb and noun classes."""
    none: tuple[Sequence[int], Sequence[int]] = ([], [])
    of_clips = [clips.get(clip, none) for clip in corpus.clips["clip_id"]]
    return make_corpus(
        corpus.clips.with_columns(
            pl.Series(name, [classes[side] for classes in of_clips], dtype=CLASSES)
            for side, name in enumerate(("verb_classes", "noun_classes"))
        ),
        corpus.captions.with_columns(
            pl.Series(name, [list(one) for one in captions[side]], dtype=CLASSES)
            for side, name in enumerate(("verb_classes", "noun_classes"))
        ),
    )


def drop_class_names(folder: Path) -> None:
    """Delete `classes.parquet`, the names of verb and noun classes, from a corpus folder if it is there."""
    try:
        (folder / CLASS_NAMES).unlink(missing_ok=True)
    except OSError as error:
        raise CorpusError(f"{folder / CLASS_NAMES} of an earlier corpus cannot be removed ({error}).") from error


def copy_class_names(origin: Path, folder: Path) -> None:
    """Copy the names of verb and noun classes (`classes.parquet`) from one corpus folder to another.

    Where `origin` has none, those in `folder` are deleted.
    """
    if not (origin / CLASS_NAMES).is_file():
        drop_class_names(folder)
        return
    try:
        write_durably(folder / CLASS_NAMES, (origin / CLASS_NAMES).read_bytes())
    except OSError as error:
        raise CorpusError(f"The names of the classes cannot be written to {folder} ({error}).") from error


def save_class_names(folder: Path, verbs: Sequence[str], nouns: Sequence[str], tagger: str) -> None:
    """Write `classes.parquet`: the name of each verb and noun class and the tagger that found it."""
    rows = [
        (kind, number, name, tagger)
        for kind, names in (("verb", verbs), ("noun", nouns))
        for number, name in enumerate(names)
    ]
    table = pl.DataFrame(rows, schema=["kind", "number", "name", "tagger"], orient="row")
    try:
        with replacing(folder / CLASS_NAMES) as part:
            table.write_parquet(part)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The names of the classes cannot be written to {folder} ({error}).") from error
