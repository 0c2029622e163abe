"""The channel `sounds`: clips by what they sound like, as a model of sounds hears sentences and windows of sound.

Among the sounds of a library one is always the nearest, so a clip is found only where its sound beats enough nonsense,
by the rule that frames are judged by (`evenreel.library.store.confidence`), and where frames may say so too, each of
both as much more surely (`as_one_of`). Its rank then weighs 1 where it fits, 0 where it hardly may, and goes straight
between. A query that asks for sounds alone ranks all of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.errors import EncoderError, LibraryError
from evenreel.library.search.allowed import AllowedClips
from evenreel.library.search.gallery import FrameGallery, Opened, Sight, load_gallery, look
from evenreel.library.search.hits import MomentHit
from evenreel.library.search.known_rows import ClipRows
from evenreel.library.search.moments import moments_of
from evenreel.library.search.nearest import ExactlyScored
from evenreel.library.search.query import Query, unit
from evenreel.library.search.ranked_clips import SPARE, ChannelColumns, RankedClips
from evenreel.library.search.ranking import RankedClip
from evenreel.library.search.shown_clips import ShownClip
from evenreel.library.store import catalog
from evenreel.library.store.confidence import FITS, MAY_FIT, as_one_of
from evenreel.library.store.model_folders import SOUNDS, models_of, other_sounds, place_of
from evenreel.library.store.vectors import VectorIndex
from evenreel.library.store.writer import open_vectors
from evenreel.types import Encoder, FloatArray

NO_SOUNDS = (
    "The library knows of nothing that its videos sound like: none were listened to (`evenreel index --sound MODEL` "
    "does)."
)


ToHear = tuple[Path, FloatArray]
"""Folder of vectors of sounds, and a query as their model encodes it, (D,)."""


class SoundModel:
    """The model of sounds that a library's catalog names, and its vectors.

    Both are opened at the first search that asks it, so that damaged ones stop no other.
    """

    def __init__(self, library: Path, load: Callable[[str], Encoder]) -> None:
        self._library, self._load = library, load
        self._named: tuple[Path, str] | None = None
        self._encoder: Encoder | None = None
        self._opened: sqlite3.Connection | None = None
        self._file: int | None = None  # inode of the opened catalog
        self._read_at: int | None = None
        self._rows = ClipRows()
        self._gallery: FrameGallery
        self._vectors: VectorIndex | None = None

    def refresh(self, meta: Mapping[str, str]) -> None:
        """Take up the model that entries of the catalog name, and let go one that they name no longer."""
        named = next(iter(models_of(meta, SOUNDS).items()), None)
        found = None if named is None else (place_of(self._library, named[0]), named[1])
        if found != self._named:
            self.close()
            self._named, self._encoder, self._rows = found, None, ClipRows()

    def close(self) -> None:
        """Close its catalog, if it is open."""
        if self._opened is not None:
            self._opened.close()
        self._opened, self._read_at = None, None

    @property
    def folder(self) -> Path | None:
        """Folder of the vectors; None where there are none yet, or somebody has deleted them."""
        folder = None if self._named is None else self._named[0]
        return folder if folder is not None and (folder / catalog.CATALOG).exists() else None

    @property
    def name(self) -> str:
        """Name of the model."""
        return "" if self._named is None else self._named[1]

    def encode(self, text: str) -> FloatArray:
        """Encode a sentence to a vector (D,) of unit length."""
        if self._encoder is None:
            folder, connection = self._connection()
            with catalog.reading(connection, folder):
                meta = catalog.get_meta(connection)
            encoder = self._load(self.name)
            if encoder.weights_hash != meta.get("weights_hash", encoder.weights_hash):
                raise LibraryError(other_sounds(self._library, meta["encoder_id"], encoder.encoder_id))
            self._encoder = encoder
        return unit(self._encoder.encode_text([text]).sentence[0])

    def hear(self, vector: FloatArray, allowed: AllowedClips, wanted: ExactlyScored) -> Sight | None:
        """Rank the allowed clips for a vector (D,); None where no clip has vectors."""
        folder, connection = self._connection()
        with catalog.reading(connection, folder), catalog.snapshot(connection):
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != self._read_at:
                self._vectors = open_vectors(folder, catalog.get_meta(connection))
                self._gallery, self._read_at = load_gallery(connection, self._rows), version
            if self._vectors is None or not self._gallery.clip_ids:
                return None
            ranking = look(self._gallery, self._vectors, vector, allowed, wanted)
        return Sight(Opened(folder, connection, self._gallery, self._vectors), vector, ranking)

    def _connection(self) -> tuple[Path, sqlite3.Connection]:
        """Its catalog, opened anew where another one has taken the place of the one that was open."""
        assert self._named is not None
        folder = self._named[0]
        path = folder / catalog.CATALOG
        file = path.stat().st_ino if path.exists() else None
        if self._opened is None or file != self._file:
            self.close()
            self._opened, self._file = catalog.open_for_reading(folder), file
        return folder, self._opened


def encoded_for_sounds(model: SoundModel, query: Query) -> tuple[ToHear | None, list[str]]:
    """Encode a query by the model of sounds; None where it is not asked, or with a notice where it cannot be."""
    asked, folder = query.asked, model.folder
    if asked is None or not asked.hears or query.move is not None:
        return None, []
    if folder is None:
        return None, [NO_SOUNDS] if asked.channels == {"sounds"} else []
    try:
        return (folder, model.encode(asked.text)), []
    except (LibraryError, EncoderError) as error:
        return None, [_left_out(model, error)]


def heard(
    model: SoundModel | None,
    query: ToHear | None,
    allowed: AllowedClips,
    wanted: ExactlyScored,
    notices: list[str],
) -> Sight | None:
    """Return what the model of sounds hears; None where it is another one meanwhile, or cannot be read."""
    if model is None or query is None or model.folder != query[0]:
        return None
    try:
        return model.hear(query[1], allowed, wanted)
    except LibraryError as error:
        notices.append(_left_out(model, error))
        return None


def _left_out(model: SoundModel, error: Exception) -> str:
    return f"The search went on without the model {model.name}: {error}"


def add_sounds(found: RankedClips, sight: Sight | None, enough: int, *, models: int, alone: bool) -> RankedClips:
    """Add what clips sound like to those that words found."""
    if sight is None:
        return found
    shares = _shares(sight, models)
    places = np.flatnonzero(shares >= MAY_FIT)
    if alone:
        places = np.union1d(places, sight.ranking.first(enough + SPARE))
    ids = sight.opened.gallery.clip_ids.encoded[places]
    rows, found = _rows_of(found, ids)
    columns = ChannelColumns(np.zeros(len(found), np.int64), np.zeros(len(found)), np.zeros(len(found)))
    columns.ranks[rows], columns.scores[rows] = sight.ranking.ranks_of(places), sight.ranking.scores[places]
    columns.weights[rows] = 1.0 if alone else sound_weight(shares[places])
    sounds = found.sounds.copy()
    sounds[rows] = shares[places]
    return replace(found, channels={**found.channels, "sounds": columns}, sounds=sounds)


def sound_weight(shares: Column) -> Column:
    """Return the weights of ranks by sound, (N,), by the shares of nonsense that are beaten.

    >>> sound_weight(np.array([0.9, 0.925, 0.95, 1.0])).round(3).tolist()
    [0.0, 0.5, 1.0, 1.0]
    """
    return np.clip((shares - MAY_FIT) / (FITS - MAY_FIT), 0.0, 1.0)


def _shares(sight: Sight, models: int) -> Column:
    """Share of nonsense that each clip's sound beats, (C,); NaN where that was not measured, 0 of one left out."""
    above = sight.ranking.above_nonsense
    if above is None or not sight.opened.gallery.measured:
        return np.full(len(sight.ranking.scores), np.nan)
    return np.where(sight.ranking.searched, as_one_of(above, models), 0.0)


