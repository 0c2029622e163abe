"""Writer of a corpus of changed clips: a JSON page that says what the folder is for, a file a clip, and tables."""

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
    """Writer of a corpus of changed clips into a folder that the caller has locked.

    Args:
        folder: folder of the new corpus.
        page: file name of the page, a JSON file that says how the clips were made.
        holds: words for the content of a folder with such a page, for messages.

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
        """Check that the folder holds no corpus, or one with a page of this name: nothing else is ever replaced."""
        there = [name for name in ("clips.parquet", CLIPS) if (self._folder / name).exists()]
        if there and not self._page.is_file():
            raise CorpusError(f"{self._folder} holds {there[0]} already, of no {self._holds}; choose another --out.")

    def claim(self, content: Mapping[str, Any], *, only: str | None = None) -> None:
        """Write the page that says how the clips are made, before anything else is in the folder.

        Args:
            content: content of the page, ready for JSON.
            only: words on how clips of a page with another content were made, for the error; None replaces such a page.
        """
        page = (json.dumps(content, indent=2) + "\n").encode()
        if only is not None and self._page.is_file() and self._page.read_bytes() != page:
            raise CorpusError(f"{self._folder} holds clips that were {only}; choose another --out, or delete it first.")
        self._store(self._page, page)

    def has(self, clip: ChangedClip) -> bool:
        """Return whether the file of a clip is there."""
        return (self._folder / clip.path).is_file()

    def put(self, clip_id: str, clip: ChangedClip, payload: Callable[[], bytes]) -> None:
        """Add a clip to the new corpus, and make its file unless it is there; may be called by several threads.

        Args:
            clip_id: id of the clip in both corpora.
            clip: path and frames of the file.
            payload: function that makes the bytes of the file.
        """
        new = not self.has(clip)
        if new:
            self._store(self._folder / clip.path, payload())
        with self._lock:
            self.clips[clip_id] = clip
            self.written += new

    def save(self, corpus: Corpus, more: Mapping[str, pl.Expr] = NO_MORE) -> None:
        """Write the tables of the new corpus: the changed clips, each a whole file, with their captions."""
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
