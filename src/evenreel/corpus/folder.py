"""A corpus on disk: a folder with `clips.parquet` and `captions.parquet`."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import polars as pl

from evenreel.corpus.tables import make_corpus
from evenreel.errors import CorpusError
from evenreel.types import Corpus

CLIPS, CAPTIONS = "clips.parquet", "captions.parquet"
_CLIPS_DIGEST = "evenreel.clips_sha256"


def save_corpus(corpus: Corpus, folder: str | Path) -> None:
    """Write both tables, each whole or not at all.

    The captions carry the digest of their clips, so that new clips with old captions, which a crash between the two
    leaves, are not taken for a corpus.

    Raises:
        CorpusError: the folder cannot be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        clips, captions = (folder / f".{name}.part" for name in (CLIPS, CAPTIONS))
        corpus.clips.write_parquet(clips)
        corpus.captions.write_parquet(captions, metadata={_CLIPS_DIGEST: _digest(clips)})
        for name in (CLIPS, CAPTIONS):
            (folder / f".{name}.part").replace(folder / name)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The corpus cannot be written to {folder} ({error}).") from error


def load_corpus(folder: str | Path) -> Corpus:
    """Read and check both tables.

    Raises:
        CorpusError: there is no corpus in the folder, it cannot be read, or it breaks a rule.
    """
    folder = Path(folder)
    for name in (CLIPS, CAPTIONS):
        if not (folder / name).is_file():
            raise CorpusError(
                f"There is no corpus in {folder}: {name} is missing; make one with `evenreel corpus import`."
            )
    try:
        clips, captions = (pl.read_parquet(folder / name) for name in (CLIPS, CAPTIONS))
        of_one_save = pl.read_parquet_metadata(folder / CAPTIONS).get(_CLIPS_DIGEST) in (None, _digest(folder / CLIPS))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The corpus in {folder} cannot be read ({error}); import it again.") from error
    if not of_one_save:
        raise CorpusError(
            f"The corpus in {folder} is half of one save and half of another ({CAPTIONS} is of other clips than "
            f"{CLIPS}); import it again."
        )
    try:
        return make_corpus(clips, captions)
    except CorpusError as error:
        raise CorpusError(f"The corpus in {folder} breaks its rules:", *error.args) from error


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
