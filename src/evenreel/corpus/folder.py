"""A corpus on disk: a folder with `clips.parquet` and `captions.parquet`."""

from __future__ import annotations

import contextlib
import logging
from hashlib import sha256
from os import PathLike
from pathlib import Path

import polars as pl

from evenreel.config import as_path, check_corpus
from evenreel.corpus.tables import make_corpus
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
    from evenreel.corpus.formats.plain_tables import read_tables  # few corpora are one

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
