"""Access of requests to the library: few threads, one model, and a bounded queue."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from evenreel.errors import EncoderError, EvenreelError, LibraryError, OtherModelError
from evenreel.library import Library
from evenreel.library.contents import ClipMedia
from evenreel.library.loading import load_pictures, load_sounds
from evenreel.library.snapshot.following import FollowedLibrary
from evenreel.server.batched_encoder import BatchedEncoder
from evenreel.server.library_version import Version, library_version
from evenreel.server.settings import ServeSettings
from evenreel.server.turns import Request, RequestNeeds, Turns, look_ahead
from evenreel.types import Encoder

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained

log = logging.getLogger("evenreel")
T = TypeVar("T")
LOADING = "The model is still being loaded; try again in a moment."
CACHED_BYTES = 8 * 2**20
"""Most bytes of answers that are kept to be given again."""
RETRY_S = 300.0
"""Seconds after which a model of sounds that could not be loaded is tried again."""
KEPT_PLACES = 1_000
"""Most clips whose files' places are kept in memory."""


class BusyError(EvenreelError):
    """Raised where too many requests are waiting; retry in a moment."""


class LoadingError(EvenreelError):
    """Raised while the model is being loaded; retry in a moment."""


class OwnModel(NamedTuple):
    """The model of a library that is served, as it stands; replaced as a whole, so that no thread sees half of it.

    Attributes:
        number: another one for each change.
        encoder: the model; None where it is not loaded.
        state: `loading`, `ready`, `none` where words alone are searched, or `failed`.
        trouble: why it failed to load.
    """

    number: int = 0
    encoder: BatchedEncoder | None = None
    state: str = "loading"
    trouble: str = ""

    def changed(self, state: str, encoder: BatchedEncoder | None = None, trouble: str = "") -> OwnModel:
        """Return what it is from now on, with a number of its own where that is anything else."""
        same = (encoder, state, trouble) == self[1:]
        return self if same else OwnModel(self.number + 1, encoder, state, trouble)


