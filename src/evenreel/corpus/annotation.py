"""Classes that were found in the words of a corpus, put into its tables; their names beside it in `classes.parquet`."""

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
    """Return a copy of a corpus with other verb and noun classes.

    Args:
        corpus: that the copy is made of.
        captions: verb and noun classes of each caption, in the order of its table.
        clips: verb and noun classes by clip id; a clip that is not named has none.
    """
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
    """Remove the names of an earlier corpus's classes, which number others than those of the one there now.

    Raises:
        CorpusError: the folder cannot be written.
    """
    try:
        (folder / CLASS_NAMES).unlink(missing_ok=True)
    except OSError as error:
        raise CorpusError(f"{folder / CLASS_NAMES} of an earlier corpus cannot be removed ({error}).") from error


def copy_class_names(origin: Path, folder: Path) -> None:
    """Copy the names of verb and noun classes from one corpus folder to another.

    Remove those there if the first has none.

    Raises:
        CorpusError: the folder cannot be written.
    """
    if not (origin / CLASS_NAMES).is_file():
        drop_class_names(folder)
        return
    try:
        write_durably(folder / CLASS_NAMES, (origin / CLASS_NAMES).read_bytes())
    except OSError as error:
        raise CorpusError(f"The names of the classes cannot be written to {folder} ({error}).") from error


def save_class_names(folder: Path, verbs: Sequence[str], nouns: Sequence[str], tagger: str) -> None:
    """Write the name of each class number and the tagger: columns `kind`, `number`, `name`, `tagger`.

    Raises:
        CorpusError: the folder cannot be written.
    """
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
