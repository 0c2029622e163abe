"""Corruptions of clips at five strengths, from single pixels to events.

The twelve kinds are the perturbations of Zhang et al. 2026 (MLVP, arXiv 2604.20851).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from io import BytesIO
from itertools import islice, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.config import usable_cores
from evenreel.edits.clips import (
    CLIPS,
    LOOKING,
    ChangedClip,
    CorpusWriter,
    TimedClip,
    VideoHeader,
    digest_of,
    readable_clips,
)
from evenreel.edits.settings import BORROWING, NONE, STRENGTHS, Corruption, CorruptionSettings
from evenreel.errors import CorpusError, MediaError
from evenreel.features.facts import FACTS, FactSettings, clip_facts
from evenreel.features.manifest import clip_aside, remove_leftovers
from evenreel.features.pool import ClipRun, SetAside, writer_lock
from evenreel.files import file_at
from evenreel.media.encode import clip_bytes, constant_quality
from evenreel.media.sound import MomentReader
from evenreel.media.workers import Message, Worker, stamp
from evenreel.progress import Progress, stretch_of
from evenreel.types import Corpus, Pixels

# Guess of where the subject of a clip is, from its pixels alone: what moves, or else what stands out.

_ROWS = 72
"""Height of the small pictures that are looked at."""

_MOST_MOMENTS = 60
"""Frames of a clip, evenly spaced, of which its background is the median."""

_MOVES = 24.0
"""Levels by which a place differs from the background where something moves, and not noise or a shaking camera."""

_LEAST, _MOST = 0.06, 0.4
"""Radius of a subject as a share of the height."""


def subject_of(frames: Pixels) -> NDArray[np.float64]:
    """Guess the place of the subject in each frame: x, y and radius in pixels, (T, 3).

    What differs most from the clip's median picture; where nothing moves, what differs most in colour from the mean of
    the picture (frequency-tuned saliency, Achanta et al. 2009). No network is asked, so it may be the wrong thing.

    Args:
        frames: (T, H, W, 3) uint8.
    """
    import cv2

    height, width = frames.shape[1:3]
    scale = _ROWS / height
    size = max(1, round(width * scale)), _ROWS
    small = np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in frames])
    some = np.unique(np.linspace(0, len(small) - 1, _MOST_MOMENTS).round().astype(int))
    background = np.median(small[some], axis=0)
    found = np.empty((len(frames), 3))
    for number, frame in enumerate(small):
        found[number] = _standing_out(cv2.GaussianBlur(frame, (0, 0), 1.5).astype(np.float32), background)
    return np.asarray(found / [size[0] / width, scale, scale])


def _standing_out(frame: NDArray[np.float32], background: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the middle and the radius of the place (h, w, 3) that differs most."""
    import cv2

    apart = np.abs(frame - background).max(axis=2)
    if apart.max() < _MOVES:
        apart = np.abs(frame - frame.mean(axis=(0, 1))).max(axis=2)
    _, places = cv2.connectedComponents((apart >= apart.max() / 4).astype(np.uint8))
    rows, columns = np.nonzero(places == places[np.unravel_index(apart.argmax(), apart.shape)])
    radius = np.clip(np.sqrt(len(rows) / np.pi), _LEAST * len(frame), _MOST * len(frame))
    return float(columns.mean()) + 0.5, float(rows.mean()) + 0.5, float(radius)


class Original(NamedTuple):
    """Frames of a clip, and what a corruption may know beside them."""

    frames: Pixels  # (T, H, W, 3) uint8
    subject: NDArray[np.float64]  # (T, 3) x, y and radius in pixels of what the clip is about
    similar: Pixels  # (S, H, W, 3) uint8, frames of another clip, best one like this
    elsewhere: Pixels  # (S, H, W, 3) uint8, frames of another clip, best one from elsewhere
    fps: int | Fraction  # frames per second


