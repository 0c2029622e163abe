"""Search with several models at once: each ranks the clips by its own vectors, and the ranks are fused.

Similarities of two models have no common scale, ranks have: the clips stand by the sum of 1 / (60 + rank) over the
models (reciprocal rank fusion, as for the channels, see `evenreel.library.search.ranking`). A clip answers by its
frames where it beats enough nonsense by one of M models: for a false alarm to be no more frequent than with one model,
each has to say so M times as surely (Bonferroni), so the share of nonsense that is not beaten counts M times.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import EncoderError, LibraryError, UsageError
from evenreel.library.search.allowed import AllowedClips
from evenreel.library.search.gallery import (
    FrameGallery,
    FrameRanking,
    Opened,
    clip_vector,
    load_gallery,
    look,
)
from evenreel.library.search.hits import MomentHit
from evenreel.library.search.known_rows import ClipRows
from evenreel.library.search.moments import high_stretches
from evenreel.library.search.nearest import ExactlyScored
from evenreel.library.search.query import ClipMoment, ParsedQuery, picture_vector, unit
from evenreel.library.search.ranking import RANK_CONSTANT
from evenreel.library.snapshot.vectors import vectors_of
from evenreel.library.store import catalog, seals
from evenreel.library.store.also import ALSO, SOUNDS, further, other_model, place_of
from evenreel.library.store.rows import ClipTimes, clip_times
from evenreel.library.store.vectors import VectorIndex
from evenreel.types import Encoder, FloatArray

DECIMALS = 9
"""Decimals to which shares are rounded, so that 1 - 2 * (1 - 195 / 200) is 0.95."""

RERANKED_BY_OWN = (
    "All models chose the first clips; the matcher orders them by the vectors of the library's own model alone."
)
MOMENTS_BY_OWN = "Moments that a further model would have shown are those of the library's own model:"


class FurtherModel:
    """A further model of a library; its catalog is opened at the first search, so that a damaged one stops no other.

    Args:
        folder: folder of its vectors.
        name: name of the model.
        load: function that loads the model, called at the first search.
    """

    def __init__(self, folder: Path, name: str, load: Callable[[str], Encoder]) -> None:
        self.name, self._folder, self._load = name, folder, load
        self._opened: sqlite3.Connection | None = None
        self._file: int | None = None  # inode of the opened catalog
        self._read_at: int | None = None
        self._rows = ClipRows()
        self._gallery: FrameGallery
        self._vectors: VectorIndex | None = None

    def close(self) -> None:
        """Close its catalog, if it is open."""
        if self._opened is not None:
            self._opened.close()
        self._opened, self._read_at = None, None

    @property
    def is_there(self) -> bool:
        """Whether it has vectors on disk; an index run may not have begun them, or somebody has deleted them."""
        return (self._folder / catalog.CATALOG).exists()

    def encode(self, parsed: ParsedQuery) -> FloatArray | None:
        """Encode a query to a vector (D,) of unit length; None for a stored clip that the model has no vectors of.

        A stored clip needs no model: its vectors are there.

        Raises:
            EncoderError: the model cannot be loaded, or gives no usable vector.
            LibraryError: the model is another than that of the vectors, or these cannot be opened.
        """
        shown = parsed.query.shown
        if isinstance(shown, ClipMoment):
            return self._clip_vector(shown)
        if shown is not None:
            return unit(picture_vector(self.encoder, shown))
        return unit(self.encoder.encode_text([parsed.text or ""]).sentence[0])

    def _clip_vector(self, moment: ClipMoment) -> FloatArray | None:
        connection = self._connection()
        with catalog.reading(connection, self._folder), seals.snapshot(connection):
            self._refresh(connection)
            seals.check_clip(connection, moment.clip_id)
            found = clip_vector(Opened(self._folder, connection, self._gallery, self._vectors), *moment)
        return None if found is None else unit(found)

    def _connection(self) -> sqlite3.Connection:
        """Its catalog, opened anew where another one has taken the place of the one that was open."""
        path = self._folder / catalog.CATALOG
        file = path.stat().st_ino if path.exists() else None
        if self._opened is None or file != self._file:
            self.close()
            try:
                self._opened, self._file = catalog.open_for_reading(self._folder), file
            except LibraryError as error:
                if self.is_there:
                    raise
                raise LibraryError(
                    f"Its vectors were dropped while the search was under way ({self._folder})."
                ) from error
        return self._opened

    @cached_property
    def encoder(self) -> Encoder:
        """The model, loaded at the first search.

        Raises:
            EncoderError: it cannot be loaded.
            LibraryError: it is another one than that of the vectors, or these cannot be opened.
        """
        connection = self._connection()
        with catalog.reading(connection, self._folder):
            meta = catalog.get_meta(connection)
        encoder = self._load(self.name)
        if encoder.weights_hash != meta.get("weights_hash", encoder.weights_hash):
            raise LibraryError(other_model(self._folder, meta["encoder_id"], encoder.encoder_id))
        return encoder

    def sight(self, vector: FloatArray, allowed: AllowedClips, wanted: ExactlyScored) -> Sight | None:
        """Rank the allowed clips for a vector (D,); None where no clip has vectors.

        Raises:
            LibraryError: the vectors are damaged or cannot be read.
        """
        if not self.is_there:
            return None
        connection = self._connection()
        with catalog.reading(connection, self._folder), seals.snapshot(connection):
            self._refresh(connection)
            if self._vectors is None or not self._gallery.clip_ids:
                return None
            ranking = look(self._gallery, self._vectors, vector, allowed, wanted)
        opened = Opened(self._folder, connection, self._gallery, self._vectors)
        return Sight(opened, vector, ranking)

    def _refresh(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._read_at:
            self._vectors = vectors_of(self._folder, catalog.get_meta(connection))
            self._gallery, self._read_at = load_gallery(connection, self._rows), version


class FurtherModels:
    """The further models that a library's catalog names, those whose vectors are there one after another.

    Args:
        library: folder of the library.
        load: loads a model by its name, called at the first search that asks it.
        entry: entry of the catalog that names them.
    """

    def __init__(self, library: Path, load: Callable[[str], Encoder], entry: str = ALSO) -> None:
        self._library, self._load, self._entry = library, load, entry
        self._models: dict[tuple[Path, str], FurtherModel] = {}

    def __iter__(self) -> Iterator[FurtherModel]:
        return (model for model in self._models.values() if model.is_there)

    def refresh(self, meta: Mapping[str, str]) -> None:
        """Take up the models that entries of the catalog name, and let go those that they name no longer."""
        named = [(place_of(self._library, folder), name) for folder, name in further(meta, self._entry).items()]
        before = self._models
        self._models = {one: before[one] if one in before else FurtherModel(*one, self._load) for one in named}
        for one in before.keys() - self._models.keys():
            before[one].close()

    def close(self) -> None:
        """Close the catalogs of all models."""
        self.refresh({})


class OtherModels:
    """The models that a library is searched with beside its own.

    Args:
        library: folder of the library.
        load: loads a model of pictures by its name, called at the first search that asks it.
        load_sound: loads a model of sounds.

    Attributes:
        further: models of pictures.
        sounds: the model of sounds, if there is one.
    """

    def __init__(self, library: Path, load: Callable[[str], Encoder], load_sound: Callable[[str], Encoder]) -> None:
        self.further, self.sounds = FurtherModels(library, load), FurtherModels(library, load_sound, SOUNDS)

    def refresh(self, meta: Mapping[str, str]) -> None:
        """Take up the models that entries of the catalog name, and let go those that they name no longer."""
        for models in (self.further, self.sounds):
            models.refresh(meta)

    def close(self) -> None:
        """Close the catalogs of all models."""
        self.refresh({})


@dataclass(frozen=True, eq=False)
class Sight:
    """What a model sees for a query.

    Attributes:
        opened: the clips with vectors by the model.
        vector: (D,) the query, unit length.
        ranking: scores and ranks of the clips.
    """

    opened: Opened
    vector: FloatArray
    ranking: FrameRanking

    def stretches(self, clip_id: str, times: ClipTimes | None = None) -> list[MomentHit]:
        """Find the stretches of a clip that answer best; none of a clip without vectors.

        Args:
            clip_id: the clip.
            times: times of its frames and shots; None to read them.

        Raises:
            LibraryError: it has another number of frames than of vectors, or the vectors cannot be read.
        """
        gallery, vectors = self.opened.gallery, self.opened.vectors
        place = gallery.place.get(clip_id)
        if place is None or vectors is None:
            return []
        first, count = int(gallery.first_rows[place]), int(gallery.counts[place])
        if times is None:
            (times,) = clip_times(self.opened.connection, [clip_id])
        times.check(clip_id, count)
        return high_stretches(vectors.frame_scores(self.vector, first, count), times.spans_s, times.shots)


EncodedByFurther = list[tuple[FurtherModel, FloatArray]]
"""Further models, with a query as each encodes it, (D,)."""


def encoded(models: Iterable[FurtherModel], parsed: ParsedQuery) -> tuple[EncodedByFurther, list[str]]:
    """Encode a text by further models; return also notices of models that cannot, or of why none is used."""
    if parsed.vector is None or (parsed.text is None and parsed.query.shown is None):
        return [], []
    if parsed.query.neutral_source:
        return [], ["A neutral search is one by the library's own model alone."] if any(models) else []
    found, without = list[tuple[FurtherModel, FloatArray]](), []
    for model in models:
        try:
            vector = model.encode(parsed)
            found.extend([] if vector is None else [(model, vector)])
        except (LibraryError, EncoderError, UsageError) as error:
            without.append(left_out(model, error))
    return found, without


def sights_of(
    queries: EncodedByFurther, allowed: AllowedClips, wanted: ExactlyScored, notices: list[str]
) -> Iterator[Sight]:
    """Yield what further models see; one that cannot be read is left out with a notice."""
    for model, vector in queries:
        try:
            sight = model.sight(vector, allowed, wanted)
        except LibraryError as error:
            notices.append(left_out(model, error))
        else:
            if sight is not None:
                yield sight


def left_out(model: FurtherModel, error: Exception) -> str:
    """Return the notice on a search that goes on without a model, and why."""
    return f"The search went on without the model {model.name}: {error}"


def fused(sights: Sequence[Sight], others: int = 0) -> FrameRanking:
    """Fuse what several models see, the library's own first; scores stay those of its own.

    Args:
        sights: what each model sees; one alone is as it is, but for what it takes to fit.
        others: number of further models that may say that a clip fits.

    Raises:
        ValueError: there is no model.
    """
    own, clips = sights[0].ranking, sights[0].opened.gallery.clip_ids
    if len(sights) == 1:
        above = own.above_nonsense
        return own if above is None or not others else replace(own, above_nonsense=surest([above], others))
    searched = own.searched
    points, shares = np.zeros(len(clips)), []
    for sight in sights:
        ranking, rows = sight.ranking, sight.opened.gallery.clip_ids.places(clips.encoded)
        there = searched & (rows >= 0)
        points[there] += 1 / (RANK_CONSTANT + ranking.ranks[rows[there]])
        if ranking.above_nonsense is not None and sight.opened.gallery.measured:
            shares.append(np.where(there, ranking.above_nonsense[rows], 0.0))
    points[~searched] = -np.inf
    return FrameRanking(own.scores, points, surest(shares, others) if shares else None)


def surest(shares: Sequence[NDArray[np.float64]], others: int = 0) -> NDArray[np.float64]:
    """Return the share of nonsense that clips beat by one of M models, such that a false alarm is no more frequent.

    Args:
        shares: arrays (C,), the share of nonsense that each clip beats by each model.
        others: number of models beside these.

    >>> surest([np.array([0.975, 1.0, 0.9]), np.array([0.5, 0.2, 0.3])]).tolist()
    [0.95, 1.0, 0.8]
    """
    best = np.max(shares, axis=0)
    found: NDArray[np.float64] = np.round(np.maximum(0.0, 1 - (len(shares) + others) * (1 - best)), DECIMALS)
    return found


def best_sight(sights: Sequence[Sight], clip_id: str) -> Sight:
    """Return what the model sees that ranks a clip best; of equal ranks the library's own, which is the first."""
    if len(sights) == 1:  # counting the clips before this one looks at all of them
        return sights[0]

    def rank(sight: Sight) -> float:
        place = sight.opened.gallery.place.get(clip_id)
        return np.inf if place is None else float(sight.ranking.ranks_of(np.array([place]))[0])

    return min(sights, key=rank)


def stretches_of(sights: Sequence[Sight], clip_id: str, times: ClipTimes, notices: list[str]) -> list[MomentHit]:
    """Find the stretches of a clip by the model that ranks it best; by the library's own where that one's are damaged.

    Args:
        sights: what each model sees, the library's own first.
        clip_id: a clip whose rows in the library's own catalog are sound.
        times: times of its frames and shots in the library's own catalog.
        notices: receives a notice, once for all clips, where the library's own model had to do.
    """
    sight = best_sight(sights, clip_id)
    if sight is sights[0]:
        return sight.stretches(clip_id, times)
    connection, folder = sight.opened.connection, sight.opened.folder
    try:
        with catalog.reading(connection, folder), seals.snapshot(connection):
            seals.check_clip(connection, clip_id)
            return sight.stretches(clip_id)
    except LibraryError as error:
        if not any(notice.startswith(MOMENTS_BY_OWN) for notice in notices):
            notices.append(f"{MOMENTS_BY_OWN} {error}")
        return sights[0].stretches(clip_id, times)
