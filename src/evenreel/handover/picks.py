"""Stretches that are to be taken away: from a search's result, or given by hand; and checked against their files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from evenreel.errors import MediaError, UsageError
from evenreel.handover.settings import LEAST_S, MOST_STRETCHES
from evenreel.library.store.identity import changed
from evenreel.media.content import FileStamp

if TYPE_CHECKING:
    from evenreel.handover.facts import FileFacts

LATEST_S = 1e6
_OF_HIT = ("score", "weaker")
REASONS = ("query", "rank", *_OF_HIT)
"""What a stretch keeps of the search that found it, beside the words."""


@dataclass(frozen=True)
class Pick:
    """A stretch of a clip of a library.

    Attributes:
        clip_id: id of the clip.
        start_s: where it starts, in seconds of the timeline that a player shows.
        end_s: where it ends.
        reason: what the search said of it: its rank, score and words.
        path: the one of its files that is meant, as the system names it; any where that is not there.
    """

    clip_id: str
    start_s: float
    end_s: float
    reason: dict[str, Any] = field(default_factory=dict)
    path: str = ""

    def with_handles(self, handles_s: float) -> Pick:
        """Return the stretch with some seconds more on both sides."""
        return replace(self, start_s=max(0.0, self.start_s - handles_s), end_s=self.end_s + handles_s)


@dataclass(frozen=True)
class Take:
    """A pick and the file that it is taken of.

    Attributes:
        pick: the stretch.
        path: the file, as the system names it.
        shown_path: its path as it is written into lists.
        name: name of the file, for people.
        stamp: size and times that the file must keep while it is read; None where that does not matter.
    """

    pick: Pick
    path: str
    shown_path: str
    name: str
    stamp: FileStamp | None = None

    def check_unchanged(self) -> None:
        """Raise MediaError where the file is another one by now."""
        if self.stamp is None:
            return
        try:
            same = FileStamp.of(os.stat(self.path, follow_symlinks=False)) == self.stamp
        except OSError:
            same = False
        if not same:
            raise changed()


@dataclass(frozen=True)
class CheckedTake:
    """A take whose stretch lies in its file.

    Attributes:
        take: the take.
        facts: what the file says of its frames.
        stretch: start and end in seconds of the player's timeline, within the file.
    """

    take: Take
    facts: FileFacts
    stretch: tuple[Fraction, Fraction]

    @property
    def frames(self) -> range:
        """Numbers of its frames, from the file's first on."""
        return self.facts.frames(*self.stretch)

    @property
    def source_frames(self) -> range:
        """Numbers of its frames by the file's timecode."""
        first = self.facts.first_frame
        return range(first + self.frames.start, first + self.frames.stop)


def checked(take: Take, facts: FileFacts) -> CheckedTake:
    """Check that a stretch lies in its file; one that goes on after the file's end stops there."""
    pick = take.pick
    if not (math.isfinite(pick.start_s) and math.isfinite(pick.end_s)) or pick.end_s <= pick.start_s:
        raise MediaError(
            "no_frames", f"the stretch from {pick.start_s:g} to {pick.end_s:g} s is empty; give an end after its start"
        )
    if pick.start_s >= facts.duration_s or pick.end_s <= 0:
        raise MediaError(
            "no_frames",
            f"the stretch from {pick.start_s:g} to {pick.end_s:g} s is outside of the clip, which is "
            f"{float(facts.duration_s):.2f} s long",
        )
    start_s, end_s = max(Fraction(0), Fraction(pick.start_s)), min(Fraction(pick.end_s), facts.duration_s)
    return CheckedTake(take, facts, (start_s, end_s))


def stretches_of(document: Mapping[str, Any]) -> list[Pick]:
    """List the stretches of a document that `evenreel export --format json` wrote, or one like it."""
    try:
        picks = [
            Pick(
                str(one["clip_id"]),
                float(one["start_s"]),
                float(one["end_s"]),
                {
                    **{name: one[name] for name in REASONS if one.get(name) is not None},
                    "words": [str(word) for word in one.get("words") or ()],
                },
                str(one.get("path") or ""),
            )
            for one in document["stretches"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError("A list of stretches needs clip_id, start_s and end_s of each.") from error
    _check_count(picks)
    return picks


def _check_count(picks: Sequence[Pick]) -> None:
    if len(picks) > MOST_STRETCHES:
        raise UsageError(f"{len(picks):,} stretches are more than {MOST_STRETCHES:,}, the limit; ask for fewer.")


def picks_of(result: Mapping[str, Any], *, every_moment: bool = False, others: bool = False) -> list[Pick]:
    """List the stretches that a search has found, as `evenreel search --json` writes it: the best of each hit."""
    try:
        hits = result["hits"] if others else result["hits"][: result["answering"]]
        picks = [pick for rank, hit in enumerate(hits, 1) for pick in _of_hit(rank, hit, every_moment)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError("That is no result of a search; give what `evenreel search --json` prints.") from error
    _check_count(picks)
    return [replace(pick, reason={"query": result.get("query"), **pick.reason}) for pick in picks]


def _of_hit(rank: int, hit: Mapping[str, Any], every_moment: bool) -> Iterator[Pick]:
    moments: Sequence[Mapping[str, Any]] = hit["moments"]
    duration_s = hit["duration_s"]
    for moment in moments if every_moment else moments[:1]:
        start_s, end_s = widened(float(moment["start_s"]), float(moment["end_s"]), duration_s)
        words = [text["text"] for text in (*hit["on_screen"], *hit["said"]) if _overlaps(text, start_s, end_s)]
        reason = {
            "rank": rank,
            "time_s": float(moment["time_s"]),
            **{name: hit[name] for name in _OF_HIT},
            "words": words,
        }
        yield Pick(str(hit["clip_id"]), start_s, end_s, reason, str(hit.get("path") or ""))


def _overlaps(text: Mapping[str, Any], start_s: float, end_s: float) -> bool:
    return bool(text["start_s"] < end_s and text["end_s"] > start_s)


def widened(start_s: float, end_s: float, duration_s: float | None) -> tuple[float, float]:
    """Widen a found stretch around its middle to `LEAST_S`, within its clip.

    >>> widened(5.0, 5.0, 60.0), widened(0.5, 0.5, 60.0), widened(1.0, 9.0, 60.0), widened(59.5, 60.0, 60.0)
    ((4.0, 6.0), (0.0, 2.0), (1.0, 9.0), (58.0, 60.0))
    """
    if end_s - start_s >= LEAST_S:
        return start_s, end_s
    latest_s = math.inf if duration_s is None else max(0.0, duration_s - LEAST_S)
    start_s = min(max(0.0, (start_s + end_s - LEAST_S) / 2), latest_s)
    return start_s, start_s + LEAST_S if duration_s is None else min(duration_s, start_s + LEAST_S)
