"""A corpus of changed clips on disk: a page that says what the folder is for, a file a clip, and the tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from evenreel.corpus import make_corpus, save_corpus
from evenreel.errors import CorpusError
from evenreel.files import write_durably
from evenreel.types import Corpus

CLIPS = "clips"
NO_MORE: Mapping[str, pl.Expr] = {}


class ChangedClip(NamedTuple):
    """File of a changed clip: its path in the new corpus, number of frames, and frames a second."""

    path: str
    frame_count: int
    fps: float


class CorpusWriter:
    """Writes a corpus of changed clips into a folder that is locked.

    Args:
        folder: folder of the new corpus.
        page: name of the page.
        holds: what a folder with such a page holds, for messages.

    Attributes:
        clips: clips of the new corpus, by id.
        written: number of files that were not there before.
    """

    def __init__(self, folder: Path, page: str, holds: str) -> None:
        self._folder, self._page, self._holds = folder, folder / page, holds
        self._lock = threading.Lock()
        self.clips: dict[str, ChangedClip] = {}
        self.written = 0

    def check_owned(self) -> None:
        """Check that the folder holds no corpus, or one with this page: nothing else is ever replaced.

        Raises:
            CorpusError: it holds another corpus, or clips of another one.
        """
        there = [name for name in ("clips.parquet", CLIPS) if (self._folder / name).exists()]
        if there and not self._page.is_file():
            raise CorpusError(f"{self._folder} holds {there[0]} already, of no {self._holds}; choose another --out.")

    def claim(self, content: Mapping[str, Any], *, only: str | None = None) -> None:
        """Write the page, before anything else is in the folder.

        Args:
            content: what the folder is for.
            only: how the clips of another page were made, for the message that refuses these; None to replace a page.

        Raises:
            CorpusError: the page has another content, or cannot be written.
        """
        page = (json.dumps(content, indent=2) + "\n").encode()
        if only is not None and self._page.is_file() and self._page.read_bytes() != page:
            raise CorpusError(f"{self._folder} holds clips that were {only}; choose another --out, or delete it first.")
        self._store(self._page, page)

    def put(self, clip_id: str, clip: ChangedClip, payload: Callable[[], bytes]) -> None:
        """Add a clip to the new corpus; its file is only made where it is not there. Several threads may call it.

        Args:
            clip_id: id in both corpora.
            clip: path and frames of the file.
            payload: makes the bytes of the file.

        Raises:
            CorpusError: the file cannot be written.
        """
        new = not (self._folder / clip.path).is_file()
        if new:
            self._store(self._folder / clip.path, payload())
        with self._lock:
            self.clips[clip_id] = clip
            self.written += new

    def save(self, corpus: Corpus, more: Mapping[str, pl.Expr] = NO_MORE) -> None:
        """Write the tables of the changed clips, which are whole files now, with their captions.

        Args:
            corpus: the old corpus.
            more: further columns of the clips.

        Raises:
            CorpusError: the tables cannot be written.
        """
        clips = corpus.clips.filter(pl.col("clip_id").is_in([*self.clips]))
        files = [self.clips[clip_id] for clip_id in clips["clip_id"]]
        none = pl.lit(None, pl.Float64)
        columns = (pl.Series(name, [getattr(file, name) for file in files]) for name in ChangedClip._fields)
        clips = clips.with_columns(*columns, start_s=none, end_s=none).with_columns(**more)
        captions = corpus.captions.filter(pl.col("clip_id").is_in(clips["clip_id"].implode()))
        save_corpus(make_corpus(clips, captions), self._folder)

    @staticmethod
    def _store(path: Path, payload: bytes) -> None:
        try:
            write_durably(path, payload)
        except OSError as error:
            raise CorpusError(
                f"{path} cannot be written ({(error.strerror or str(error)).lower()}). Clips that were finished are "
                "kept: make room or choose another --out, and run it again."
            ) from error
