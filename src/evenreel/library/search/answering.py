"""What frames add to the clips that words found, exactly for all clips that may be shown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenreel.arrays import Indices
from evenreel.library.search.gallery import FrameGallery, Sight, look_again
from evenreel.library.search.ranked_clips import SPARE, RankedClips, add_seen
from evenreel.library.store.confidence import as_one_of


@dataclass(frozen=True, eq=False)
class AnsweringClips:
    """Clips that the channels of a search found.

    Attributes:
        found: the clips.
        sight: what the model sees; None for a search by words alone.
        beside: how many clips beside these are no weaker matches.
    """

    found: RankedClips
    sight: Sight | None = None
    beside: int = 0


@dataclass(frozen=True, eq=False)
class Answering:
    """Puts what words found and what the model sees together.

    Attributes:
        gallery: clips that the model sees.
        enough: number of clips that must be ranked by frames.
        measured: whether it says something how much nonsense a clip beats.
        others: number of models beside it that may say that a clip matches.
    """

    gallery: FrameGallery
    enough: int
    measured: bool
    others: int = 0

    def answered(self, written: RankedClips, sight: Sight) -> AnsweringClips:
        """Rank the clips; those that may be shown are scored exactly.

        Clips that words found may be shown however far they are from the nearest by frames, which alone are scored
        exactly at first. Exact scores may bring others to the front, so it goes on until all of these are exact.
        """
        while True:
            above = sight.ranking.above_nonsense if self.measured else None
            seen = replace(sight.ranking, above_nonsense=None if above is None else as_one_of(above, 1 + self.others))
            found, beside = add_seen(written, self.gallery, seen, self.enough)
            first = self.gallery.clip_ids.places(found.clip_ids[found.best(self.enough + SPARE)])
            again = self._exactly(sight, first[first >= 0])
            if again is None:
                return AnsweringClips(found, sight, beside)
            sight = again

    def _exactly(self, sight: Sight, places: Indices) -> Sight | None:
        vectors = sight.opened.vectors
        if vectors is None:
            return None
        ranking = look_again(sight.ranking, self.gallery, vectors, sight.vector, places)
        return None if ranking is None else replace(sight, ranking=ranking)
