"""Access of requests to the library: few threads, one model, and a bounded queue."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from evenreel.errors import EncoderError, EvenreelError, LibraryError, OtherModelError
from evenreel.files import FileState, file_state
from evenreel.library import Library, UnfinishedText
from evenreel.library.contents import ClipMedia
from evenreel.library.library import load_pictures, load_sounds
from evenreel.library.published import FollowedLibrary
from evenreel.library.store.catalog import CATALOG
from evenreel.library.store.user_tables import COPY
from evenreel.server.settings import ServeSettings
from evenreel.types import Encoder, FloatArray, Pixels, TextEmbedding

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained

log = logging.getLogger("evenreel")
T = TypeVar("T")
Version = tuple[FileState, ...]
LOADING = "The model is loading; try again in a moment."
CACHED_BYTES = 8 * 2**20  # most bytes of answers that are kept to be given again
KEPT_TEXTS = 1_000  # most encoded captions that are kept
AT_A_KEY_S = 0.02  # longest that a text tower may take for a text that is just typed
MOST_BEHIND = 24  # letters that it may then be behind
OF_A_CHANGE = (CATALOG, f"{CATALOG}-wal", COPY)  # files that change with the catalog, or a person's own records


class BusyError(EvenreelError):
    """Raised where too many requests are waiting, or while the model is being loaded; retry in a moment."""


def library_version(library: Path) -> Version:
    return tuple(file_state(library / name) or (0, 0, 0) for name in OF_A_CHANGE)


class SharedEncoder:
    """Encoder that several threads share: one call at a time, and single captions are kept for who asks again.

    Where it is slow, a text that is being typed is read as it was some keys before; meanwhile its words are encoded.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._turn = encoder, threading.Lock()
        self._kept, self._takes_s = OrderedDict[str, TextEmbedding](), 0.0
        self._latest, self._meanwhile = "", ThreadPoolExecutor(1, thread_name_prefix="typed")
        self.encoder_id, self.weights_hash = encoder.encoder_id, encoder.weights_hash
        self.dimension, self.window = encoder.dimension, encoder.window

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        with self._turn:
            return self._encoder.encode_windows(pixels)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        if isinstance(captions, str) or len(captions) != 1:
            with self._turn:
                return self._encoder.encode_text(captions)
        (text,) = captions
        if type(text) is UnfinishedText and self._takes_s > AT_A_KEY_S and text not in self._kept:
            beginnings = (text[:-cut].rstrip() for cut in range(1, min(MOST_BEHIND, len(text))))
            known = (found for one in beginnings if (found := self._kept.get(one)) is not None)
            if (near := next(known, None)) is not None:
                self._latest = words = text.rpartition(" ")[0]
                if words and words not in self._kept:
                    self._meanwhile.submit(lambda: self._encode_one(words) if words is self._latest else None)
                return near
        return self._encode_one(text)

    def _encode_one(self, text: str) -> TextEmbedding:
        if (found := self._kept.get(text)) is not None:
            return found
        with self._turn:
            began_s = time.perf_counter()
            self._kept[text] = found = self._encoder.encode_text([text])
            self._takes_s = time.perf_counter() - began_s
        if len(self._kept) > KEPT_TEXTS:
            self._kept.popitem(last=False)
        return found

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        with self._turn:
            return self._encoder.truncated(captions)


class Model(NamedTuple):
    """A model of a library that is served, as it stands; replaced as a whole, so that no thread sees half of it."""

    state: str = "loading"  # or `ready`, `none` where words alone are searched, `failed`
    encoder: SharedEncoder | None = None
    trouble: str = ""  # why it failed to load
    name: str | None = None