Corrupt = Callable[[Original, int, np.random.Generator], Pixels]
"""A clip, a strength of 1 to 5 and chance -> (T', H, W, 3) uint8; the generator's draws are those of every strength."""


def amount(strength: int, amounts: tuple[float, float, float, float, float]) -> float:
    """Choose the amount of a strength."""
    return amounts[STRENGTHS.index(strength)]


def as_pixels(values: NDArray[np.floating]) -> Pixels:
    """Round to 0 to 255."""
    return np.asarray(np.clip(np.rint(values), 0, 255), np.uint8)


def each_frame(frames: Pixels, change: Callable[[Pixels], NDArray[np.floating]]) -> Pixels:
    """Change (T, H, W, 3) frames one by one, so that numbers of one frame alone are in memory, and round."""
    result = np.empty_like(frames)
    for number, frame in enumerate(frames):
        result[number] = as_pixels(change(frame))
    return result


def smooth_field(rng: np.random.Generator, size: tuple[int, int], octaves: int = 5) -> NDArray[np.float32]:
    """Draw (H, W) numbers of 0 to 1: noise of each octave has half the weight of the one before."""
    import cv2

    field = np.zeros(size, np.float32)
    for octave in range(octaves):
        coarse = rng.random((2 ** (octave + 1) + 1,) * 2, dtype=np.float32)
        field += cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC) / 2**octave
    return np.asarray((field - field.min()) / np.ptp(field))


# Corruptions of single pixels and of the file: noise, weather, warping, compression.
#
# What is drawn is drawn once a clip and is the same in all its frames, so that frames stay consistent in time.

HAZE = 235.0
"""Brightness of fog."""


