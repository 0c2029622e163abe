"""Corpora in folders, and what is taken for a corpus: the record, a path, or tables of any library."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import polars as pl

from evenreel.config import as_path, check_corpus
from evenreel.corpus.tables import TableLike, as_dataframe, make_corpus
from evenreel.errors import CorpusError
from evenreel.files import make_folder, sync_file, sync_folder
from evenreel.parquet_files import read_table
from evenreel.types import Corpus

CLIPS, CAPTIONS = "clips.parquet", "captions.parquet"
_CLIPS_DIGEST = "evenreel.clips_sha256"
_logger = logging.getLogger(__name__)


def save_corpus(corpus: Corpus, folder: str | PathLike[str]) -> None:
    """Write a corpus to a folder, `clips.parquet` and `captions.parquet`, each whole or not at all.

    The captions carry the digest of their clips. If a crash replaces only the clips, `load_corpus` still finds the
    captions that go with them.

    Raises:
        CorpusError: the folder cannot be written.
        UsageError: an argument is of the wrong kind.
    """
    check_corpus(corpus)
    folder = as_path(folder, "folder")
    try:
        make_folder(folder)
        _finish_save(folder)
        clips, captions = (_part(folder, name) for name in (CLIPS, CAPTIONS))
        corpus.clips.write_parquet(clips)
        corpus.captions.write_parquet(captions, metadata={_CLIPS_DIGEST: _digest(clips)})
        for part in (clips, captions):
            sync_file(part)
        for name in (CLIPS, CAPTIONS):
            _part(folder, name).replace(folder / name)
            sync_folder(folder)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The corpus cannot be written to {folder} ({error}).") from error


def load_corpus(folder: str | PathLike[str]) -> Corpus:
    """Load a corpus from a folder, or from a single table of captions; check its clips and captions.

    Args:
        folder: folder that `save_corpus` or `evenreel corpus import` wrote; or a csv, tsv, json, jsonl or parquet file
            with a row a caption, see `evenreel.corpus.formats.plain_tables`, whose notices are logged.

    Raises:
        CorpusError: there is no corpus in the folder, it cannot be read, or it breaks a rule of `make_corpus`.
        UsageError: `folder` is no path.
    """
    folder = as_path(folder, "folder")
    if folder.is_file():
        return _of_table(folder)
    for name in (CLIPS, CAPTIONS):
        if not (folder / name).is_file() and not (name == CAPTIONS and _part(folder, name).is_file()):
            raise CorpusError(
                f"There is no corpus in {folder}: {name} is missing; make one with `evenreel corpus import`."
            )
    try:
        path = _captions_of_clips(folder)
        if path is None:
            raise CorpusError(
                f"The corpus in {folder} is half of one save and half of another ({CAPTIONS} is of other clips than "
                f"{CLIPS}); import it again."
            )
        clips, captions = read_table(folder / CLIPS), read_table(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The corpus in {folder} cannot be read ({error}); import it again.") from error
    try:
        return make_corpus(clips, captions)
    except CorpusError as error:
        raise CorpusError(f"The corpus in {folder} breaks its rules:", *error.args) from error


def _of_table(path: Path) -> Corpus:
    from evenreel.corpus.formats.plain_tables import read_tables

    read = read_tables([path])
    for one in read.notices:
        _logger.warning("%s: %s", path, one.sentence)
    return read.corpus


def _captions_of_clips(folder: Path) -> Path | None:
    """The captions that were saved with the clips; tables of another program carry no digest and are believed."""
    digest = _digest(folder / CLIPS)
    place, part = folder / CAPTIONS, _part(folder, CAPTIONS)
    if place.is_file() and pl.read_parquet_metadata(place).get(_CLIPS_DIGEST) in (None, digest):
        return place
    return part if part.is_file() and pl.read_parquet_metadata(part).get(_CLIPS_DIGEST) == digest else None


def _finish_save(folder: Path) -> None:
    """Put captions that a crash left under their first name in place, before a new save writes over them."""
    with contextlib.suppress(FileNotFoundError, pl.exceptions.PolarsError):  # no corpus yet, or none worth keeping
        if _captions_of_clips(folder) == _part(folder, CAPTIONS):
            _part(folder, CAPTIONS).replace(folder / CAPTIONS)


def _part(folder: Path, name: str) -> Path:
    return folder / f".{name}.part"


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


# What is taken for a corpus: the record, a path, or tables of any library.

CorpusLike: TypeAlias = "Corpus | str | os.PathLike[str] | TableLike | Mapping[str, TableLike]"
"""What is taken for a corpus: a `Corpus`; the path of one, or of a table of captions; a table (`TableLike`) with a
row a caption, such as a DataFrame of pandas; or the two tables of one, `{"clips": clips, "captions": captions}`."""

HOW_CORPUS = "give a Corpus, the path of one, or a table of captions with the columns clip_id and text"
_TABLES = {"clips", "captions"}


def as_corpus(given: CorpusLike, name: str = "corpus", notice: Callable[[str], object] | None = None) -> Corpus:
    """Convert what stands for a corpus to a `Corpus`; a `Corpus` stays what it is.

    A table of captions has a column `clip_id` and a column `text`, or others by the names that `evenreel corpus import
    table` knows, and perhaps `caption_id`; without it captions are called `CLIP#0`, `CLIP#1` and so on. Clips and
    captions keep the order in which the table names them.

    Args:
        given: a corpus, a path, or tables; see `CorpusLike`.
        name: name of the argument, for messages.
        notice: called with sentences on what was read; None to log them.

    Raises:
        UsageError: it is nothing of these.
        CorpusError: it breaks a rule of `make_corpus`, or cannot be read.

    >>> corpus = as_corpus({"clip_id": ["a", "b"], "text": ["a ball rolls", "a box"]})
    >>> corpus.captions["caption_id"].to_list()
    ['a#0', 'b#0']
    """
    if isinstance(given, Corpus):
        return given
    if isinstance(given, (str, os.PathLike)):
        return load_corpus(given)
    if isinstance(given, Mapping) and "captions" in given and set(given) <= _TABLES:
        tables = {part: as_dataframe(table, f"{name}[{part!r}]", "give a table") for part, table in given.items()}
        if "clips" in tables:
            return make_corpus(tables["clips"], tables["captions"])
        captions = tables["captions"]
    else:
        captions = as_dataframe(given, name, HOW_CORPUS)
    from evenreel.corpus.formats.plain_tables import from_captions

    read = from_captions({name: captions})
    for one in read.notices:
        (notice or (lambda sentence: _logger.warning("%s: %s", name, sentence)))(one.sentence)
    return read.corpus
