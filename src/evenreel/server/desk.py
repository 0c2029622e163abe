"""Where requests meet the library: few threads, one model, and a short queue that says when it is full."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from evenreel.errors import EncoderError, EvenreelError
from evenreel.library import Library, open_library
from evenreel.library.catalog import CATALOG
from evenreel.server.settings import ServeSettings
from evenreel.types import Encoder, FloatArray, Pixels, TextEmbedding

log = logging.getLogger("evenreel")
T = TypeVar("T")
CACHED = 256
"""Answers kept; one is some tens of kilobytes."""
Version = tuple[tuple[int, int, int], ...]


class BusyError(EvenreelError):
    """More requests wait than may; come back in a moment."""


class LoadingError(EvenreelError):
    """The model is still being loaded; come back in a moment."""


class SharedEncoder:
    """An encoder for several threads: one of them uses it at a time."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._turn = threading.Lock()
        self.encoder_id, self.weights_hash = encoder.encoder_id, encoder.weights_hash
        self.dimension = encoder.dimension

    def encode_frames(self, pixels: Pixels) -> FloatArray:
        """See `Encoder.encode_frames`."""
        with self._turn:
            return self._encoder.encode_frames(pixels)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """See `Encoder.encode_text`."""
        with self._turn:
            return self._encoder.encode_text(captions)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """See `Encoder.truncated`."""
        with self._turn:
            return self._encoder.truncated(captions)


class Desk:
    """Asks one library for many visitors.

    Each thread has a connection of its own; what they read is of one moment each. The model is loaded once, in the
    background, and shared.

    Args:
        library: folder of the library.
        settings: number of threads, of waiting requests, the model's device.
    """

    def __init__(self, library: Path, settings: ServeSettings) -> None:
        self.library, self._settings = library, settings
        self._pool = ThreadPoolExecutor(settings.searchers, thread_name_prefix="search")
        self._waiting = 0
        self._own = threading.local()
        self._open: list[Library] = []
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._encoder: SharedEncoder | None = None
        self.model = "loading"
        self.trouble = ""

    def start(self) -> None:
        """Open the library once, to see that it can be, and begin to load its model.

        Raises:
            LibraryError: it cannot be opened.
        """
        with open_library(self.library, vision=False) as library:
            name = library.stats().model if self._settings.vision else None
        self.model = "none" if name is None else "loading"
        threading.Thread(target=self._warm_up, args=(name,), name="model", daemon=True).start()

    def close(self) -> None:
        """End the threads when their present request is done, and let go of the library."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for library in self._open:
            library.close()

    async def ask(self, question: Callable[[Library], T]) -> T:
        """Put a question to the library in one of the threads.

        Raises:
            BusyError: too many wait already.
            EvenreelError: whatever the question raises.
        """
        if self._waiting >= self._settings.waiting + self._settings.searchers:
            raise BusyError("Too many searches are waiting; try again in a moment.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._asked, question)
        finally:
            self._waiting -= 1

    async def ask_once(self, key: Hashable, question: Callable[[Library], T]) -> T:
        """The same, or the answer that was given to this key before, while the library is as it was."""
        key = (self._version(), self.model, key)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                kept: T = self._answers[key]
                return kept
        answer = await self.ask(question)
        with self._lock:
            self._answers[key] = answer
            while len(self._answers) > CACHED:
                self._answers.popitem(last=False)
        return answer

    def need_model(self) -> None:
        """Raise LoadingError while the model is on its way; without one, words are searched alone."""
        if self.model == "loading":
            raise LoadingError("The model is still being loaded; try again in a moment.")

    def need_vision(self) -> Encoder:
        """The model, for questions that cannot do without.

        Raises:
            LoadingError: it is still on its way.
            EncoderError: there is none.
        """
        self.need_model()
        if self._encoder is None:
            raise EncoderError(self.trouble or "The library is searched by words alone, so pictures cannot be.")
        return self._encoder

    def notices(self) -> tuple[str, ...]:
        """What every answer has to say beside its own notices."""
        return (f"Only words were searched: {self.trouble}",) if self.trouble else ()

    def _warm_up(self, name: str | None) -> None:
        """Load the model and do once what costs more the first time, imports above all."""
        try:
            encoder = self._loaded(name) if name else None
            with open_library(self.library, encoder=encoder, vision=encoder is not None) as library:
                found = library.search("a first search", k=1)  # which says, too, whether the model is the library's
                library.favours([hit.clip_id for hit in found.hits])
            if encoder is not None:
                self._encoder, self.model = SharedEncoder(encoder), "ready"
        except Exception as error:  # whatever it is, words can still be searched
            self.trouble = str(error) if isinstance(error, EvenreelError) else f"the model failed to load ({error})."
            self.model = "failed"
            log.warning("the model cannot be loaded, only words are searched: %s", self.trouble)

    def _loaded(self, name: str) -> Encoder:
        from evenreel.encoders import load_encoder

        return load_encoder(name, device=self._settings.device)

    def _asked(self, question: Callable[[Library], T]) -> T:
        return question(self._library())

    def _library(self) -> Library:
        """This thread's own, opened anew where the model has come since or the catalog was replaced by another."""
        state = (self._encoder is not None, _inode(self.library / CATALOG))
        if getattr(self._own, "state", None) != state:
            if hasattr(self._own, "library"):
                self._let_go(self._own.library)
                del self._own.library
            self._own.library = open_library(self.library, encoder=self._encoder, vision=self._encoder is not None)
            self._own.state = state
            with self._lock:
                self._open.append(self._own.library)
        library: Library = self._own.library
        return library

    def _let_go(self, library: Library) -> None:
        with self._lock:
            self._open.remove(library)
        library.close()

    def _version(self) -> Version:
        """Changes with every change of the catalog, whoever made it."""
        return tuple(_stamp(self.library / name) for name in (CATALOG, f"{CATALOG}-wal"))


def _inode(path: Path) -> int:
    with contextlib.suppress(OSError):
        return os.stat(path).st_ino
    return 0


def _stamp(path: Path) -> tuple[int, int, int]:
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return 0, 0, 0
