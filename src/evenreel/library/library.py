"""Reading a library: what search, the command line and the page use."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.config import RERANK_DEPTH
from evenreel.errors import OtherModelError, UsageError
from evenreel.library.asking.asked import (
    Question,
    as_question,
    filtered_by_people,
    queries_of,
    search_by_marks,
    search_in_order,
    search_without,
    words_vector,
)
from evenreel.library.asking.examples import Marked, picture_with_words
from evenreel.library.asking.steps import Then, Without
from evenreel.library.loading import load_pictures, load_sounds
from evenreel.library.people import clips_of_people
from evenreel.library.reading import LibraryContents
from evenreel.library.search.filters import below
from evenreel.library.search.hits import SearchResult
from evenreel.library.search.image import Picture, as_pixels
from evenreel.library.search.query import MOST_CLIPS, Query, picture_vector, readable, unit
from evenreel.library.search.searcher import Searcher
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.search.sounds import SoundModel
from evenreel.library.store import catalog
from evenreel.library.store.model_folders import other_model
from evenreel.library.store.writer import open_vectors
from evenreel.types import Corpus, Encoder, Pixels, ScoreBlocks

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained
    from evenreel.library.personal import PersonalData
    from evenreel.library.search.rerank import Reranker
    from evenreel.library.search.unlike import UnlikeClips
    from evenreel.library.tried_examples import TriedExample


_OF_SEVERAL = re.compile(r"then|without|person:", re.IGNORECASE)
"""What a text has that may be more than one sentence."""


class Library(LibraryContents):
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
        self._sounds = SoundModel(path, load or partial(load_sounds, device=device)) if vision else None
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
            text: what is to be seen, read or heard, in the language of `search.asked`, and `person:NAME` for clips that
                somebody is in; an `UnfinishedText` may be cut. With `then` between two of these, or a
                `Then`: clips in which a moment of one comes before one of the other (`asking.steps`). With `without`:
                clips that show what follows stand lower (`asking.steps`). A `Marked` has examples of what is right
                and wrong (`asking.examples`).
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
        asked: Question
        make = partial(Query, k=k, rerank_depth=rerank_depth)
        if isinstance(text, str) and not _OF_SEVERAL.search(text):
            asked, queries = text, [make(text=text, where=where)]
        else:
            asked, where, names = filtered_by_people(self.path, as_question(text), where)
            if names and asked == "":
                make(text="-")  # refuses a wrong number
                return clips_of_people(self.path, names, self.browse(where, "path", MOST_CLIPS), k)
            queries = queries_of(asked, partial(make, where=where))
        if where is not None:
            self._filter(where)
        if isinstance(asked, Then):
            return search_in_order(self._searcher, asked, queries, reranks=rerank is not None)
        if isinstance(asked, Without):
            sees = queries[0].asked is not None and queries[0].asked.sees
            encoder = self._encoder if sees else None
            return search_without(self._searcher, asked, queries[0], encoder, reranks=rerank is not None)
        if isinstance(asked, Marked):
            sees = bool(readable(asked.text)) and queries[0].asked is not None and queries[0].asked.sees
            encoder = self._encoder if sees else None
            return search_by_marks(
                self._searcher, asked, queries[0], encoder, self.clip_named, reranks=rerank is not None
            )
        query = queries[0] if rerank is None else replace(queries[0], reranker=self._reranker_of(rerank))
        return self._searcher.search(query)

    def tried_examples(self) -> list[TriedExample]:
        """Return up to three searches that some clip of the library fits, each of which was run.

        Raises:
            EncoderError: the model of the library cannot be loaded.
        """
        from evenreel.library.tried_examples import example_candidates, tried_examples

        with self._reading():
            candidates = example_candidates(self._connection)
        return tried_examples(candidates, lambda text: self.search(text, k=1))

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
        assert self._encoder is not None  # there is vision
        if self._reranker is None or self._reranker.pretrained is not pretrained:
            self._reranker = Reranker(pretrained, self._encoder)
        return self._reranker

    def search_image(
        self,
        image: Picture,
        k: int = 10,
        where: str | None = None,
        *,
        words: str | None = None,
    ) -> SearchResult:
        """Search for clips with a frame like a picture: a file, its bytes, a PIL image or pixels; see `search_pixels`.

        Raises:
            UsageError: the picture cannot be read, or the library has no vision.
            EncoderError: the model of the library cannot be loaded.
        """
        return self.search_pixels(as_pixels(image), k, where, words=words)

    def search_pixels(
        self,
        pixels: Pixels,
        k: int = 10,
        where: str | None = None,
        *,
        words: str | None = None,
    ) -> SearchResult:
        """Search for clips with a frame like a picture, (H, W, 3), and like words beside it ('at night'); see `search`.

        Raises:
            UsageError: the library has no vision.
            EncoderError: the model of the library cannot be loaded.
        """
        self._filter(where)
        if self._encoder is None:
            raise UsageError("The library has no vision, so a picture cannot be searched for.")
        vector = picture_vector(self._encoder, as_pixels(pixels))
        if words:
            vector = picture_with_words(unit(vector), words_vector(self._encoder, words))
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
        beside = words_vector(self._encoder, words) if words else None

        with self.snapshot():  # at one moment: the model may be exchanged beside it
            vector = self._searcher.clip_vector(clip_id, time_s)
            if beside is not None:
                vector = picture_with_words(vector, beside)
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
        from evenreel.library.search.folding import search_folded

        return search_folded(search, k, self._fold)

    def _fold(self, result: SearchResult) -> SearchResult:
        from evenreel.library.search.folding import fold_takes

        with self.snapshot() as s:
            return fold_takes(s, result)

    def highlights(self, folder: str | Path | None = None, k: int = 12, where: str | None = None) -> UnlikeClips:
        """Choose clips that are unlike the rest, by stored vectors, without the model.

        Args:
            folder: only clips with a file below this folder; None for all.
            k: most clips to return.
            where: a filter, as in `search`.

        Raises:
            UsageError: `k` is below 1, or the filter is wrong.
        """
        from evenreel.library.search.unlike import unlike_clips

        chosen = self._filter(where)
        if folder is not None:
            chosen = chosen & below(folder)
        with self.snapshot() as s:
            return unlike_clips(s, chosen, k)

    @property
    def personal(self) -> PersonalData:
        """Favourites, notes and saved searches of the library, to read and to write."""
        from evenreel.library.personal import PersonalData

        return PersonalData(self.path, self._personal, self.clip_named, self.search)

    def audit_inputs(self, queries: Sequence[str], *, every_clip: bool = False) -> tuple[Corpus, ScoreBlocks]:
        """Return clips and scores for an audit of this library, see `evenreel.library.audited`.

        Args:
            queries: sentences that people search for here.
            every_clip: include clips of unknown source, for audits that do not need it, such as that of lengths.

        Returns:
            The clips with frames and, unless `every_clip`, a known source, without captions; and the similarity of each
            query (`q1`, `q2`, ...) to each clip's best frame. The `notices` of the scores say how many clips are left
            out.

        Raises:
            CorpusError: a known source is required and no clip has one.
            UsageError: no query, an empty one, no vision, or no clip with frames.
            EncoderError: the model of the library cannot be loaded.
            LibraryError: the library is damaged.
        """
        from evenreel.library.audited import audited, encoded

        encoder = self._encoder
        if encoder is None:
            raise UsageError(f"The library {self.path} is searched without vision, so no similarity can be audited.")
        searched = encoded(queries, encoder)
        with self.snapshot() as s:
            return audited(s, searched, every_clip=every_clip)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read the library at one moment, whatever an indexer writes meanwhile; threads take turns."""
        with self._searcher.snapshot() as s:
            yield s

    @property
    def encoder(self) -> Encoder | None:
        """The library's model, loaded when it is first needed; None without vision."""
        return self._encoder

    @property
    def made_with(self) -> tuple[str | None, str | None]:
        """Name and weights hash of the library's model when it was opened; None where it had none."""
        return self._meta.get("model") or None, self._meta.get("weights_hash")

    @cached_property
    def _encoder(self) -> Encoder | None:
        """The model, loaded when it is first needed and checked against the library's."""
        if not self._vision:
            return None
        encoder = self._given or load_pictures(self._meta["model"], self._device)
        if encoder.weights_hash != self._meta["weights_hash"]:
            raise OtherModelError(other_model(self.path, self._meta["encoder_id"], encoder.encoder_id))
        return encoder

    @cached_property
    def _searcher(self) -> Searcher:
        """Kept between searches with all it has read."""
        encoder = (lambda: self._encoder) if self._vision else None
        vectors = partial(open_vectors, self.path)
        return Searcher(self._connection, vectors, encoder, self.path, self._filter, self._sounds)