class SoundsModel(NamedTuple):
    """The model of sounds of a library that is served.

    Attributes:
        name: its name; None where the library has none.
        encoder: the model; None where it could not be loaded.
        trouble: why it could not be loaded.
        tried_s: seconds of the monotonic clock as that was tried.
    """

    name: str | None = None
    encoder: BatchedEncoder | None = None
    trouble: str = ""
    tried_s: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it could not be loaded and some minutes have gone by since."""
        return self.name is not None and self.encoder is None and monotonic() - self.tried_s >= RETRY_S


class Desk:
    """Runs the queries of many visitors on one library.

    Each thread has a connection of its own; what they read is of one moment each. Models are loaded once, in the
    background, and shared; where the library's model changes, or that of sounds, the new one is loaded. One
    thread more does all re-ranking, so that the clips that a matcher has encoded are kept once. What is
    read by a key is looked up by a thread of its own, so that playing and searching never wait for each other.

    Attributes:
        matcher: matcher that re-ranks the first clips of a sentence; None without re-ranking.
        matcher_trouble: why the matcher cannot be used.
        rerank_depth: number of clips to re-rank.
        opens_folders: whether files are shown in the file manager of this machine.
    """

    def __init__(self, library: Path, settings: ServeSettings) -> None:
        self.followed = FollowedLibrary(library, settings.kept_snapshots)
        self._settings, self.opens_folders = settings, settings.open_folders
        self._waiting = self._looking_up = 0
        self._turns = Turns(settings.searchers)
        self._own = threading.local()
        self._open: list[Library] = []
        self._answers: OrderedDict[Hashable, bytes] = OrderedDict()
        self._answer_bytes = 0
        self._located: OrderedDict[Hashable, ClipMedia] = OrderedDict()
        self._lock = threading.Lock()
        self._held = OwnModel()
        self._sounds = SoundsModel()
        self._made_with: tuple[str | None, str | None] | None = None
        self._looked_at: Version | None = None
        self._warming = False
        self.matcher: Pretrained | None = None
        self.matcher_trouble = ""
        self.rerank_depth = settings.rerank_depth

    @property
    def library(self) -> Path:
        """Folder that the library is read from now."""
        return self.followed.folder

    @property
    def model(self) -> str:
        """State of the model: `loading`, `ready`, `none` where words alone are searched, or `failed`."""
        return self._held.state

    @property
    def trouble(self) -> str:
        """Why the model failed to load, empty where it did not."""
        return self._held.trouble

    def start(self) -> None:
        """Open the library once as a check, and begin to load its model."""
        self.followed.start()
        with Library(self.library, vision=False) as library:
            name, _ = library.made_with
        self._held = self._held.changed("loading" if name and self._settings.vision else "none")
        self._pool = ThreadPoolExecutor(self._settings.searchers, thread_name_prefix="search")
        self._reranking = ThreadPoolExecutor(1, thread_name_prefix="rerank")
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="locate")
        self._look()

    def close(self) -> None:
        """End the threads when their present request is done, and close the library."""
        self._turns.cancel()
        for pool in (self._pool, self._reranking, self._looking):
            pool.shutdown(wait=True, cancel_futures=True)
        for library in self._open:
            library.close()
        self.followed.close()

    async def query(self, function: Callable[[Library], T], needs: RequestNeeds | None = None) -> T:
        """Run a function on the library in one of the threads."""
        if self._waiting >= self._settings.waiting + self._settings.searchers:
            raise BusyError("Too many searches are waiting; try again in a moment.")
        self._look()
        needs = needs or RequestNeeds()
        if needs.model:
            function = partial(self._with_model, function)
        self._waiting += 1
        try:
            turn = (
                self._in(self._reranking, function) if needs.rerank else self._in_turn(Request(function, needs.wanted))
            )
            return await turn
        finally:
            self._waiting -= 1

    async def query_once(
        self, key: Hashable, function: Callable[[Library], bytes], needs: RequestNeeds | None = None
    ) -> bytes:
        """Run a function as `query` does, or return its cached answer for this key while the library is unchanged."""
        key = (library_version(self.library), self._held.number, self._sounds, key)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        answer = await self.query(function, needs)
        self._keep(key, answer)
        return answer

    async def look_up(self, function: Callable[[Library], T]) -> T:
        """Run a function that reads or notes little, by a key, in a thread of its own that waits for no search."""
        if self._looking_up >= self._settings.connections:
            raise BusyError("Too many clips are looked up; try again in a moment.")
        self._looking_up += 1
        try:
            return await self._in(self._looking, function)
        finally:
            self._looking_up -= 1

    async def locate(self, clip_id: str) -> ClipMedia:
        """Find the files of a clip; cached while the library is unchanged."""
        key = (library_version(self.library), clip_id)
        if key in self._located:
            self._located.move_to_end(key)
            return self._located[key]
        found = await self.look_up(lambda library: library.locate(clip_id))
        self._located[key] = found
        if len(self._located) > KEPT_PLACES:
            self._located.popitem(last=False)
        return found

    def need_model(self) -> None:
        """Raise LoadingError while the model is being loaded; without a model, only words are searched."""
        self._look()
        if self.model == "loading":
            raise LoadingError(LOADING)

    def need_vision(self) -> None:
        """Raise an error unless pictures can be searched for."""
        self.need_model()
        if self._held.encoder is None:
            raise EncoderError(self.trouble or "The library is searched by words alone, so pictures cannot be.")

    def notices(self) -> tuple[str, ...]:
        """Return notices that every answer has beside its own."""
        found = ["The model could not be loaded, so only words were searched."] if self.trouble else []
        if self.matcher_trouble:
            found.append(
                "The matcher that is to re-rank cannot be used here, so the clips stand in the library's order."
            )
        return tuple(found)

    def _keep(self, key: Hashable, answer: bytes) -> None:
        with self._lock:
            self._answer_bytes += len(answer) - len(self._answers.pop(key, b""))
            self._answers[key] = answer
            while self._answer_bytes > CACHED_BYTES:
                _, gone = self._answers.popitem(last=False)
                self._answer_bytes -= len(gone)

    def _look(self) -> None:
        """Warm up, if the library has changed since that was done; a change may bring a model, or another one."""
        version = library_version(self.library)
        with self._lock:
            if self._warming or (version == self._looked_at and not self._sounds.is_due):
                return
            self._warming, self._looked_at = True, version
        threading.Thread(target=self._warm_up, name="model", daemon=True).start()

    def _warm_up(self) -> None:
        """Load the models that are others than before, and do once what costs more the first time.

        The model of sounds is loaded here too and not by a search, which goes on without it until it is.
        """
        try:
            with Library(self.library, vision=False) as library:
                made_with = library.made_with if self._settings.vision else (None, None)
                sounds = library.stats().sounds if self._settings.vision else None
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
                self._held = self._held.changed("failed", trouble=str(error))
        except Exception as error:  # whatever it is, words can still be searched
            trouble = str(error) if isinstance(error, EvenreelError) else f"the model failed to load ({error})."
            self._held = self._held.changed("failed", trouble=trouble)
            log.warning("the model cannot be loaded, only words are searched: %s", trouble)
        finally:
            self._warming = False

    def _change_model(self, name: str | None, weights: str | None, sounds: str | None) -> None:
        self._held = self._held.changed("loading" if name else "none")
        encoder = load_pictures(name, self._settings.device) if name else None
        if encoder is not None and encoder.weights_hash != weights:
            raise EncoderError(f"The model {name} is another now than the one that the library was made with.")
        self._take_up(sounds)
        with Library(self.library, encoder=encoder, vision=encoder is not None, load=self._sound_encoder) as library:
            found = library.search("a first search", k=1)
            library.favours([hit.clip_id for hit in found.hits])  # imports what later searches need
            self._change_matcher(library, encoder)
        if encoder is not None:
            self._held = self._held.changed("ready", BatchedEncoder(encoder))

    def _change_matcher(self, library: Library, encoder: Encoder | None) -> None:
        """Load what re-ranks, if it goes with the library as it is now; without it the library's own order stands."""
        self.matcher, self.matcher_trouble = None, ""
        if self._settings.rerank is None or encoder is None:
            return
        from evenreel.checkpoint import load_matcher

        try:
            matcher = load_matcher(self._settings.rerank, device=self._settings.device)
            library.search("a first search", k=1, rerank=matcher, rerank_depth=1)
            self.matcher = matcher
        except EvenreelError as error:
            self.matcher_trouble = str(error)
            log.warning("the matcher cannot re-rank: %s", error)

    def _take_up(self, name: str | None) -> None:
        """Load the model of sounds, once for all threads, where it is another one or is to be tried again."""
        if name == self._sounds.name and not self._sounds.is_due:
            return
        self._sounds = SoundsModel()
        if name is None:
            return
        try:
            self._sounds = SoundsModel(name, BatchedEncoder(load_sounds(name, self._settings.device)))
        except Exception as error:  # whatever it is, all else can still be searched
            trouble = str(error) if isinstance(error, EvenreelError) else f"it failed to load ({error})."
            log.warning("the model of sounds %s cannot be loaded: %s", name, trouble)
            self._sounds = SoundsModel(name, None, trouble, monotonic())

    def _sound_encoder(self, name: str) -> Encoder:
        """The model of sounds that is loaded."""
        held = self._sounds
        if held.name != name or held.encoder is None:
            raise EncoderError(held.trouble or "It is still being loaded; a later search asks it too.")
        return held.encoder

    async def _in_turn(self, request: Request) -> Any:
        if self._turns.put(request):
            self._pool.submit(self._take_turns)
        return await asyncio.wrap_future(request.answer)

    def _take_turns(self) -> None:
        """Answer until nothing waits; searches for texts together, as far as they have something in common."""
        while taken := self._turns.take():
            if len(taken) > 1:
                with contextlib.suppress(Exception):  # whatever is wrong, each search says so itself
                    look_ahead(self._library(), [request.wanted for request in taken if request.wanted is not None])
            for request in taken:
                request.run(self._library)

    async def _in(self, pool: Executor, function: Callable[[Library], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, self._call, function)

    def _with_model(self, function: Callable[[Library], T], library: Library) -> T:
        """Run a function on this thread's library, unless its model is being loaded or exchanged."""
        held, _ = self._own.state
        if held.state == "loading":
            raise LoadingError(LOADING)
        try:
            return function(library)
        except OtherModelError as error:
            raise LoadingError("The library has another model now; try again in a moment.") from error

    def _call(self, function: Callable[[Library], T]) -> T:
        return function(self._library())

    def _library(self) -> Library:
        """This thread's own, opened anew where the model is another or the catalog was replaced by another."""
        held = self._held
        state = held, self._catalog_state()
        if getattr(self._own, "state", None) != state:
            self._own.state = None  # should opening fail
            self._let_go()
            self._own.library = Library(
                self.library,
                encoder=held.encoder,
                vision=held.encoder is not None or (held.state == "none" and self._settings.vision),
                relative_paths=True,
                load=self._sound_encoder,
            )
            self._own.state = state
            with self._lock:
                self._open.append(self._own.library)
        library: Library = self._own.library
        return library

    def _let_go(self) -> None:
        library: Library | None = getattr(self._own, "library", None)
        if library is not None:
            self._own.library = None
            with self._lock:
                self._open.remove(library)
            library.close()

    def _catalog_state(self) -> Hashable:
        """What this thread's open catalog does not see by itself: another file, or any change where it is frozen."""
        version, own = library_version(self.library), getattr(self._own, "library", None)
        return version if own is not None and own.is_frozen else version[0][0]
