"""Clips of a corpus after an edit of their pictures, as files under the same ids: for any system that reads videos."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from evenreel.config import MediaLimits
from evenreel.corpus import make_corpus, save_corpus
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.features.clips import Clip, clips_of
from evenreel.features.facts import FACTS, FactSettings, clip_facts
from evenreel.features.folder import remove_leftovers
from evenreel.features.lock import writer_lock
from evenreel.features.settings import ClipAside
from evenreel.files import write_durably
from evenreel.media.content import stamp
from evenreel.media.encode import clip_bytes
from evenreel.media.workers import Worker
from evenreel.progress import Progress
from evenreel.types import Corpus, Pixels

READER = "evenreel.media.moments:MomentReader"
PAGE, CLIPS = "edited.json", "clips"
MOST_BYTES = 256 * 2**20
"""Pixels of one clip that are held at a time; a longer or larger one gets fewer frames a second."""

_LOOKING = 0.05
"""Share of the work that is put down to headers."""

_VERSION = 1
"""Of how clips are written; those of another one are written anew."""


class ClipEdit(Protocol):
    """An edit of the pictures of clips."""

    @property
    def described(self) -> Mapping[str, Any]:
        """Identity of the edit for all clips, ready for `json.dumps`."""

    def described_of(self, clip_id: str) -> Sequence[str]:
        """Return the identity of the edit for one clip, beside `described`."""

    def __call__(self, clip_id: str, pixels: Pixels) -> Pixels:
        """Edit the frames (T, 3, H, W) of a clip, as many after as before; a MediaError sets the clip aside."""


@dataclass(frozen=True)
class ClipEditSettings:
    """Settings of reading and writing edited clips.

    Attributes:
        videos: folder in which the paths of the clips begin.
        fps: frames a second of the new clips; a video that has fewer keeps its own.
        limits: limits of one clip.

    Raises:
        UsageError: the rate is not above 0.
    """

    videos: Path = Path()
    fps: float = 4.0
    limits: MediaLimits = field(default_factory=MediaLimits)

    def __post_init__(self) -> None:
        if not 0 < self.fps < float("inf"):
            raise UsageError(f"{self.fps} frames a second are asked for; give a number above 0.")


@dataclass
class ClipEditReport:
    """Report of a run that edits clips.

    Attributes:
        folder: folder of the new corpus.
        written: clips that were written now.
        unchanged: clips that were there.
        set_aside: clips of the old corpus that are not in the new one.
        seconds: length of the run.
        notices: notices about the new corpus, a sentence each.
    """

    folder: str
    written: int = 0
    unchanged: int = 0
    set_aside: list[ClipAside] = field(default_factory=list)
    seconds: float = 0.0
    notices: list[str] = field(default_factory=list)


def edit_clips(
    corpus: Corpus,
    folder: str | Path,
    edit: ClipEdit,
    settings: ClipEditSettings,
    progress: Progress = lambda share: None,
) -> ClipEditReport:
    """Write the clips of a corpus after an edit, and the corpus of these clips; a clip that is there is left alone.

    Args:
        corpus: the clips; ids and captions stay.
        folder: folder of the new corpus and its clips; made where it is missing.
        edit: edits each clip.
        settings: folder of the videos, and the rate of the new ones.
        progress: called with the share that is done.

    Raises:
        CorpusError: the folder holds another corpus, is in use or cannot be written; no clip can be used.
    """
    folder, started = Path(folder), time.monotonic()
    with writer_lock(folder, CorpusError, "choose another --out"):
        _claim(folder, {"version": _VERSION, "fps": settings.fps, **edit.described})
        remove_leftovers(folder)
        header = FactSettings(settings.videos, folder / FACTS, limits=settings.limits)
        facts = clip_facts(corpus, header, lambda share: progress(_LOOKING * share))
        report = ClipEditReport(str(folder), set_aside=[*facts.set_aside])
        editor = _Editor(folder, edit, settings)
        written: dict[str, tuple[str, int, float]] = {}
        try:
            for done, (clip, fact) in enumerate(_readable(corpus, facts.table), start=1):
                try:
                    new, written[clip.clip_id] = editor.write(clip, fact)
                    report.written += new
                    report.unchanged += not new
                except MediaError as error:
                    report.set_aside.append(ClipAside(clip.clip_id, clip.path, error.reason, str(error)))
                progress(_LOOKING + (1 - _LOOKING) * done / facts.table.height)
        finally:
            editor.close()
        _save(corpus, folder, written, report)
    report.seconds = time.monotonic() - started
    return report


@dataclass(frozen=True)
class _Fact:
    """What the header says."""

    width: int
    height: int
    fps: float | None
    duration_s: float | None


def _readable(corpus: Corpus, facts: pl.DataFrame) -> Iterator[tuple[Clip, _Fact]]:
    """The clips whose headers can be read."""
    columns = ("clip_id", "width", "height", "fps", "duration_s")
    known = {clip: _Fact(*values) for clip, *values in facts.select(columns).iter_rows()}
    return ((clip, known[clip.clip_id]) for clip in clips_of(corpus) if clip.clip_id in known)


class _Editor:
    """Reads a clip in a process that can be killed, edits it, and writes it."""

    def __init__(self, folder: Path, edit: ClipEdit, settings: ClipEditSettings) -> None:
        self._folder, self._edit, self._settings = folder, edit, settings
        self._worker = Worker(READER, {"limits": asdict(settings.limits)}, settings.limits)

    def close(self) -> None:
        """End the reader."""
        self._worker.close()

    def write(self, clip: Clip, fact: _Fact) -> tuple[bool, tuple[str, int, float]]:
        """Whether it had to be written; its path in the new corpus, how many frames it has, and their rate.

        Raises:
            MediaError: it cannot be read, or cannot be edited.
        """
        rate, times_s = _times(clip, fact, self._settings.fps)
        path = f"{CLIPS}/{self._key(clip)}.mp4"
        made = path, len(times_s), rate
        if (self._folder / path).is_file():
            return False, made
        pixels = self._read(clip, times_s)
        pictures = map(np.ascontiguousarray, self._edit(clip.clip_id, pixels).transpose(0, 2, 3, 1))
        _store(self._folder / path, clip_bytes(pictures, Fraction(rate).limit_denominator(1000)))
        return True, made

    def _read(self, clip: Clip, times_s: Sequence[float]) -> Pixels:
        """(T, 3, H, W) frames at some moments, H and W even."""
        task = {"path": str(self._settings.videos / clip.path), "at_s": [*times_s]}
        found = [pixels for _, pixels in self._worker.run(task) if pixels is not None]
        if len(found) != len(times_s):
            raise MediaError("no_frames", f"it has {len(found)} of the {len(times_s)} frames that its header promises")
        height, width = (side // 2 * 2 for side in found[0].shape[:2])
        return np.stack([pixels[:height, :width] for pixels in found]).transpose(0, 3, 1, 2)

    def _key(self, clip: Clip) -> str:
        """32 hex digits over what goes into a file."""
        source = asdict(stamp(str(self._settings.videos / clip.path)))
        named = [_VERSION, clip.clip_id, clip.path, asdict(clip.part), source, self._settings.fps]
        named += [dict(self._edit.described), *self._edit.described_of(clip.clip_id)]
        return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()


def _times(clip: Clip, fact: _Fact, fps: float) -> tuple[float, list[float]]:
    """Rate of a new clip, and the moments of its frames in the video: middles of equal parts.

    Raises:
        MediaError: nothing tells how long the clip is.
    """
    if not fact.duration_s:
        raise MediaError("no_frames", "nothing tells how long it is")
    most = max(1, MOST_BYTES // (3 * fact.width * fact.height))
    count = min(most, max(1, round(fact.duration_s * min(fps, fact.fps or fps))))
    rate = count / fact.duration_s
    return rate, [(clip.part.start_s or 0.0) + (number + 0.5) / rate for number in range(count)]


def _save(corpus: Corpus, folder: Path, written: Mapping[str, tuple[str, int, float]], report: ClipEditReport) -> None:
    """Write the new corpus."""
    if not written:
        raise CorpusError(f"No clip could be edited; the first: {report.set_aside[0].sentence}.")
    clips = corpus.clips.filter(pl.col("clip_id").is_in([*written]))
    paths, counts, rates = zip(*(written[clip] for clip in clips["clip_id"]), strict=True)
    none = pl.lit(None, pl.Float64)
    edited = clips.with_columns(
        pl.Series("path", paths), pl.Series("frame_count", counts), pl.Series("fps", rates),
        start_s=none, end_s=none,
    )  # fmt: skip
    captions = corpus.captions.filter(pl.col("clip_id").is_in(clips["clip_id"].implode()))
    save_corpus(make_corpus(edited, captions), folder)


def _claim(folder: Path, content: Mapping[str, Any]) -> None:
    """Say what the folder is for before anything else is in it; never take one that is for something else."""
    page = (json.dumps(content, indent=2) + "\n").encode()
    place = folder / PAGE
    there = [name for name in ("clips.parquet", CLIPS) if (folder / name).exists()]
    if place.is_file() and place.read_bytes() != page:
        raise CorpusError(f"{folder} holds clips that were edited otherwise; choose another --out, or delete it first.")
    if there and not place.is_file():
        raise CorpusError(f"{folder} holds {there[0]} already, of no edited clips; choose another --out.")
    _store(place, page)


def _store(path: Path, payload: bytes) -> None:
    try:
        write_durably(path, payload)
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be written ({(error.strerror or str(error)).lower()}). Clips that were finished are kept: "
            "make room or choose another --out, and run it again."
        ) from error
