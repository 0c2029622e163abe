"""The channel `sounds`: clips by what they sound like, as a model of sounds hears sentences and windows of sound.

Among the sounds of a library one is always the nearest, so a clip is found only where its sound beats enough nonsense,
by the rule that frames are judged by (`evenreel.library.store.confidence`), each of them as much more surely as there
are models that may say so (`evenreel.library.search.together`). Its rank then weighs 1 where it fits, 0 where it hardly
may, and goes straight between. A query that asks for sounds alone ranks all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.errors import EncoderError, LibraryError
from evenreel.library.search.allowed import AllowedClips
from evenreel.library.search.hits import MomentHit
from evenreel.library.search.moments import moments_of
from evenreel.library.search.nearest import ExactlyScored
from evenreel.library.search.query import ParsedQuery, unit
from evenreel.library.search.ranked_clips import SPARE, ChannelColumns, RankedClips
from evenreel.library.search.ranking import RankedClip
from evenreel.library.search.shown_clips import ShownClip
from evenreel.library.search.together import (
    EncodedByFurther,
    FurtherModel,
    OtherModels,
    Sight,
    encoded,
    left_out,
    sights_of,
    stretches_of,
    surest,
)
from evenreel.library.store import catalog, seals
from evenreel.library.store.confidence import FITS, MAY_FIT

NO_SOUNDS = (
    "The library knows of nothing that its videos sound like: none were listened to (`evenreel index --sound MODEL` "
    "does)."
)


BY_OWN = "A search with examples or 'without' is one by the library's own model alone."


@dataclass(frozen=True)
class OtherQueries:
    """A query as the models beside the library's own encode it.

    Attributes:
        seen: by models of pictures.
        heard: by the model of sounds, if there is one that can be asked.
    """

    seen: EncodedByFurther = field(default_factory=list)
    heard: EncodedByFurther = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of models that may say that a clip fits."""
        return len(self.seen) + len(self.heard)


def encoded_by_others(others: OtherModels | None, parsed: ParsedQuery) -> tuple[OtherQueries, list[str]]:
    """Encode a query by the models beside the library's own; return also notices of those that cannot, or why not."""
    if others is None:
        return OtherQueries(), []
    if parsed.query.move is not None:
        return OtherQueries(), [BY_OWN] if any(others.further) else []
    seen, unseen = encoded(others.further, parsed)
    heard, unheard = _encoded_for_sounds(others.sounds, parsed)
    return OtherQueries(seen, heard), [*unseen, *unheard]


def _encoded_for_sounds(models: Iterable[FurtherModel], parsed: ParsedQuery) -> tuple[EncodedByFurther, list[str]]:
    asked, found, notices = parsed.query.asked, list[tuple[FurtherModel, np.ndarray]](), list[str]()
    if asked is None or not asked.hears:
        return found, notices
    for model in models:
        try:
            found.append((model, unit(model.encoder.encode_text([asked.text]).sentence[0])))
        except (LibraryError, EncoderError) as error:
            notices.append(left_out(model, error))
    if not found and not notices and asked.channels == {"sounds"}:
        notices.append(NO_SOUNDS)
    return found, notices


def heard_by(
    queries: EncodedByFurther, allowed: AllowedClips, wanted: ExactlyScored, notices: list[str]
) -> Sight | None:
    """Return what the model of sounds hears; None where there is none, or it cannot be read."""
    return next(sights_of(queries, allowed, wanted, notices), None)


def add_sounds(found: RankedClips, sight: Sight | None, enough: int, *, models: int, alone: bool) -> RankedClips:
    """Add what clips sound like to those that words found.

    Args:
        found: clips that words found.
        sight: what the model of sounds hears; None for nothing.
        enough: number of clips that must be ranked where sounds alone are asked.
        models: number of models that may say that a clip fits.
        alone: whether sounds alone are asked, so that the nearest are ranked whatever nonsense they beat.
    """
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
    return np.where(sight.ranking.searched, surest([above], models - 1), 0.0)


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
    """What all models say of the clips that are shown.

    Attributes:
        sights: what each model of pictures sees, the library's own first; none where frames were not asked.
        sounds: what the model of sounds hears; None for nothing.
        notices: receives notices where vectors are damaged, each once.
    """

    sights: Sequence[Sight]
    sounds: Sight | None
    notices: list[str]

    def moments(self, clip: RankedClip, shown: ShownClip) -> tuple[MomentHit, ...]:
        """Find the moments of a clip that answer."""
        seen = stretches_of(self.sights, clip.clip_id, shown.times, self.notices) if self.sights else []
        return moments_of(clip, shown.duration_s, seen, self._sound_stretches(clip))

    def _sound_stretches(self, clip: RankedClip) -> list[MomentHit]:
        """The stretches of a clip that sound like the query; none where its sound is no reason for it."""
        if self.sounds is None or not (clip.found_by == "sounds" or clip.answers_by("sounds")):
            return []
        return sound_stretches(self.sounds, clip.clip_id, self.notices)


def sound_stretches(sight: Sight, clip_id: str, notices: list[str]) -> list[MomentHit]:
    """Return the stretches of a clip that sound like the query; none, with one notice, where they are damaged.

    Args:
        sight: what the model of sounds hears.
        clip_id: id of the clip.
        notices: receives the notice.
    """
    connection, folder = sight.opened.connection, sight.opened.folder
    try:
        with catalog.reading(connection, folder), seals.snapshot(connection):
            seals.check_clip(connection, clip_id)
            return sight.stretches(clip_id)
    except LibraryError as error:
        sentence = f"Moments by sound are left out: {error}"
        notices.extend([] if sentence in notices else [sentence])
        return []
