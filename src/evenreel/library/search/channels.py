"""What the channels of a search say of a library's clips, before any is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenreel.library.search.allowed import AllowedClips
from evenreel.library.search.answering import AnsweringClips
from evenreel.library.search.by_words import FoundByWords
from evenreel.library.search.gallery import FrameGallery, Opened, Sight
from evenreel.library.search.hits import Hit
from evenreel.library.search.query import ParsedQuery
from evenreel.library.search.ranking import RankedClip
from evenreel.library.search.shown_clips import ShownClip
from evenreel.library.search.sounds import SeenAndHeard
from evenreel.wording import count


@dataclass(frozen=True, eq=False)
class AskedChannels:
    """What the channels say of clips under one query.

    Attributes:
        opened: the library at that moment.
        parsed: the query.
        allowed: clips that may be found.
        gallery: clips with frames, and the scores of nonsense on them.
        by_words: what words find.
        answered: the clips that were found, and what the model sees.
        sounds: what the model of sounds hears; None for nothing.
        notices: sentences for a person.
    """

    opened: Opened
    parsed: ParsedQuery
    allowed: AllowedClips
    gallery: FrameGallery
    by_words: FoundByWords
    answered: AnsweringClips
    sounds: Sight | None
    notices: list[str]

    @property
    def measured(self) -> bool:
        """Whether it is told of clips that they are weaker matches."""
        return self.answered.sight is None or self.answered.found.above_nonsense is not None


def hit_of(clip: RankedClip, shown: ShownClip, path: str, evidence: SeenAndHeard) -> Hit:
    """Return a clip as it is shown, with the moments that answer."""
    return Hit(
        clip_id=clip.clip_id,
        path=path,
        score=clip.fused,
        weaker=clip.weaker,
        above_nonsense=clip.above_nonsense,
        written=clip.written,
        scores=clip.scores,
        moments=evidence.moments(clip, shown),
        on_screen=clip.on_screen,
        said=clip.said,
        sounds=clip.sounds,
        duration_s=shown.duration_s,
        metadata=shown.metadata_of(path),
        other_paths=other_paths(shown, path),
        parts=clip.parts,
        none_read="on_screen" in clip.parts and not shown.has_tracks,
    )


def other_paths(shown: ShownClip, path: str) -> tuple[str, ...]:
    """Return the other files of a clip."""
    return tuple(other for other, _ in shown.files if other != path)


def left_out(clip_ids: Sequence[str]) -> str:
    """Return the notice on damaged clips."""
    clips = count(len(clip_ids), "clip")
    return f"Left out: {clips} whose rows in the catalog are damaged; run `evenreel verify --repair`."


def united(notices: Sequence[Sequence[str]]) -> list[str]:
    """Return the notices of several queries, each once."""
    return list(dict.fromkeys(notice for some in notices for notice in some))