def gaussian_noise(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Add noise with a standard deviation of 0.08, 0.12, 0.18, 0.26 or 0.38 of the range (that of ImageNet-C)."""
    noise = rng.standard_normal(original.frames.shape[1:], np.float32)
    added = 255 * amount(strength, (0.08, 0.12, 0.18, 0.26, 0.38)) * noise
    return each_frame(original.frames, lambda frame: frame + added)


def impulse_noise(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Set 3, 6, 9, 17 or 27 % of all values to 0 or 255 (the shares of ImageNet-C)."""
    struck = rng.random(original.frames.shape[1:]) < amount(strength, (0.03, 0.06, 0.09, 0.17, 0.27))
    salt = np.where(rng.random(original.frames.shape[1:]) < 0.5, 0, 255).astype(np.uint8)
    return np.where(struck, salt, original.frames)


def fog(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Mix in haze of uneven density, at its thickest 0.3, 0.45, 0.6, 0.75 or 0.9, at its thinnest half of that."""
    field = smooth_field(rng, original.frames.shape[1:3])
    density = amount(strength, (0.3, 0.45, 0.6, 0.75, 0.9)) * (1 + field[..., None]) / 2
    return each_frame(original.frames, lambda frame: (1 - density) * frame + density * HAZE)


def snow(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Let flakes begin in 0.5, 1, 2, 4 or 6 % of the pixels; a flake is a streak of a twentieth of the height."""
    import cv2

    height, width = original.frames.shape[1:3]
    flakes = (rng.random((height, width)) < amount(strength, (0.005, 0.01, 0.02, 0.04, 0.06))).astype(np.float32)
    length, slant = max(3, height // 20), rng.uniform(-0.5, 0.5)
    streak = np.zeros((length, length), np.float32)
    rows = np.arange(length)
    streak[rows, np.clip(np.rint(length / 2 + slant * (rows - length / 2)).astype(int), 0, length - 1)] = 1.0
    cover = cv2.GaussianBlur(np.minimum(cv2.filter2D(flakes, -1, streak), 1.0), (0, 0), 0.7)[..., None]
    return each_frame(original.frames, lambda frame: (1 - cover) * frame + cover * 255.0)


def elastic(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Move pixels by up to 0.04, 0.06, 0.09, 0.12 or 0.16 of the height, each by a smooth field."""
    height, width = original.frames.shape[1:3]
    reach = amount(strength, (0.04, 0.06, 0.09, 0.12, 0.16)) * height
    down, right = (reach * (2 * smooth_field(rng, (height, width)) - 1) for _ in range(2))
    rows = np.clip(np.rint(np.arange(height)[:, None] + down), 0, height - 1).astype(int)
    columns = np.clip(np.rint(np.arange(width) + right), 0, width - 1).astype(int)
    return np.asarray(original.frames[:, rows, columns])


def compression(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Encode by H.264 with a constant rate factor of 30, 36, 42, 47 or 51 and decode again."""
    import av

    crf = int(amount(strength, (30, 36, 42, 47, 51)))
    with av.open(BytesIO(clip_bytes(original.frames, original.fps, constant_quality(crf))), "r") as container:
        return np.stack([np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in container.decode(video=0)])


GREY = 128


def motion_blur(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Smear along a line of 0.01, 0.02, 0.035, 0.055 or 0.085 of the height, by `guidance`; its angle is the clip's."""
    import cv2

    angle, longest = rng.uniform(0, np.pi), amount(strength, (0.01, 0.02, 0.035, 0.055, 0.085))
    lengths, done = longest * guidance(original.frames) * original.frames.shape[1], []
    for frame, length in zip(original.frames, lengths, strict=True):
        half = max(1, int(np.ceil(length / 2)))
        line = np.zeros((2 * half + 1, 2 * half + 1), np.float32)
        steps = np.linspace(-length / 2, length / 2, 4 * half + 1)
        rows, columns = (np.rint(half + steps * turn).astype(int) for turn in (np.sin(angle), np.cos(angle)))
        np.add.at(line, (rows, columns), 1 / len(steps))
        done.append(cv2.filter2D(frame, -1, line))
    return np.stack(done)


def defocus(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Blur by a disc with a radius of 0.006, 0.01, 0.016, 0.024 or 0.036 of the height, by `guidance`."""
    import cv2

    radii = amount(strength, (0.006, 0.01, 0.016, 0.024, 0.036)) * guidance(original.frames) * original.frames.shape[1]
    done = []
    for frame, radius in zip(original.frames, radii, strict=True):
        half = int(np.ceil(radius))
        across = np.arange(-half, half + 1)
        disc = np.clip(radius + 0.5 - np.hypot(across[:, None], across), 0, 1)
        done.append(cv2.filter2D(frame, -1, (disc / disc.sum()).astype(np.float32)))
    return np.stack(done)


def occlusion(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Cover the subject by a grey square with 0.3, 0.45, 0.6, 0.75 or 0.9 of its diameter for a side.

    The paper looks for the main object with a detector; here whoever gives the clip says where it is
    (`evenreel.edits.corruptions`).
    """
    share, result = amount(strength, (0.3, 0.45, 0.6, 0.75, 0.9)), original.frames.copy()
    aside = rng.uniform(-0.2, 0.2, 2)
    for frame, (x, y, radius) in zip(result, original.subject, strict=True):
        half = share * radius
        left, top = x + aside[0] * radius - half, y + aside[1] * radius - half
        rows, columns = (slice(max(0, round(at)), max(0, round(at + 2 * half))) for at in (top, left))
        frame[rows, columns] = GREY
    return result


def guidance(frames: Pixels) -> NDArray[np.float64]:
    """(T,) 0.5 to 1.5: the more a frame differs from the one before, the more it is blurred; 1 where nothing moves."""
    steps = np.array([np.abs(now.astype(np.float32) - before).mean() for before, now in pairwise(frames)])
    if len(steps) == 0 or steps.max() == 0:
        return np.ones(len(frames))
    return np.asarray(0.5 + np.concatenate([steps[:1], steps]) / steps.max())


def style(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Give the colours the means and deviations of a clip from elsewhere, mixed in by 0.2, 0.4, 0.6, 0.8 or 1.

    A stand-in: the paper transfers style by AdaIN, which matches these moments of a network's features, not of pixels.
    """
    share, result = amount(strength, (0.2, 0.4, 0.6, 0.8, 1.0)), np.empty_like(original.frames)
    levels = np.arange(256.0)
    for channel in range(3):
        own, other = (frames[..., channel] for frames in (original.frames, original.elsewhere))
        (own_mean, own_std), (other_mean, other_std) = moments(own), moments(other)
        matched = (levels - own_mean) * (other_std / max(own_std, 1.0)) + other_mean
        result[..., channel] = as_pixels((1 - share) * levels + share * matched)[own]
    return result


def moments(values: Pixels) -> tuple[float, float]:
    """Compute mean and standard deviation of uint8 values, without a float for each."""
    counts = sum(np.bincount(frame.ravel(), minlength=256) for frame in values) / values.size
    levels = np.arange(256.0)
    mean = float(counts @ levels)
    return mean, float(counts @ (levels - mean) ** 2) ** 0.5


def inserted(count: int, strength: int) -> int:
    """Return how many frames `insertion` adds to a clip of `count`, where the other clip has as many."""
    share = amount(strength, (0.1, 0.2, 0.3, 0.4, 0.5))
    return max(1, round(count * share / (1 - share)))


def insertion(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Splice in a piece of a similar clip, until it is 10, 20, 30, 40 or 50 % of all frames."""
    frames, (cut, start) = original.frames, rng.random(2)
    count = min(inserted(len(frames), strength), len(original.similar))
    at, begin = round(cut * len(frames)), round(start * (len(original.similar) - count))
    return np.concatenate([frames[:at], original.similar[begin : begin + count], frames[at:]])


def scrambling(original: Original, strength: int, rng: np.random.Generator) -> Pixels:
    """Cut the clip into 2, 3, 4, 6 or 8 blocks of frames and put them in another order."""
    blocks = np.array_split(original.frames, min(len(original.frames), int(amount(strength, (2, 3, 4, 6, 8)))))
    if len(blocks) < 2:  # a single frame has no order
        return original.frames.copy()
    order = rng.permutation(len(blocks))
    while (order == np.arange(len(blocks))).all():
        order = rng.permutation(len(blocks))
    return np.concatenate([blocks[place] for place in order])


# Which other clips a clip borrows frames from: drawn by the seed, of the same split, and of another file.

TRIES = 3
"""Lenders that are tried, one after the other, until one can be read."""


def lenders_of(corpus: Corpus, clips: Sequence[TimedClip], seed: int) -> Mapping[str, list[TimedClip]]:
    """Choose the clips that each clip may borrow from, by clip id; the first that can be read lends.

    The clips of a split stand in a circle whose order is drawn from the seed, and each borrows from those behind it, so
    that a clip more or less changes what few others borrow.
    """
    split_of = dict(corpus.clips.select("clip_id", "split").iter_rows())
    circles: dict[str | None, list[TimedClip]] = {}
    for one in sorted(clips, key=lambda one: _place(seed, one.clip.clip_id)):
        circles.setdefault(split_of[one.clip.clip_id], []).append(one)
    found = {}
    for split, circle in circles.items():
        if len({one.clip.path for one in circle}) < 2:
            of = "The corpus" if split is None else f"The split {split!r}"
            raise CorpusError(
                f"{of} has one video alone that can be read, and style and insertion take from another; leave these "
                "kinds out (--kind)."
            )
        for place, one in enumerate(circle):
            behind = (circle[(place + step) % len(circle)] for step in range(1, len(circle)))
            found[one.clip.clip_id] = [*islice((other for other in behind if other.clip.path != one.clip.path), TRIES)]
    return found


def _place(seed: int, clip_id: str) -> bytes:
    return hashlib.blake2b(f"{seed} {clip_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


CORRUPTIONS: Mapping[str, Corrupt] = MappingProxyType(
    {
        **{"gaussian-noise": gaussian_noise, "impulse-noise": impulse_noise, "fog": fog, "snow": snow},
        **{"elastic": elastic, "compression": compression, "motion-blur": motion_blur, "defocus": defocus},
        **{"occlusion": occlusion, "style": style, "insertion": insertion, "scrambling": scrambling},
    }
)
"""Function that corrupts a clip, by the name of the kind."""


# The part of corrupting a clip that runs in a killable worker: decode, corrupt, encode.

Size = tuple[int, int]


class CorruptionWorker:
    """Worker that answers a task with a clip in several corruptions, each an mp4 file without sound.

    A task has `clip_id`, `path`, `at_s` (moments of the frames), `size` (height and width of the new pictures), `rate`
    (two numbers), `lenders` (`path` and `at_s` each) and `corruptions` (kind and strength each). It sends a `tick` for
    each frame that is read, then `clip` with the bytes of a file, in the order of the corruptions.

    Args:
        seed: seed of what is drawn.
        limits: fields of `MediaLimits`.
    """

    def __init__(self, seed: int, limits: dict[str, Any]) -> None:
        self._seed, self._reader = seed, MomentReader(limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Corrupt one clip."""
        frames = yield from self._frames(task, task["size"])
        lent = frames[:1]
        if task["lenders"]:
            lent = yield from self._lent(task["lenders"], len(frames), task["size"])
        subject = subject_of(frames) if any(kind == "occlusion" for kind, _ in task["corruptions"]) else np.empty(0)
        original = Original(frames, subject, lent, lent, Fraction(*task["rate"]))
        for kind, strength in task["corruptions"]:
            yield {"kind": "tick"}, None
            changed = frames
            if kind != NONE:
                drawn = hashlib.sha256(f"{kind} {task['clip_id']}".encode("utf-8", "surrogatepass")).digest()
                rng = np.random.default_rng([self._seed, int.from_bytes(drawn, "big")])
                changed = np.ascontiguousarray(CORRUPTIONS[kind](original, strength, rng))
            yield {"kind": "clip"}, np.frombuffer(clip_bytes(changed, original.fps), np.uint8)

    def _frames(self, source: dict[str, Any], size: Size) -> Generator[Message, None, Pixels]:
        """Read the frames of a clip, (T, H, W, 3) of a size (H, W)."""
        wanted, found = {"path": source["path"], "at_s": source["at_s"]}, []
        for message, array in self._reader(wanted):
            if message["kind"] == "frame" and array is not None:
                found.append(covering(array, size))
                yield {"kind": "tick"}, None
        if len(found) != len(source["at_s"]):
            promised = len(source["at_s"])
            raise MediaError("no_frames", f"it has {len(found)} of the {promised} frames that its header promises")
        return np.stack(found)

    def _lent(self, lenders: Sequence[dict[str, Any]], frames: int, size: Size) -> Generator[Message, None, Pixels]:
        """Read as many frames of the first lender that can be read; a shorter one begins anew."""
        for lender in lenders:
            try:
                lent = yield from self._frames(lender, size)
            except MediaError:
                continue
            return np.asarray(lent[np.arange(frames) % len(lent)])
        named = ", ".join(lender["path"] for lender in lenders)
        raise MediaError("failed", f"none of the clips that it could borrow from can be read: {named}")


def covering(pixels: Pixels, size: Size) -> Pixels:
    """Scale a picture (H, W, 3) until it covers a size (height, width), and cut what is beyond, at both sides alike.

    >>> covering(np.zeros((90, 160, 3), np.uint8), (30, 40)).shape
    (30, 40, 3)
    """
    import cv2

    scale = max(wanted / side for wanted, side in zip(size, pixels.shape[:2], strict=True))
    height, width = (max(wanted, round(side * scale)) for wanted, side in zip(size, pixels.shape[:2], strict=True))
    if (height, width) != pixels.shape[:2]:
        interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        pixels = np.asarray(cv2.resize(pixels, (width, height), interpolation=interpolation), np.uint8)
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    return np.ascontiguousarray(pixels[top : top + size[0], left : left + size[1]])


# Corpora of corrupted clips under the same ids, a folder for each kind and strength, for any system to see.

WORKER = "evenreel.edits.corruptions:CorruptionWorker"
PAGE = "corrupted.json"
MOST_BYTES = 128 * 2**20
"""Pixels of one clip that are held at a time; a longer one gets fewer frames a second."""

_VERSION = 1
"""Of how clips are written; those of another one are written anew."""


@dataclass(frozen=True)
class CorruptedCorpus:
    """Corpus of clips that are corrupted alike."""

    kind: str  # kind of corruption
    strength: int  # 1 to 5; 0 for `none`
    folder: str  # folder of the corpus
    clips: int  # number of its clips
    written: int  # number of clips that were written now


@dataclass
class CorruptionReport:
    """Report of a run that corrupts clips."""

    folder: str  # folder in which the new corpora are
    corpora: list[CorruptedCorpus] = field(default_factory=list)  # the new corpora
    set_aside: list[SetAside] = field(default_factory=list)  # clips of the old corpus that are in none of the new ones
    seconds: float = 0.0  # duration of the run


def corrupt_clips(
    corpus: Corpus,
    folder: str | Path,
    settings: CorruptionSettings,
    progress: Progress = lambda share: None,
) -> CorruptionReport:
    """Corrupt the clips of a corpus in several ways, and write a corpus for each; files that are there are kept.

    A clip is decoded once for all of them, and is in all of the new corpora or in none. The clips are whole files
    without sound.
    """
    folder, started = Path(folder), time.monotonic()
    with writer_lock(folder, CorpusError, "choose another --out"):
        remove_leftovers(folder)
        writers = {one: CorpusWriter(folder / one.name, PAGE, "corrupted clips") for one in settings.corruptions}
        made = {"fps": settings.fps, "side": settings.side, "seed": settings.seed}
        for one, writer in writers.items():
            writer.check_owned()
            writer.claim({"version": _VERSION, **one._asdict(), **made}, only="corrupted otherwise")
        headers = FactSettings(settings.videos, folder / FACTS, settings.workers, settings.limits)
        facts = clip_facts(corpus, headers, stretch_of(progress, 0.0, LOOKING))
        report = CorruptionReport(str(folder), set_aside=[*facts.set_aside])
        clips = readable_clips(corpus, facts.table)
        borrows = any(one.kind in BORROWING for one in writers)
        timed = [one for one in clips if one.header.duration_s]
        lenders = lenders_of(corpus, timed, settings.seed) if borrows and timed else {}
        run = _Corrupting(writers, lenders, settings)
        report.set_aside += run.run(clips, stretch_of(progress, LOOKING, 1.0))
        if len(report.set_aside) == corpus.clips.height:
            first = f"; the first: {report.set_aside[0].sentence}" if report.set_aside else ": the corpus has none"
            raise CorpusError(f"No clip could be corrupted{first}.")
        for one, writer in writers.items():
            writer.save(corpus)
            place = str(folder / one.name)
            report.corpora.append(CorruptedCorpus(*one, place, len(writer.clips), writer.written))
    report.seconds = time.monotonic() - started
    return report


class _TakenFrames(NamedTuple):
    """Frames of a video that are read: its path in the corpus, moments in seconds, and the size they are scaled to."""

    path: str
    at_s: tuple[float, ...]
    size: tuple[int, int]


class _Corrupting:
    """Clips through workers into the files of all corpora."""

    def __init__(
        self,
        writers: Mapping[Corruption, CorpusWriter],
        lenders: Mapping[str, Sequence[TimedClip]],
        settings: CorruptionSettings,
    ) -> None:
        self._writers, self._lenders, self._settings = writers, lenders, settings
        self._aside: dict[str, SetAside] = {}
        self._noting = threading.Lock()

    def run(self, clips: Sequence[TimedClip], progress: Progress) -> list[SetAside]:
        """Write the files that are not there; return the clips that cannot be used, in order."""
        readers = self._settings.workers or usable_cores()
        ClipRun(self._new_worker, self._write, self._set_aside, readers, progress).run(clips)
        return [self._aside[one.clip.clip_id] for one in clips if one.clip.clip_id in self._aside]

    def _new_worker(self) -> Worker:
        limits = self._settings.limits
        return Worker(WORKER, {"seed": self._settings.seed, "limits": asdict(limits)}, limits)

    def _set_aside(self, one: TimedClip, error: MediaError) -> None:
        with self._noting:
            self._aside[one.clip.clip_id] = clip_aside(one.clip, error)
        for writer in self._writers.values():
            writer.clips.pop(one.clip.clip_id, None)

    def _write(self, worker: Worker, one: TimedClip) -> None:
        """Ask for the files of a clip that are not there, and put each down as it comes."""
        size = _size(one.header, self._settings.side)
        source, rate = self._source(one, size)
        others = (self._source(other, size)[0] for other in self._lenders.get(one.clip.clip_id, ()))
        lenders = [other._replace(at_s=other.at_s[: len(source.at_s)]) for other in others]
        files = {kind: self._file(kind, one, (source, *lenders)) for kind in self._writers}
        wanted = [kind for kind, file in files.items() if not self._writers[kind].has(file)]
        lend = [*map(self._read, lenders)] if any(kind.kind in BORROWING for kind in wanted) else []
        ratio = Fraction(rate).limit_denominator(1000).as_integer_ratio()
        task = {"clip_id": one.clip.clip_id, **self._read(source), "size": size, "rate": ratio}
        made = _files(worker, {**task, "lenders": lend, "corruptions": wanted}) if wanted else iter(())
        for kind, file in files.items():
            self._writers[kind].put(one.clip.clip_id, file, lambda: next(made))
        deque(made, maxlen=0)  # a worker that is not heard to its end is ended

    def _source(self, one: TimedClip, size: tuple[int, int]) -> tuple[_TakenFrames, float]:
        """Return the frames of a clip that are read, and how many of them are a second."""
        rate, at_s = one.moments(self._settings.fps, MOST_BYTES // (3 * size[0] * size[1]))
        return _TakenFrames(one.clip.path, tuple(at_s), size), rate

    def _read(self, source: _TakenFrames) -> dict[str, Any]:
        return {"path": str(file_at(self._settings.videos, source.path)), "at_s": source.at_s}

    def _file(self, kind: Corruption, one: TimedClip, sources: Sequence[_TakenFrames]) -> ChangedClip:
        """Return path and frames of a new file, whose name is a digest of all that goes into it."""
        own, rate = self._source(one, sources[0].size)
        count = len(own.at_s)
        frames = count + (inserted(count, kind.strength) if kind.kind == "insertion" else 0)
        used = sources if kind.kind in BORROWING else sources[:1]
        stamps = [asdict(stamp(str(file_at(self._settings.videos, source.path)))) for source in used]
        named = [_VERSION, *kind, self._settings.seed, one.clip.clip_id, rate, used, stamps]
        return ChangedClip(f"{CLIPS}/{digest_of(named)}.mp4", frames, rate)


def _files(worker: Worker, task: dict[str, Any]) -> Iterator[bytes]:
    """Yield the files that a worker makes, in the order of the corruptions."""
    for message, array in worker.run(task):
        if message["kind"] == "clip" and array is not None:
            yield array.tobytes()


def _size(header: VideoHeader, side: int) -> tuple[int, int]:
    """Return height and width of the new pictures: even, and the shorter at most `side`."""
    scale = min(1.0, side / min(header.height, header.width))
    return max(2, round(header.height * scale / 2) * 2), max(2, round(header.width * scale / 2) * 2)