def _rows_of(found: RankedClips, ids: np.ndarray) -> tuple[Indices, RankedClips]:
    """The rows of some clips, of which those that are new stand behind the others."""
    order = np.argsort(found.clip_ids)
    at = np.searchsorted(found.clip_ids, ids, sorter=order).clip(max=max(0, len(order) - 1))
    rows = np.full(len(ids), -1)
    if len(order):
        there = found.clip_ids[order[at]] == ids
        rows[there] = order[at[there]]
    new = rows < 0
    rows[new] = len(found) + np.arange(np.count_nonzero(new))
    return rows, found.with_more(ids[new])


@dataclass(frozen=True, eq=False)
class SeenAndHeard:
    """What both models say of the clips that are shown.

    Attributes:
        sight: what the model of pictures sees; None where frames were not asked.
        sounds: what the model of sounds hears; None for nothing.
        notices: receives notices where vectors are damaged, each once.
    """

    sight: Sight | None
    sounds: Sight | None
    notices: list[str]

    def moments(self, clip: RankedClip, shown: ShownClip) -> tuple[MomentHit, ...]:
        """Find the moments of a clip that answer."""
        seen = [] if self.sight is None else self.sight.stretches(clip.clip_id, shown.times)
        return moments_of(clip, shown.duration_s, seen, self._sound_stretches(clip))

    def _sound_stretches(self, clip: RankedClip) -> list[MomentHit]:
        """The stretches of a clip that sound like the query; none where its sound is no reason for it."""
        if self.sounds is None or not (clip.found_by == "sounds" or clip.answers_by("sounds")):
            return []
        return sound_stretches(self.sounds, clip.clip_id, self.notices)


def sound_stretches(sight: Sight, clip_id: str, notices: list[str]) -> list[MomentHit]:
    """Return the stretches of a clip that sound like the query; none, with one notice, where they are damaged."""
    connection, folder = sight.opened.connection, sight.opened.folder
    try:
        with catalog.reading(connection, folder), catalog.snapshot(connection):
            return sight.stretches(clip_id)
    except LibraryError as error:
        sentence = f"Moments by sound are left out: {error}"
        notices.extend([] if sentence in notices else [sentence])
        return []
