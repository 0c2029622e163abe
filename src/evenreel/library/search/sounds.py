"""The channel `sounds`: clips by what they sound like, as a model of sounds hears sentences and windows of sound.

It is the channel `seen` over another matrix. Among the sounds of a library one is always the nearest, so a clip is
found only where its sound beats enough nonsense, by the rule that frames are judged by
(`evenreel.library.store.vectors`), and where frames may say so too, each of both as much more surely (`as_one_of`).
Its rank then weighs 1 where it fits, 0 where it hardly may, and goes straight between. A query that asks for sounds
alone ranks all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenreel.arrays import Column, Flags
from evenreel.errors import EncoderError, LibraryError
from evenreel.library.search import seen
from evenreel.library.search.hits import MomentHit
from evenreel.library.search.query import EncodedQuery, Query, unit
from evenreel.library.search.rank import ChannelColumns, ranks_of
from evenreel.library.search.snapshot import ClipColumns, Snapshot
from evenreel.library.store.catalog import other_sounds
from evenreel.library.store.vectors import FITS, MAY_FIT, SOUNDS, as_one_of, load_null_best
from evenreel.library.store.writer import open_vectors
from evenreel.types import Encoder, FloatArray

NO_SOUNDS = (
    "The library knows of nothing that its videos sound like: none were listened to (`evenreel index --set "
    "sound=MODEL` does)."
)


class SoundModel:
    """The model of sounds that a library names; loaded by the first search that asks it."""

    def __init__(self, library: Path, load: Callable[[str], Encoder]) -> None:
        self._library, self._load = library, load
        self._encoder: Encoder | None = None

    def encode(self, meta: Mapping[str, str], text: str) -> FloatArray:
        """Encode a sentence to a vector (D,) of unit length by the model that entries of the catalog name."""
        weights_hash = meta.get("weights_hash")
        if self._encoder is None or self._encoder.weights_hash != weights_hash:
            encoder = self._load(meta["encoder_id"])
            if encoder.weights_hash != weights_hash:
                raise LibraryError(other_sounds(self._library, meta["encoder_id"], encoder.encoder_id))
            self._encoder = encoder
        return unit(self._encoder.encode_text([text]).sentence[0])


@dataclass(frozen=True, eq=False)
class Heard:
    """What a model of sounds hears of clips (C,) for a query."""

    s: Snapshot  # the library with the matrix of sounds
    vector: FloatArray  # (D,) the query
    columns: ChannelColumns  # its channel
    shares: Column  # share of nonsense that each clip's sound beats; NaN where its sound did not find it

    def stretches(self, clip_id: str, place: int, notices: list[str]) -> list[MomentHit]:
        """Find the stretches of a clip that sound like the query; none, with one notice, where they are damaged."""
        try:
            return seen.stretches(self.s, self.vector, place, seen.times_of(self.s, [clip_id])[clip_id])
        except LibraryError as error:
            sentence = f"Moments by sound are left out: {error}"
            notices.extend([] if sentence in notices else [sentence])
            return []


def of_sounds(s: Snapshot) -> Snapshot | None:
    """Return the same library with its matrix of sounds in the place of that of frames; None where it has none."""
    if SOUNDS not in s.kept:
        meta, s.kept[SOUNDS] = SOUNDS.own(s.meta), None
        if s.folder is not None and meta.get("dimension"):
            columns = s.held.setdefault(SOUNDS, ClipColumns(SOUNDS)).read(s.connection, meta["vectors_generation"])
            vectors, null_best = open_vectors(s.folder, s.meta, SOUNDS), load_null_best(meta)
            s.kept[SOUNDS] = replace(s, **columns, vectors=vectors, null_best=null_best, of=SOUNDS, kept={})
    found: Snapshot | None = s.kept[SOUNDS]
    return found


def encode(model: SoundModel, query: Query, meta: Mapping[str, str]) -> tuple[tuple[str, FloatArray] | None, list[str]]:
    """Encode a query by the model of sounds; None where it is not asked, or with a notice where it cannot be.

    With the vector goes the digest of the model. `meta` are the entries of the catalog that name it.
    """
    if query.asked is None or "sounds" not in query.channels or query.moved is not None:
        return None, []
    if not meta.get("weights_hash"):
        return None, [NO_SOUNDS] if query.channels == {"sounds"} else []
    try:
        return (meta["weights_hash"], model.encode(meta, query.asked.text)), []
    except (LibraryError, EncoderError) as error:
        return None, [_left_out(meta, error)]


def score(s: Snapshot, encoded: EncodedQuery, allowed: Flags, notices: list[str]) -> Heard | None:
    """Score the allowed clips (C,) by their sound; None where the model is another meanwhile, or cannot be read.

    Where frames may say that a clip fits as well, each has to say it as much more surely. Asked alone, sounds rank all
    clips that have any.
    """
    to_hear, alone = encoded.to_hear, encoded.query.channels == {"sounds"}
    heard = None if to_hear is None else of_sounds(s)
    if to_hear is None or heard is None or not len(heard.seen):
        return None
    if SOUNDS.own(s.meta).get("weights_hash") != to_hear[0]:
        return None
    try:
        scores = seen.score(heard, to_hear[1], allowed)
    except LibraryError as error:
        notices.append(_left_out(SOUNDS.own(s.meta), error))
        return None
    inside, above = np.isfinite(scores), seen.above(heard, scores)
    models = 1 + (encoded.vector is not None and s.vectors is not None)
    shares = np.full(len(scores), np.nan) if above is None else as_one_of(above, models)
    found = inside if alone else shares >= MAY_FIT
    weights = 1.0 if alone else np.clip(np.nan_to_num((shares - MAY_FIT) / (FITS - MAY_FIT)), 0.0, 1.0)
    columns = ChannelColumns(
        np.where(found, ranks_of(scores, inside), 0), weights, np.where(found, scores, 0.0).astype(np.float64)
    )
    return Heard(heard, to_hear[1], columns, np.where(found, shares, np.nan))


def _left_out(meta: Mapping[str, str], error: Exception) -> str:
    return f"The search went on without the model {meta.get('encoder_id', '')}: {error}"
