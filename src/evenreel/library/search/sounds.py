"""The channel `sounds`: clips by what they sound like, as a model of sounds hears sentences and windows of sound.

Among the sounds of a library one is always the nearest, so a clip is found only where its sound beats enough nonsense,
by the rule that frames are judged by (`evenreel.library.store.confidence`), and where frames may say so too, each of
both as much more surely (`as_one_of`). Its rank then weighs 1 where it fits, 0 where it hardly may, and goes straight
between. A query that asks for sounds alone ranks all of them.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenreel.arrays import Column, Flags, Indices
from evenreel.errors import EncoderError, LibraryError
from evenreel.library.search import seen
from evenreel.library.search.hits import MomentHit
from evenreel.library.search.query import EncodedQuery, Query, unit
from evenreel.library.search.rank import ChannelColumns, ranks_of
from evenreel.library.search.snapshot import Snapshot, SnapshotReader
from evenreel.library.store import catalog
from evenreel.library.store.confidence import FITS, MAY_FIT, as_one_of
from evenreel.library.store.model_folders import SOUNDS, models_of, other_sounds, place_of
from evenreel.library.store.writer import open_vectors
from evenreel.types import Encoder, FloatArray

NO_SOUNDS = (
    "The library knows of nothing that its videos sound like: none were listened to (`evenreel index --set "
    "sound=MODEL` does)."
)


class SoundModel:
    """The model of sounds that a library's catalog names, and its vectors: a catalog of their own.

    Both are opened at the first search that asks it, so that damaged ones stop no other.
    """

    def __init__(self, library: Path, load: Callable[[str], Encoder]) -> None:
        self._library, self._load = library, load
        self._named: tuple[Path, str] | None = None
        self._encoder: Encoder | None = None
        self._opened: sqlite3.Connection | None = None
        self._reader: SnapshotReader | None = None
        self._file: int | None = None  # inode of the opened catalog

    def refresh(self, meta: Mapping[str, str]) -> None:
        """Take up the model that entries of the catalog name, and let go one that they name no longer."""
        named = next(iter(models_of(meta, SOUNDS).items()), None)
        found = None if named is None else (place_of(self._library, named[0]), named[1])
        if found != self._named:
            self.close()
            self._named, self._encoder = found, None

    def close(self) -> None:
        """Close its catalog, if it is open."""
        if self._opened is not None:
            self._opened.close()
        self._opened = self._reader = None

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
            with self.snapshot() as own:
                meta = own.meta
            encoder = self._load(self.name)
            if encoder.weights_hash != meta.get("weights_hash", encoder.weights_hash):
                raise LibraryError(other_sounds(self._library, meta["encoder_id"], encoder.encoder_id))
            self._encoder = encoder
        return unit(self._encoder.encode_text([text]).sentence[0])

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read its catalog at one moment; opened anew where another has taken the place of the one that was open."""
        assert self._named is not None
        folder = self._named[0]
        path = folder / catalog.CATALOG
        file = path.stat().st_ino if path.exists() else None
        if self._opened is None or self._reader is None or file != self._file:
            self.close()
            self._opened, self._file = catalog.open_for_reading(folder), file
            self._reader = SnapshotReader(
                self._opened, lambda meta: open_vectors(folder, meta), folder, keeps_model=False
            )
        with self._reader.snapshot() as own:
            yield own


@dataclass(frozen=True, eq=False)
class Heard:
    """What a model of sounds hears of clips for a query."""

    model: SoundModel  # the model
    vector: FloatArray  # (D,) the query
    columns: ChannelColumns  # its channel; C places of the library
    shares: Column  # (C,) share of nonsense that each clip's sound beats; NaN where its sound did not find it
    measured: bool  # whether nonsense was scored on its sounds
    own: Indices  # (C,) the place of each clip in the catalog of the sounds

    def stretches(self, clip_id: str, place: int, notices: list[str]) -> list[MomentHit]:
        """Find the stretches of a clip that sound like the query; none, with one notice, where they are damaged."""
        try:
            with self.model.snapshot() as own:
                times = seen.times_of(own, [clip_id])[clip_id]
                return seen.stretches(own, self.vector, int(self.own[place]), times)
        except LibraryError as error:
            sentence = f"Moments by sound are left out: {error}"
            notices.extend([] if sentence in notices else [sentence])
            return []


def encoded_for_sounds(model: SoundModel, query: Query) -> tuple[tuple[Path, FloatArray] | None, list[str]]:
    """Encode a query by the model of sounds; None where it is not asked, or with a notice where it cannot be."""
    if query.asked is None or "sounds" not in query.channels or query.moved is not None:
        return None, []
    folder = model.folder
    if folder is None:
        return None, [NO_SOUNDS] if query.channels == {"sounds"} else []
    try:
        return (folder, model.encode(query.asked.text)), []
    except (LibraryError, EncoderError) as error:
        return None, [_left_out(model, error)]


def score(s: Snapshot, model: SoundModel, encoded: EncodedQuery, allowed: Flags, notices: list[str]) -> Heard | None:
    """Score the allowed clips (C,) by their sound; None where the model is another meanwhile, or cannot be read.

    Where frames may say that a clip fits as well, each has to say it as much more surely. Asked alone, sounds rank all
    clips that have any.
    """
    to_hear, alone = encoded.to_hear, encoded.query.channels == {"sounds"}
    if to_hear is None or model.folder != to_hear[0]:
        return None
    models = 1 + (encoded.vector is not None and s.vectors is not None)
    try:
        with model.snapshot() as own:
            if own.vectors is None or not len(own.seen):
                return None
            places = _places(s, own)
            inside = np.zeros(len(own.there), np.bool_)
            inside[own.seen] = allowed[places[own.seen]]
            scores = seen.score(own, to_hear[1], inside)
            above = seen.above(own, scores)
            measured = own.measured
    except LibraryError as error:
        notices.append(_left_out(model, error))
        return None
    shares = np.full(len(scores), np.nan) if above is None else np.where(inside, as_one_of(above, models), 0.0)
    found = shares >= MAY_FIT
    if alone:
        found |= inside
    weights = 1.0 if alone else np.clip((shares - MAY_FIT) / (FITS - MAY_FIT), 0.0, 1.0)
    ranks = np.where(found, ranks_of(scores, inside), 0)
    clips, there = len(s.there), np.flatnonzero(found)
    columns = ChannelColumns(np.zeros(clips, np.int64), np.zeros(clips), np.zeros(clips))
    columns.ranks[places[there]], columns.scores[places[there]] = ranks[there], scores[there]
    columns.weights[places[there]] = weights if alone else weights[there]  # type: ignore[index]
    of_clips, back = np.full(clips, np.nan), np.zeros(clips, np.int64)
    of_clips[places[there]], back[places] = shares[there], np.arange(len(places))
    return Heard(model, to_hear[1], columns, of_clips, measured, back)


def _places(s: Snapshot, own: Snapshot) -> Indices:
    """The places in the library of the clips of a catalog of sounds, (C,); 0 of one that it does not have."""
    known = s.kept.get("sounds")
    if known is None or known[0] is not own:
        found = np.zeros(len(own.there), np.int64)
        found[own.seen] = s.places(own.seen_ids)
        s.kept["sounds"] = known = (own, found)
    places: Indices = known[1]
    return places


def _left_out(model: SoundModel, error: Exception) -> str:
    return f"The search went on without the model {model.name}: {error}"
