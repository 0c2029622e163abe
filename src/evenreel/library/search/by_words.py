"""What the channels of words find for a query: those that it asks, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evenreel.library.search.allowed import AllowedClips
from evenreel.library.search.asked import Asked
from evenreel.library.search.ranked_clips import RankedClips, found_by_words, nothing_found
from evenreel.library.search.ranking import RankedClip
from evenreel.library.search.sign_tracks import SignReader
from evenreel.library.search.text_match import SignMatches, about_hits, no_hits, on_screen_hits, said_hits

NOTHING_SAID = (
    "The library knows of nothing that is said: its videos have no subtitles, and none were heard (`evenreel index "
    "--speech MODEL` hears them)."
)
NOTHING_ON_SCREEN = "The library knows of no words on screen: none were read, or there are none."


@dataclass(frozen=True, eq=False)
class FoundByWords:
    """Clips that words found.

    Attributes:
        clips: the clips.
        signs: matches on screen; None where words were not asked.
        speech: matches in what is said; None where that was not asked, or nothing is known of it.
        notices: sentences for a person on what could not be asked.
    """

    clips: RankedClips = field(default_factory=nothing_found)
    signs: SignMatches | None = None
    speech: SignMatches | None = None
    notices: tuple[str, ...] = ()

    def give_texts(self, clips: Sequence[RankedClip]) -> None:
        """Read the signs and utterances that matched of some clips, and put them there."""
        ids = [clip.clip_id for clip in clips]
        if self.signs is not None:
            for clip, tracks in zip(clips, self.signs.hits_of(ids), strict=True):
                clip.on_screen = tracks
        if self.speech is not None:
            for clip, utterances in zip(clips, self.speech.hits_of(ids), strict=True):
                clip.said = utterances


def find_by_words(
    asked: Asked | None, signs: SignReader, speech: SignReader | None, allowed: AllowedClips, *, typing: bool = False
) -> FoundByWords:
    """Find clips by words on screen, what is said, names and captions, as far as a query asks for these."""
    if asked is None or not asked.reads:
        return FoundByWords()
    how = {"typing": typing, "exact": asked.exact}
    on_screen = on_screen_hits(signs, asked.text, allowed, **how) if "on_screen" in asked.channels else no_hits(signs)
    said = said_hits(speech, asked.text, allowed, **how) if speech is not None and "said" in asked.channels else None
    named = about_hits(signs.words, asked.text, allowed, **how) if "about" in asked.channels else []
    notices = []
    if asked.channels == {"said"} and (speech is None or not speech.count):
        notices.append(NOTHING_SAID)
    if asked.channels == {"on_screen"} and not signs.count:
        notices.append(NOTHING_ON_SCREEN)
    return FoundByWords(found_by_words(on_screen, named, said), on_screen, said, tuple(notices))
