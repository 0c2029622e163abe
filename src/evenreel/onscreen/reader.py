"""Reads the on-screen text of videos, frame by frame."""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz

from evenreel.config import MediaLimits
from evenreel.errors import UsageError
from evenreel.media import Video, open_video, parse_rule
from evenreel.media.picture import to_jpeg
from evenreel.media.sampling import EverySeconds, Part, SeveralRules, TimeRule
from evenreel.media.video import ShotFinder
from evenreel.media.workers import Message
from evenreel.onscreen.scene import Models, RapidDetector, RapidRecognizer, SceneText, TextSettings, engine_id
from evenreel.types import Frame, TextTrack, Word

MIN_PICTURE_PX = 16  # pictures lower or narrower than this cannot hold a legible line and are not looked at


class TextReader:
    """Reader of on-screen text; one for each process, for any number of videos.

    Args:
        settings: cost of reading, and what counts as text.
        models: detector and recogniser; None for RapidOCR's.

    Raises:
        EncoderError: when RapidOCR's models are not in its wheel.
    """

    def __init__(self, settings: TextSettings | None = None, models: Models | None = None) -> None:
        self.settings = settings or TextSettings()
        self._models = models or Models(RapidDetector(self.settings.threads), RapidRecognizer(self.settings.threads))

    @property
    def reader_id(self) -> str:
        """Id of engine, models and settings; readings under another id are not comparable."""
        return f"{engine_id()}/{self.settings.digest}"

    def new_video(self) -> VideoText:
        return VideoText(self._models, self.settings)


class VideoText:
    """On-screen text of one video, read frame by frame.

    Attributes:
        words: every reading of every frame, by time, then in reading order.
    """

    def __init__(self, models: Models, settings: TextSettings) -> None:
        self.words: list[Word] = []
        self._models = models
        self._settings = settings
        self._scene: SceneText | None = None
        self._times: list[float] = []

    def add(self, frame: Frame) -> None:
        """Read the next frame, of any size.

        Raises:
            UsageError: when it is not an (H, W, 3) picture of bytes, or is earlier than the frame before it.
        """
        picture = frame.pixels
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or picture.size == 0:
            raise UsageError(
                f"On-screen text is read from (height, width, 3) pictures of uint8, not from "
                f"{picture.shape} of {picture.dtype}; convert the frame to RGB first."
            )
        if self._times and frame.time_s < self._times[-1]:
            raise UsageError(
                f"A frame at {frame.time_s:.3f} s was added after one at {self._times[-1]:.3f} s; "
                "add the frames of a video in the order of their times."
            )
        self._times.append(frame.time_s)
        height, width = picture.shape[:2]
        if min(height, width) < MIN_PICTURE_PX:
            self._scene = None
            return
        if self._scene is None or self._scene.shape != (height, width):
            self._scene = SceneText((height, width), self._models, self._settings)
        self._scene.look(picture)
        self.words += [
            Word(sign.text, sign.confidence, sign.box, frame.time_s)
            for sign in self._scene.signs
            if sign.text and sign.confidence >= self._settings.min_confidence
        ]

    def tracks(self) -> list[TextTrack]:
        """Return each sign once, by the time at which it appears."""
        return without_shapes(follow(self.words, self._times), self._settings)