class Desk:
    """Runs the queries of many visitors on one library.

    Each thread has a connection of its own. Models are loaded once, in the background, and shared; where the library's
    model changes, or that of sounds, the new one is loaded. One thread more does all re-ranking, so that the clips that
    a matcher has encoded are kept once. What is read by a key is looked up by a thread of its own, so that playing and
    searching never wait for each other.
    """

    def __init__(self, library: Path, settings: ServeSettings) -> None:
        self.place, self.followed = library, FollowedLibrary(library, settings.snapshot_cache)
        self.settings = settings
        self._waiting = self._looking_up = 0
        self._own = threading.local()
        self._open: list[Library] = []
        self._answers: OrderedDict[Hashable, bytes] = OrderedDict()
        self._answer_bytes = 0
        self._lock = threading.Lock()
        self._held, self._sounds = Model(), Model("none")  # of pictures, of sounds
        self._changes = 0  # of models
        self._made_with: tuple[str | None, str | None] | None = None
        self._looked_at: Version | None = None
        self._warming = False
        self.matcher: Pretrained | None = None
        self.matcher_trouble = ""

    @property
    def library(self) -> Path:
        return self.followed.folder

    @property
    def model(self) -> str:
        return self._held.state

    def is_whole(self, device: str) -> bool:
        """Whether every model that the library was made with is held, on the device that is meant."""
        held = self._held.state in {"none", "ready"} and self._sounds.state in {"none", "ready"}
        return held and self.settings.vision and self.settings.device == device

    def start(self) -> None:
        self.followed.start()
        with Library(self.library, vision=False) as library:
            name, _ = library.made_with
        self._held = Model("loading" if name and self.settings.vision else "none")
        self._pool = ThreadPoolExecutor(self.settings.searchers, thread_name_prefix="search")
        self._reranking = ThreadPoolExecutor(1, thread_name_prefix="rerank")
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="locate")
        self._look()

    def close(self) -> None:
        for pool in (self._pool, self._reranking, self._looking):
            pool.shutdown(wait=True, cancel_futures=True)
        for library in self._open:
            library.close()
        self.followed.close()

    async def query(self, function: Callable[[Library], T], *, model: bool = False, rerank: bool = False) -> T:
        """Run a function on the library in one of the threads; with `model`, not while that is loaded or exchanged."""
        if self._waiting >= self.settings.waiting + self.settings.searchers:
            raise BusyError("Too many searches are waiting; try again in a moment.")
        self._look()
        self._waiting += 1
        try:
            called = partial(self._with_model, function) if model else function
            return await self._in(self._reranking if rerank else self._pool, called)
        finally:
            self._waiting -= 1

    async def query_once(
        self, key: Hashable, function: Callable[[Library], bytes], *, model: bool = False, rerank: bool = False
    ) -> bytes:
        """Run a function as `query` does, or return its cached answer for this key while the library is unchanged."""
        key = (library_version(self.library), self._changes, key)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        answer = await self.query(function, model=model, rerank=rerank)
        with self._lock:
            self._answer_bytes += len(answer) - len(self._answers.pop(key, b""))
            self._answers[key] = answer
            while self._answer_bytes > CACHED_BYTES:
                _, gone = self._answers.popitem(last=False)
                self._answer_bytes -= len(gone)
        return answer

    async def look_up(self, function: Callable[[Library], T]) -> T:
        """Run a function that reads or notes little, by a key, in a thread of its own that waits for no search."""
        if self._looking_up >= self.settings.connections:
            raise BusyError("Too many clips are being looked up; try again in a moment.")
        self._looking_up += 1
        try:
            return await self._in(self._looking, function)
        finally:
            self._looking_up -= 1

    async def locate(self, clip_id: str) -> ClipMedia:
        return await self.look_up(lambda library: library.locate(clip_id))

    def need_model(self) -> None:
        self._look()
        if self.model == "loading":
            raise BusyError(LOADING)

    def need_vision(self) -> None:
        self.need_model()
        if self._held.encoder is None:
            raise EncoderError(self._held.trouble or "This library is searched by words only, not by pictures.")

    def notices(self) -> tuple[str, ...]:
        of_matcher = "The first results are not re-ranked: the matcher cannot be used with this library."
        found = ("Only words are searched: the model could not be loaded.",) if self._held.trouble else ()
        return (*found, of_matcher) if self.matcher_trouble else found

    def _look(self) -> None:
        """Warm up, if the library has changed since that was done; a change may bring a model, or another one."""
        version = library_version(self.library)
        with self._lock:
            if self._warming or version == self._looked_at:
                return
            self._warming, self._looked_at = True, version
        threading.Thread(target=self._warm_up, name="model", daemon=True).start()

    def _warm_up(self) -> None:
        """Load the models that are others than before, and do once what costs more the first time.

        The model of sounds is loaded here too and not by a search, which goes on without it until it is.
        """
        try:
            with Library(self.library, vision=False) as library:
                made_with = library.made_with if self.settings.vision else (None, None)
                sounds = library.stats().sounds if self.settings.vision else None
            if made_with != self._made_with:
                self._made_with = made_with
                self._change_model(*made_with, sounds)
            else:
                self._take_up(sounds)
        except LibraryError as error:  # locked, or being repaired: the next request looks again
            log.warning("the library cannot be read just now: %s", error)
            self._looked_at = None
            if self._held.encoder is None:
                self._made_with = None
                self._hold(Model("failed", trouble=str(error)))
        except Exception as error:  # whatever it is, words can still be searched
            trouble = str(error) if isinstance(error, EvenreelError) else f"the model failed to load ({error})."
            self._hold(Model("failed", trouble=trouble))
            log.warning("the model cannot be loaded, only words are searched: %s", trouble)
        finally:
            self._warming = False

    def _change_model(self, name: str | None, weights: str | None, sounds: str | None) -> None:
        self._hold(Model("loading" if name else "none"))
        encoder = load_pictures(name, self.settings.device) if name else None
        if encoder is not None and encoder.weights_hash != weights:
            raise EncoderError(f"The model {name} has changed since the library was made.")
        self._take_up(sounds)
        with Library(self.library, encoder=encoder, vision=encoder is not None, load=self._sound_encoder) as library:
            found = library.search("a first search", k=1)
            library.favours([hit.clip_id for hit in found.hits])  # imports what later searches need
            self._change_matcher(library, encoder)
        if encoder is not None:
            self._hold(Model("ready", SharedEncoder(encoder), name=name))

    def _hold(self, model: Model) -> None:
        if model != self._held:
            self._held = model
            self._changes += 1  # after it: no answer of the model before is kept for one of this

    def _change_matcher(self, library: Library, encoder: Encoder | None) -> None:
        """Load what re-ranks, if it goes with the library as it is now; without it the library's own order stands."""
        self.matcher, self.matcher_trouble = None, ""
        if self.settings.rerank is None or encoder is None:
            return
        from evenreel.checkpoint import load_matcher

        try:
            matcher = load_matcher(self.settings.rerank, device=self.settings.device)
            library.search("a first search", k=1, rerank=matcher, rerank_depth=1)
            self.matcher = matcher
        except EvenreelError as error:
            self.matcher_trouble = str(error)
            log.warning("the matcher cannot re-rank: %s", error)

    def _take_up(self, name: str | None) -> None:
        """Load the model of sounds, once for all threads, where it is another one, or could not be loaded before."""
        if name == self._sounds.name and (name is None or self._sounds.encoder is not None):
            return
        self._sounds = Model("none")
        if name is not None:
            try:
                self._sounds = Model("ready", SharedEncoder(load_sounds(name, self.settings.device)), name=name)
            except Exception as error:  # whatever it is, all else can still be searched
                trouble = str(error) if isinstance(error, EvenreelError) else f"it failed to load ({error})."
                log.warning("the model of sounds %s cannot be loaded: %s", name, trouble)
                self._sounds = Model("failed", trouble=trouble, name=name)
        self._changes += 1

    def _sound_encoder(self, name: str) -> Encoder:
        held = self._sounds
        if held.name != name or held.encoder is None:
            raise EncoderError(held.trouble or "It is loading; a later search uses it.")
        return held.encoder

    async def _in(self, pool: Executor, function: Callable[[Library], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: function(self._library()))

    def _with_model(self, function: Callable[[Library], T], library: Library) -> T:
        """Run a function on this thread's library, unless its model is being loaded or exchanged."""
        held, _ = self._own.state
        if held.state == "loading":
            raise BusyError(LOADING)
        try:
            return function(library)
        except OtherModelError as error:
            raise BusyError("The library's model has changed; try again in a moment.") from error

    def _library(self) -> Library:
        """This thread's own, opened anew where the model is another or the catalog was replaced by another."""
        held, version = self._held, library_version(self.library)
        open_now: Library | None = getattr(self._own, "library", None)
        if open_now is not None:
            # What an open catalog does not see by itself: another file, or any change where it is frozen.
            if self._own.state == (held, version if open_now.is_frozen else version[0][0]):
                return open_now
            self._own.library = self._own.state = None  # should opening fail
            with self._lock:
                self._open.remove(open_now)
            open_now.close()
        opened = Library(
            self.library,
            encoder=held.encoder,
            vision=held.encoder is not None or (held.state == "none" and self.settings.vision),
            relative_paths=True,
            load=self._sound_encoder,
        )
        self._own.library, self._own.state = opened, (held, version if opened.is_frozen else version[0][0])
        with self._lock:
            self._open.append(opened)
        return opened
