"""A corpus on disk: a folder with `clips.parquet` and `captions.parquet`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from evenreel.corpus.tables import make_corpus
from evenreel.errors import CorpusError
from evenreel.types import Corpus

CLIPS, CAPTIONS = "clips.parquet", "captions.parquet"


def save_corpus(corpus: Corpus, folder: Path) -> None:
    """Write both tables; a reader sees the old ones or the new ones, each whole.

    Raises:
        CorpusError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table, name in ((corpus.clips, CLIPS), (corpus.captions, CAPTIONS)):
            table.write_parquet(folder / f".{name}.part")
        for name in (CLIPS, CAPTIONS):
            (folder / f".{name}.part").replace(folder / name)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The corpus cannot be written to {folder} ({error}).") from error


def load_corpus(folder: Path) -> Corpus:
    """Read and check both tables.

    Raises:
        CorpusError: there is no corpus in the folder, it cannot be read, or it breaks a rule.
    """
    for name in (CLIPS, CAPTIONS):
        if not (folder / name).is_file():
            raise CorpusError(
                f"There is no corpus in {folder}: {name} is missing; make one with `evenreel corpus import`."
            )
    try:
        clips, captions = (pl.read_parquet(folder / name) for name in (CLIPS, CAPTIONS))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The corpus in {folder} cannot be read ({error}); import it again.") from error
    try:
        return make_corpus(clips, captions)
    except CorpusError as error:
        raise CorpusError(f"The corpus in {folder} breaks its rules:\n{error}") from error