class FileReader:
    """Worker that answers `{"path", "part", "frames", "text"}` with `info`, then a `frame` or `tick` each, then `end`.

    With `"still": {"side_px", "quality"}`, a message `still` with a JPEG comes before each of them. With `"periods"`,
    seconds between the frames of windows, frames of these come too: `for` of a `frame` lists whom it is for, 0 the rule
    and from 1 on the periods, and `shot` counts the cuts before it.
    """

    def __init__(self, rule: str, limits: dict[str, Any], threads: int, *, text: bool, shots: bool = False) -> None:
        self._rule = parse_rule(rule)
        self._limits = MediaLimits(**limits)
        self._text = TextReader(TextSettings(threads=threads)) if text else None
        self._find_shots = shots

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        text = self._text if task["text"] else None
        words = text.new_video() if text else None
        still, part = task.get("still"), Part(*task["part"])
        shots = ShotFinder() if self._find_shots else None
        most = self._limits.max_frames * (1 + len(task.get("periods", [])))
        with open_video(task["path"], replace(self._limits, max_frames=most)) as video:
            yield {"kind": "info", "info": asdict(video.info)}, None
            for frame, rules, shot in self._frames(video, task, shots):
                sampled = 0 in rules
                if still and sampled:
                    jpeg = to_jpeg(frame.pixels, still["side_px"], still["side_px"], still["quality"])
                    yield {"kind": "still", "time_s": frame.time_s}, np.frombuffer(jpeg, np.uint8)
                if task["frames"] or rules != [0]:
                    yield {"kind": "frame", "time_s": frame.time_s, "for": rules, "shot": shot}, frame.pixels
                if words is not None and sampled:
                    words.add(frame)
                if sampled and (words is not None or not task["frames"]):
                    yield {"kind": "tick", "time_s": frame.time_s}, None
            notes = list(video.notes)
        cuts_s = part.within(shots.cuts_s) if shots else None
        end: dict[str, Any] = {"kind": "end", "notes": notes, "cuts_s": cuts_s}
        if text and words is not None:
            end |= {"tracks": [asdict(track) for track in words.tracks()], "reader_id": text.reader_id}
        yield end, None

    def _frames(
        self, video: Video, task: dict[str, Any], shots: ShotFinder | None
    ) -> Iterator[tuple[Frame, list[int], int]]:
        """The frames of a part, timed from its start; what is on screen already when it starts has time 0.

        With each, the rules that it is for, and its shot, which is known when the next frame is there.
        """
        part, periods = Part(*task["part"]), task.get("periods", [])
        start_s, rule, asked = part.start_s or 0.0, self._rule, list[int]()
        if periods and isinstance(rule, TimeRule):
            rule = SeveralRules((rule, *map(EverySeconds, periods)), asked)
        before: Frame | None = None
        answered = 0
        for frame in itertools.chain(video.frames(part.rule(rule), shots), [None]):
            if before is not None:
                rules = sorted(set(asked[answered : video.answered])) if asked else list(range(1 + len(periods)))
                shot = bisect.bisect_right(shots.cuts_s, before.time_s) if shots else 0
                yield Frame(max(0.0, before.time_s - start_s), before.pixels), rules, shot
                answered = video.answered
            before = frame


MISSED_FRAMES = 1
MISSED_S = 2.0
SAME_PLACE = 0.3  # intersection over union from which two boxes are the same place
ALIKE = 50.0
NEARLY_SAME = 75.0
"""Similarities (0 to 100, share of characters in common order) from which readings are of one sign: in the same place,
and elsewhere."""

CERTAIN = 0.9  # confidence from which two readings with different numbers in them are two signs, not one misread
REACH = 0.3  # longest way, in pictures, that a sign may move between two frames
SAME_SIZE = 1.6  # largest factor by which the height of a moving sign may change between two frames


@dataclass
class _Trail:
    """The readings of one sign so far, in time order; the most confident one; the frame of the last one."""

    words: list[Word]
    best: Word
    last_frame: int


def follow(words: Sequence[Word], frame_times: Sequence[float] = ()) -> list[TextTrack]:
    """Track every sign, ordered by the time at which it appears, then by its place."""
    tracks = []
    for group in grouped(words, frame_times):
        ranked = sorted(group, key=_authority, reverse=True)
        best, readings = ranked[0], tuple(dict.fromkeys(word.text for word in ranked))
        tracks.append(
            TextTrack(best.text, best.confidence, group[0].time_s, group[-1].time_s, best.box, readings=readings)
        )
    return sorted(tracks, key=lambda track: (track.start_s, track.box[1], track.box[0], track.text))


def without_shapes(tracks: Sequence[TextTrack], settings: TextSettings) -> list[TextTrack]:
    """Leave out what is no text: shapes and patterns are read as few different letters, and seldom surely."""
    letters = [frozenset(filter(str.isalnum, track.text.casefold())) for track in tracks]
    few, shapes = (math.inf, *settings.few_letters), set(settings.shape_letters)
    needed = [few[len(found)] if len(found) < len(few) else settings.min_confidence for found in letters]
    known = list(zip(tracks, letters, needed, strict=True))
    words = [track for track, found, level in known if len(found) > 1 and track.confidence >= level]

    def is_text(track: TextTrack, found: frozenset[str], level: float) -> bool:
        if len(found) == 1 and found <= shapes:
            level = few[2] if any(_beside(word, track) for word in words) else settings.shape_confidence
        return track.confidence >= level

    return [track for track, found, level in known if is_text(track, found, level)]


