"""An open library: its searches, and what it holds, as the command line, the page and Python read it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.config import RERANK_DEPTH, as_path
from evenreel.errors import LibraryError, OtherModelError, UsageError
from evenreel.library import contents
from evenreel.library.favours import Favours, Population, favours, read_clips, selects_length
from evenreel.library.people import clips_of_people
from evenreel.library.personal import PersonalData
from evenreel.library.search import asking
from evenreel.library.search.asking import Marked, Question, Then, Without
from evenreel.library.search.filters import Filter, below, read_filter
from evenreel.library.search.query import MOST_CLIPS, Picture, Query, as_pixels, picture_vector, readable
from evenreel.library.search.result import SearchResult
from evenreel.library.search.searcher import Searcher
from evenreel.library.search.seen import unit
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.settings import engine_of
from evenreel.library.store import catalog
from evenreel.library.store.catalog import is_published, other_model, other_sounds
from evenreel.library.store.writer import clip_transcripts, open_vectors
from evenreel.types import Encoder

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained
    from evenreel.library.search.alike import UnlikeClips
    from evenreel.library.search.rerank import Reranker
    from evenreel.speech import Transcript

_OF_SEVERAL = re.compile(r"then|without|person:", re.IGNORECASE)  # what a text has that may be more than one sentence


def load_pictures(name: str, device: str) -> Encoder:
    from evenreel.encoders import load_encoder

    return load_encoder(name, device=device)


def load_sounds(name: str, device: str) -> Encoder:
    from evenreel.sound import load_sound_encoder

    return load_sound_encoder(name, device=device)


def _sounds_of(library: Path, load: Callable[[str], Encoder], own: Mapping[str, str]) -> Encoder:
    encoder = load(own["encoder_id"])
    if encoder.weights_hash != own["weights_hash"]:
        raise LibraryError(other_sounds(library, own["encoder_id"], encoder.encoder_id))
    return encoder


def open_library(
    path: str | PathLike[str],
    *,
    encoder: Encoder | None = None,
    device: str = "auto",
    vision: bool = True,
    cache: str | PathLike[str] | None = None,
) -> Library:
    """Open a library for searching, see `Library`, or the current snapshot of a published one.

    Args:
        path: folder of the library, or place of published snapshots: a folder, or `s3://bucket/prefix` with the
            credentials of the environment.
        encoder: the model it was made with, if the caller has it loaded already.
        device: where the model runs when it is loaded for the first search.
        vision: False searches by words alone and loads no model.
        cache: folder in which snapshots are kept on this machine; None for the platform's cache folder.

    Raises:
        LibraryError: there is no library or snapshot, or it is damaged, of a later version, or cannot be reached.
    """
    given = path if isinstance(path, str) else as_path(path, "path")
    if is_published(given):
        from evenreel.library.published import local_folder

        given = local_folder(given, None if cache is None else as_path(cache, "cache"))
    return Library(Path(given), encoder=encoder, device=device, vision=vision)


class Library:
    """An open library, for reading only: any number may be open beside an indexer.

    Every method raises LibraryError where the catalog is damaged or cannot be read just now.

    Args:
        path: folder of the library.
        encoder: the model it was made with, if the caller has it loaded already.
        device: where the model runs when it is loaded for the first search.
        vision: False searches by words alone and loads no model.
        relative_paths: filters compare `path` from the indexed folder on, so that its place on the disk stays private.
        load: function that loads the model of sounds by its name; by default it is loaded on `device` for the first
            search that asks it.

    Raises:
        LibraryError: there is no library, or it is damaged or of another version.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoder: Encoder | None = None,
        device: str = "auto",
        vision: bool = True,
        relative_paths: bool = False,
        load: Callable[[str], Encoder] | None = None,
    ) -> None:
        self.path = path
        self._given, self._device, self._relative_paths = encoder, device, relative_paths
        with contextlib.ExitStack() as undo, catalog.readable(path):
            self._connection = undo.enter_context(contextlib.closing(catalog.open_for_reading(path)))
            self._meta = catalog.get_meta(self._connection)
            self._vision = vision and bool(self._meta.get("dimension"))
            undo.pop_all()
        self._sounds = partial(_sounds_of, path, load or partial(load_sounds, device=device)) if vision else None
        self._reranker: Reranker | None = None

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalog."""
        self._connection.close()

    @property
    def is_frozen(self) -> bool:
        """Whether it sees no change of the catalog, where the folder is only read or its disk is full."""
        return isinstance(self._connection, catalog.FrozenConnection)

    def search(
        self,
        text: Question,
        k: int = 10,
        where: str | None = None,
        *,
        rerank: Pretrained | None = None,
        rerank_depth: int = RERANK_DEPTH,
    ) -> SearchResult:
        """Search for clips that match a sentence, best first.

        Args:
            text: what is to be seen, read or heard, in the language of `search.query`, and `person:NAME` for clips that
                somebody is in; an `UnfinishedText` may be cut. With `then` between two of these, or a `Then`: clips in
                which a moment of one comes before one of the other. With `without`, or a `Without`: clips that show
                what follows stand lower. A `Marked` has examples of what is right and wrong.
            k: most clips to return.
            where: a filter such as `source = 'camera' and duration_s < 60`.
            rerank: a matcher of `evenreel.load_matcher` that orders the first clips anew. Give the same object again
                for the next search: clips that it has encoded are kept while it is the last one given.
            rerank_depth: number of clips to order anew, `k` at least.

        Raises:
            UsageError: an empty text or wrong quotes, `k` below 1, a wrong filter, no vision; examples with a matcher,
                or for one moment after another; nobody has the name after `person:`.
            NotFoundError: a clip is marked that the library does not have.
            EncoderError: the model of the library cannot be loaded.
            LibraryError: the matcher was trained on features of another model.
        """
        make = partial(Query, k=k, rerank_depth=rerank_depth)
        asked: Question
        if isinstance(text, str) and not _OF_SEVERAL.search(text):
            asked, queries = text, [make(text=text, where=where)]
        else:
            asked, where, names = asking.filtered_by_people(self.path, asking.as_question(text), where)
            if names and asked == "":
                make(text="-")  # refuses a wrong number
                return clips_of_people(self.path, names, self.browse(where, "path", MOST_CLIPS), k)
            queries = asking.queries_of(asked, partial(make, where=where))
        if where is not None:
            self._filter(where)
        if isinstance(asked, str):
            query = queries[0] if rerank is None else replace(queries[0], reranker=self._reranker_of(rerank))
            return self._searcher.search(query)
        if isinstance(asked, Marked) and rerank is not None:
            raise UsageError("A matcher compares clips with words and knows of no examples; leave one of the two out.")
        if isinstance(asked, Then):
            found = asking.search_in_order(self._searcher, asked, queries)
        else:
            first = queries[0].asked
            encoder = self.encoder if first is not None and first.sees and readable(asked.text) else None
            if isinstance(asked, Without):
                found = asking.search_without(self._searcher, asked, queries[0], encoder)
            else:
                found = asking.search_by_marks(self._searcher, asked, queries[0], encoder, self.clip_named)
        return replace(found, notices=(*found.notices, asking.NOT_RERANKED)) if rerank is not None else found

    def tried_examples(self) -> list[contents.TriedExample]:
        """Return up to three searches that some clip of the library fits, each of which was run.

        Raises:
            EncoderError: the model of the library cannot be loaded.
        """
        with self._reading():
            candidates = contents.example_candidates(self._connection)
        return contents.tried_examples(candidates, lambda text: self.search(text, k=1))

    def check_matcher(self, pretrained: Pretrained) -> None:
        """Refuse a matcher that cannot order clips of this library, before its model is loaded.

        Raises:
            UsageError: the library is searched without vision.
            LibraryError: the matcher was trained on features of another model.
        """
        from evenreel.library.search.rerank import check_encoder

        if not self._vision:
            raise UsageError(f"The library {self.path} is searched without vision, so a matcher cannot re-rank.")
        check_encoder(pretrained, self._meta["encoder_id"], self._meta["weights_hash"])

    def _reranker_of(self, pretrained: Pretrained) -> Reranker:
        """The matcher, if it goes with this library; the one of the last search is kept with the clips it encoded."""
        from evenreel.library.search.rerank import Reranker

        self.check_matcher(pretrained)
        assert self.encoder is not None  # there is vision
        if self._reranker is None or self._reranker.pretrained is not pretrained:
            self._reranker = Reranker(pretrained, self.encoder)
        return self._reranker

    def search_image(
        self, image: Picture, k: int = 10, where: str | None = None, *, words: str | None = None
    ) -> SearchResult:
        """Search for clips with a frame like a picture, and like words beside it ('at night'); see `search`.

        Args:
            image: a file, its bytes, a PIL image or pixels (H, W, 3).
            k: most clips to return.
            where: a filter, as in `search`.
            words: what is to be seen beside what the picture shows.

        Raises:
            UsageError: the picture cannot be read, or the library has no vision.
            EncoderError: the model of the library cannot be loaded.
        """
        pixels = as_pixels(image)
        self._filter(where)
        if self.encoder is None:
            raise UsageError("The library has no vision, so a picture cannot be searched for.")
        vector = picture_vector(self.encoder, pixels)
        if words:
            vector = asking.picture_with_words(unit(vector), asking.words_vector(self.encoder, words))
        return self._searcher.search(Query(image=vector, k=k, where=where))

    def similar(
        self,
        clip_id: str,
        time_s: float | None = None,
        k: int = 10,
        where: str | None = None,
        *,
        words: str | None = None,
    ) -> SearchResult:
        """Search for other clips with a frame similar to a clip, by stored vectors; without words, without the model.

        Args:
            clip_id: a clip of the library; it is left out of the result.
            time_s: compare with its frame that is nearest to this time; None: with the mean of its frames.
            k: most clips to return.
            where: a filter, as in `search`.
            words: what is to be seen beside what the clip shows, such as 'at night'.

        Raises:
            NotFoundError: the library has no such clip.
            UsageError: `k` is not positive, the filter is wrong, or the frames of the clip were not encoded.
        """
        beside = asking.words_vector(self.encoder, words) if words else None
        with self.snapshot():  # at one moment: the model may be exchanged beside it
            vector = self._searcher.clip_vector(clip_id, time_s)
            if beside is not None:
                vector = asking.picture_with_words(vector, beside)
            query = Query(image=vector, k=k, where=where)
            found = self._searcher.search(replace(query, k=k + 1))
        hits = tuple(hit for hit in found.hits if hit.clip_id != clip_id)[:k]
        return replace(found, hits=hits)

    def folded(self, search: Callable[[int], SearchResult], k: int = 10) -> SearchResult:
        """Search for k clips that are not nearly the same, each with those that are nearly the same as it.

        Args:
            search: function that searches this library for so many clips, such as `lambda k: library.search(text, k)`.
            k: clips to return at most.

        Raises:
            EvenreelError: the search raises it, or the vectors cannot be read.
        """
        from evenreel.library.search.alike import fold_takes, search_folded

        def fold(result: SearchResult) -> SearchResult:
            with self.snapshot() as s:
                return fold_takes(s, result)

        return search_folded(search, k, fold)

    def highlights(self, folder: str | Path | None = None, k: int = 12, where: str | None = None) -> UnlikeClips:
        """Choose clips that are unlike the rest, by stored vectors, without the model.

        Args:
            folder: only clips with a file below this folder; None for all.
            k: most clips to return.
            where: a filter, as in `search`.

        Raises:
            UsageError: `k` is below 1, or the filter is wrong.
        """
        from evenreel.library.search.alike import unlike_clips

        chosen = self._filter(where)
        if folder is not None:
            chosen = chosen & below(folder)
        with self.snapshot() as s:
            return unlike_clips(s, chosen, k)

    @cached_property
    def personal(self) -> PersonalData:
        """Favourites, notes and saved searches of the library, to read and to write; filters choose by them too."""
        return PersonalData(self.path, self._connection, self.clip_named, self.search)

    def roots(self, *, with_files: bool = False) -> tuple[str, ...]:
        """Return the folders that were indexed, as the system names them; those alone of which a file is known."""
        with self._reading():
            return tuple(catalog.roots(self._connection, with_files=with_files))

    def single_files(self) -> tuple[str, ...]:
        """List the files that were indexed by themselves, not with a folder, as the system names them."""
        with self._reading():
            return tuple(contents.single_files(self._connection))

    def stats(self) -> contents.LibraryStats:
        """Count what the library holds and list what was set aside."""
        with self._reading():
            found = contents.read_stats(self._connection, self.path, catalog.get_meta(self._connection))
        from evenreel.library.published import copy_of

        copied = copy_of(self.path)
        return found if copied is None else replace(found, library=copied.place, snapshot=copied.id)

    def sizes(self) -> dict[str, int]:
        """Measure what each part of the library takes on the disk, in bytes; see `evenreel.library.contents.PARTS`."""
        return contents.sizes_on_disk(self.path)

    def unknown_to_model(self) -> str | None:
        """Return a sentence where clips are shown to a model that cannot know them."""
        with self._reading():
            return catalog.unknown_to_builtin(self._connection, self._meta)

    def notices(self) -> tuple[str, ...]:
        """Say what is true of every search of this library: what it cannot look at, a sentence each."""
        with self._reading():
            return contents.notices(self._connection, self._meta)

    def clip(self, clip_id: str) -> contents.ClipDetail:
        """Return everything known about one clip."""
        with self._reading():
            return contents.clip_detail(self._connection, clip_id, self.path / catalog.SHARDS)

    def clip_named(self, name: str) -> str:
        """Return the id of a clip by its id, the path of a file, or the end of it such as `day 1/tram`."""
        with self._reading():
            return contents.clip_named(self._connection, name)

    def transcripts(self, clip: str) -> tuple[Transcript, ...]:
        """Read what is said in a clip, given by its id or the path of a file, by each source."""
        with self._reading():
            return tuple(clip_transcripts(self._connection, contents.clip_named(self._connection, clip)))

    def files(
        self,
        state: str | None = None,
        text: str = "",
        limit: int = 50,
        offset: int = 0,
        order: contents.FileOrder = "path",
    ) -> contents.FilePage:
        """List files of the library, also those that were skipped or are missing."""
        with self._reading():
            return contents.list_files(self._connection, state, text, limit, offset, order)

    def browse(
        self, where: str | None = None, order: contents.BrowseOrder = "latest", limit: int = 50, offset: int = 0
    ) -> contents.BrowsedPage:
        """List clips without a query."""
        chosen = self._filter(where)
        with self._reading():
            return contents.browse(self._connection, chosen, order, limit, offset)

    def locate(self, clip_id: str) -> contents.ClipMedia:
        """Find the existing files of a clip, to open them."""
        with self._reading():
            return contents.locate(self._connection, clip_id)

    def examples(self) -> contents.Examples:
        """Suggest searches that find something in this library."""
        with self._reading():
            return contents.examples(self._connection)

    def facets(self) -> list[contents.Facet]:
        """List the columns that the library can be filtered by."""
        with contextlib.suppress(LibraryError):  # the other columns do not depend on a person's own
            self.personal.refresh()
        with self._reading():
            return contents.facets(self._connection)

    def favours(
        self, clip_ids: Sequence[str], where: str | None = None, left_out: str | None = None, query: str = ""
    ) -> Favours:
        """Compare the clips of a result with all clips that pass its filter, by source, on-screen text and length.

        Lengths are left out where the query or the filter chooses by them.
        """
        with self._reading():
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            population = self._populations(version, where)
            population = population.without(left_out) if left_out else population
            return favours(population, clip_ids, lengths_too=not selects_length(query, where))

    @cached_property
    def _populations(self) -> Callable[[int, str | None], Population]:
        """What passes a filter, kept in one state of the catalog."""
        return lru_cache(maxsize=2)(lambda version, where: read_clips(self._connection, self._filter(where)))

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read the library at one moment, whatever an indexer writes meanwhile; threads take turns."""
        with self._searcher.snapshot() as s:
            yield s

    @cached_property
    def encoder(self) -> Encoder | None:
        """The library's model, loaded when it is first needed and checked against the library's; None without vision.

        Raises:
            EncoderError: it cannot be loaded.
            LibraryError: it is not the model that the library was made with.
        """
        if not self._vision:
            return None
        encoder = self._given or load_pictures(self._meta["model"], self._device)
        if encoder.weights_hash != self._meta["weights_hash"]:
            raise OtherModelError(other_model(self.path, self._meta["encoder_id"], encoder.encoder_id))
        return encoder

    @property
    def made_with(self) -> tuple[str | None, str | None]:
        """Name and weights hash of the library's model when it was opened; None where it had none."""
        return self._meta.get("model") or None, self._meta.get("weights_hash")

    @cached_property
    def _searcher(self) -> Searcher:
        encoder = (lambda: self.encoder) if self._vision else None
        vectors = partial(open_vectors, self.path)
        found = Searcher(self._connection, vectors, encoder, self.path, self._filter, self._sounds)
        if self._vision and (address := engine_of(self.path)):
            from evenreel.library.engine import SeenByEngine

            found.engine = SeenByEngine(address).score
        return found

    def _filter(self, where: str | None) -> Filter:
        """What a person wrote, understood; before a search too, so that no model is loaded for what is wrong."""
        personal = self.personal  # which tells the connection its functions
        with catalog.readable(self.path):
            found = read_filter(self._connection, where, relative_paths=self._relative_paths)
        if "personal_" in found.sql:
            personal.refresh()
        return found

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """The catalog at one moment; what cannot be read of it becomes one sentence."""
        with catalog.reading(self._connection, self.path), catalog.snapshot(self._connection):
            yield
