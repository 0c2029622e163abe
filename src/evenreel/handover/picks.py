"""Stretches that are to be exported: from a search's result, or given by hand; and checked against their files."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from evenreel.errors import MediaError, UsageError
from evenreel.features import SetAside
from evenreel.files import printable, sync_file, sync_folder
from evenreel.handover import LEAST_S, MOST_STRETCHES, HandoverForm
from evenreel.media.workers import FileStamp

if TYPE_CHECKING:
    from evenreel.handover.frames import FileFacts

_OF_HIT = ("score", "weaker")
REASONS = ("query", "rank", *_OF_HIT)  # what a stretch keeps of the search that found it, beside the words


@dataclass(frozen=True)
class Pick:
    """A stretch of a clip of a library."""

    clip_id: str
    start_s: float  # of the timeline that a player shows
    end_s: float
    reason: dict[str, Any] = field(default_factory=dict)  # what the search said of it: its rank, score and words
    path: str = ""  # the one of its files that is meant, as the system names it; any where that is not there


@dataclass(frozen=True)
class Take:
    """A pick and the file that it is taken of."""

    pick: Pick
    path: str  # as the system names it
    shown_path: str  # as it is written into lists
    name: str  # for people
    stamp: FileStamp | None = None  # that the file must keep while it is read; None where that does not matter


@dataclass(frozen=True)
class CheckedTake:
    take: Take
    facts: FileFacts
    stretch: tuple[Fraction, Fraction]  # in seconds of the player's timeline

    @property
    def frames(self) -> range:
        return self.facts.frames(*self.stretch)

    @property
    def source_frames(self) -> range:
        """Numbers of its frames by the file's timecode."""
        first = self.facts.first_frame
        return range(first + self.frames.start, first + self.frames.stop)


def checked(take: Take, facts: FileFacts) -> CheckedTake:
    pick, wrong = take.pick, ""
    if not (math.isfinite(pick.start_s) and math.isfinite(pick.end_s)) or pick.end_s <= pick.start_s:
        wrong = "empty; give an end after its start"
    elif pick.start_s >= facts.duration_s or pick.end_s <= 0:
        wrong = f"outside of the clip, which is {float(facts.duration_s):.2f} s long"
    if wrong:
        raise MediaError("no_frames", f"the stretch from {pick.start_s:g} to {pick.end_s:g} s is {wrong}")
    start_s, end_s = max(Fraction(0), Fraction(pick.start_s)), min(Fraction(pick.end_s), facts.duration_s)
    return CheckedTake(take, facts, (start_s, end_s))


def stretches_of(document: Mapping[str, Any]) -> list[Pick]:
    """List the stretches of what `evenreel export --format json` writes, or of something like it."""
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
        texts = filter(None, (*hit["on_screen"], *hit["said"], hit.get("meaning")))
        words = [text["text"] for text in texts if text["start_s"] < end_s and text["end_s"] > start_s]
        found = {"rank": rank, "time_s": float(moment["time_s"])}
        reason = {**found, **{name: hit[name] for name in _OF_HIT}, "words": words}
        yield Pick(str(hit["clip_id"]), start_s, end_s, reason, str(hit.get("path") or ""))


def widened(start_s: float, end_s: float, duration_s: float | None) -> tuple[float, float]:
    """Widen a found stretch around its middle to `LEAST_S`, within its clip."""
    if end_s - start_s >= LEAST_S:
        return start_s, end_s
    latest_s = math.inf if duration_s is None else max(0.0, duration_s - LEAST_S)
    start_s = min(max(0.0, (start_s + end_s - LEAST_S) / 2), latest_s)
    return start_s, start_s + LEAST_S if duration_s is None else min(duration_s, start_s + LEAST_S)


LONGEST = 120  # bytes of a name without its suffix; systems take 255 with it
_FORBIDDEN = re.compile(r'[\\/:*?"<>|\x00-\x1f]')
_OF_WINDOWS = re.compile(r"(?i)con|prn|aux|nul|com\d|lpt\d")


def file_stem(name: str, fallback: str = "clip") -> str:
    r"""Make a name that every system takes of any text: no separators, no marks of Windows, not too long.

    >>> file_stem("a/b: what?"), file_stem("..\x1b"), file_stem("CON"), file_stem("東京.")
    ('a_b_ what_', '_x1b', '_CON', '東京')
    """
    stem = _FORBIDDEN.sub("_", printable(name)).strip(" .")
    stem = stem.encode("utf-8", "replace")[:LONGEST].decode("utf-8", "ignore").rstrip(" .")
    if _OF_WINDOWS.fullmatch(stem.partition(".")[0]):
        stem = f"_{stem}"
    return stem or fallback


def stretch_stem(name: str, start_s: Fraction, end_s: Fraction) -> str:
    """Name a stretch of a file.

    >>> stretch_stem("tram.mp4", Fraction(3723.5), Fraction(3725))
    'tram 01.02.03.500-01.02.05.000'
    """

    def clock(time_s: Fraction) -> str:
        minutes, rest = divmod(round(time_s * 1000), 60_000)
        return f"{minutes // 60:02}.{minutes % 60:02}.{rest // 1000:02}.{rest % 1000:03}"

    return f"{file_stem(PurePath(name).stem)} {clock(start_s)}-{clock(end_s)}"


def give_name(made: Path, folder: Path, stem: str, suffix: str) -> Path:
    """Move a whole file to a name in a folder where nothing is, numbered where it is taken; case makes no difference.

    Two that do so at once get a name each: a link replaces nothing, where the disk has links.
    """
    sync_file(made)
    here = {path.name.casefold() for path in folder.iterdir()}
    numbered = (f"{stem} ({number}){suffix}" for number in itertools.count(2))
    for name in itertools.chain([stem + suffix], numbered):
        if name.casefold() in here:
            continue
        try:
            os.link(made, folder / name)
        except FileExistsError:
            continue
        except OSError:
            made.replace(folder / name)
        made.unlink(missing_ok=True)
        break
    sync_folder(folder)
    return folder / name


@dataclass
class HandoverReport:
    """Files that were written, and one sentence on whatever was not."""

    files: list[Path] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)  # of a file or stretch, what is unusual about it
    set_aside: list[SetAside] = field(default_factory=list)  # stretches that are not in all of the files

    def note(self, name: str, sentence: str) -> None:
        if (printable(name), sentence) not in self.notes:
            self.notes.append((printable(name), sentence))

    def leave_out(self, take: Take | HandoverForm, error: Exception) -> None:
        """Tell why a stretch, or all of a form, is not written."""
        clip_id, name = ("", take) if isinstance(take, str) else (take.pick.clip_id, take.name)
        reason = error.reason if isinstance(error, MediaError) else "failed"
        sentence = str(error)
        if isinstance(error, OSError):
            sentence = f"it cannot be written ({(error.strerror or str(error)).lower()}); choose another place"
        self.set_aside.append(SetAside(clip_id, printable(name), reason, sentence))

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [printable(str(path)) for path in self.files],
            "notes": [{"name": name, "sentence": sentence} for name, sentence in self.notes],
            "set_aside": [one.to_json() for one in self.set_aside],
        }