def _beside(word: TextTrack, track: TextTrack) -> bool:
    """Return whether two signs are up at one time, in one script and letters of about one size."""
    heights = [box[3] - box[1] for box in (word.box, track.box)]
    together = word.start_s <= track.end_s and track.start_s <= word.end_s
    return together and word.text.isascii() == track.text.isascii() and max(heights) <= SAME_SIZE * min(heights)


def grouped(words: Sequence[Word], frame_times: Sequence[float] = ()) -> list[list[Word]]:
    """Group readings by sign; every word is in exactly one group, in time order."""
    numbers = {time: number for number, time in enumerate(sorted({*frame_times, *(w.time_s for w in words)}))}
    closed: list[_Trail] = []
    live: list[_Trail] = []
    ordered = sorted(words, key=lambda word: (word.time_s, word.box, word.text, word.confidence))
    for time_s, in_frame in groupby(ordered, key=lambda word: word.time_s):
        frame, before, live = numbers[time_s], live, []
        for trail in before:
            missed = frame - trail.last_frame - 1
            goes_on = missed <= MISSED_FRAMES or time_s - trail.words[-1].time_s <= MISSED_S
            (live if goes_on else closed).append(trail)
        _extend(live, list(in_frame), frame)
    return [trail.words for trail in closed + live]


def _authority(word: Word) -> tuple[float, int, str, tuple[float, float, float, float]]:
    return word.confidence, len(word.text), word.text, word.box


def _extend(live: list[_Trail], words: list[Word], frame: int) -> None:
    """Give each trail at most one word of the frame, the best fits first; the rest begin new trails."""
    taken_trails: set[int] = set()
    taken_words: set[int] = set()
    for _, number, place in sorted(_fits(live, words)):
        if number not in taken_trails and place not in taken_words:
            taken_trails.add(number)
            taken_words.add(place)
            trail, word = live[number], words[place]
            trail.words.append(word)
            trail.best, trail.last_frame = max(trail.best, word, key=_authority), frame
    live += [_Trail([word], word, frame) for number, word in enumerate(words) if number not in taken_words]


def _fits(live: Sequence[_Trail], words: Sequence[Word]) -> Iterator[tuple[float, int, int]]:
    """(cost, trail, word) of every pair that may be one sign; the lower the cost, the better the fit."""
    if not live or not words:
        return
    before = np.array([trail.words[-1].box for trail in live], np.float64)
    now = np.array([word.box for word in words], np.float64)
    overlap = overlaps(before, now)
    centres = [(boxes[:, :2] + boxes[:, 2:]) / 2 for boxes in (before, now)]
    distance = np.linalg.norm(centres[0][:, None] - centres[1][None, :], axis=2)
    heights = [np.maximum(boxes[:, 3] - boxes[:, 1], 1e-6) for boxes in (before, now)]
    height = heights[0][:, None] / heights[1][None, :]
    may_move = (distance <= REACH) & (np.maximum(height, 1 / height) <= SAME_SIZE)
    for trail, word in np.argwhere((overlap >= SAME_PLACE) | may_move).tolist():
        in_place = bool(overlap[trail, word] >= SAME_PLACE)
        readings, now_read = (live[trail].words[-1], live[trail].best), words[word]
        if any(different_numbers(reading, now_read) for reading in readings):
            continue
        likeness = max(fuzz.ratio(reading.text.casefold(), now_read.text.casefold()) for reading in readings)
        if likeness >= (ALIKE if in_place else NEARLY_SAME):
            yield float(distance[trail, word]) - likeness / 100 - in_place, trail, word


def different_numbers(first: Word, second: Word) -> bool:
    """Return whether two readings are both certain, and of different numbers: gate 12 is not gate 15 misread."""
    certain = min(first.confidence, second.confidence) >= CERTAIN
    return certain and re.findall(r"\d+", first.text) != re.findall(r"\d+", second.text)


def overlaps(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute intersection over union of (N, 4) and (M, 4) boxes x0, y0, x1, y1: (N, M); 0 for boxes without area."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))
