"""The channels of vectors: `seen`, clips by their best frame, and `sounds`, the same over windows of sound.

Among the sounds of a library one is always the nearest, so a clip is found only where its sound beats enough nonsense,
by the rule that frames are judged by (`evenreel.library.store.vectors`), and where frames may say so too, each of
both as much more surely (`as_one_of`). Its rank then weighs 1 where it fits, 0 where it hardly may, and goes straight
between. A query that asks for sounds alone ranks all of them.

Moments of a clip that answer are stretches of frames with high scores. Where one starts and ends is a rule chosen on
the scores of two models and measured, on other videos, with those of a third too (`benchmarks/moments.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags
from evenreel.errors import EncoderError, LibraryError
from evenreel.features.clip_reader import within_shots
from evenreel.library.search.result import MomentHit, TextHit
from evenreel.library.search.snapshot import ClipColumns, Snapshot
from evenreel.library.store.vectors import FITS, FRAMES, MAY_FIT, SOUNDS, Matrix, as_one_of, load_null_best
from evenreel.library.store.writer import open_vectors
from evenreel.types import FloatArray, TextEncoder

DECIMALS = 5
"""Decimals of a similarity: those of float16 vectors have no more that mean something, and equal frames score alike."""


class ClipTimes(NamedTuple):
    """Times of a clip's frames, (T, 3): each and the stretch that it stands for; and of its shots, all in seconds."""

    spans_s: NDArray[np.float64]
    shots: Sequence[tuple[float, float]]


def score(s: Snapshot, vector: FloatArray, allowed: Flags) -> FloatArray:
    """Score the clips that are allowed (C,) by their best frame under a query (D,): (C,), -inf of all others."""
    found = np.full(len(s.there), -np.inf, np.float32)
    places = s.seen[allowed[s.seen]]
    if s.vectors is not None and len(places):
        best = s.vectors.best_per_clip(vector[None], s.first_rows[places], s.counts[places])[0]
        found[places] = np.round(best, DECIMALS)
    return found


def above(s: Snapshot, scores: FloatArray) -> Column | None:
    """Return the share of nonsense that clips beat, (C,), NaN of those not scored; None where it was not measured."""
    if not s.measured:
        return None
    scored = np.isfinite(scores)
    found = np.full(len(scores), np.nan)
    z = (scores[scored] - s.means[scored]) / s.deviations[scored]
    found[scored] = np.searchsorted(s.null_best, z, "left") / len(s.null_best)
    return found


def times_of(s: Snapshot, clip_ids: Sequence[str]) -> dict[str, ClipTimes]:
    spans: dict[str, list[tuple[float, float, float]]] = {clip_id: [] for clip_id in clip_ids}
    shots: dict[str, list[tuple[float, float]]] = {clip_id: [] for clip_id in clip_ids}
    sql = "SELECT clip_id, {} FROM json_each(?) AS wanted CROSS JOIN {} ON clip_id = wanted.value ORDER BY number"
    wanted = (json.dumps(list(clip_ids)),)
    for clip_id, *span in s.connection.execute(sql.format("time_s, start_s, end_s", s.of.moments), wanted):
        spans[clip_id].append(tuple(span))
    for clip_id, *shot in s.connection.execute(sql.format("start_s, end_s", "shots"), wanted) if s.of is FRAMES else ():
        shots[clip_id].append(tuple(shot))
    return {
        clip_id: ClipTimes(np.array(spans[clip_id], np.float64).reshape(-1, 3), shots[clip_id]) for clip_id in clip_ids
    }


def frames_of(s: Snapshot, place: int, times: ClipTimes) -> NDArray[np.float16]:
    """Read the vectors (T, D) of a clip, as many as it has times; none of one without."""
    count = int(s.counts[place])
    if s.vectors is None or not count:
        return np.empty((0, 0), np.float16)
    if len(times.spans_s) != count:
        (clip_id,) = s.ids([place])
        raise LibraryError(
            f"The catalog has {len(times.spans_s)} moments of clip {clip_id} but {count} vectors; "
            "run `evenreel verify --repair`."
        )
    return s.vectors.read(int(s.first_rows[place]), count)


def stretches(s: Snapshot, vector: FloatArray, place: int, times: ClipTimes) -> list[MomentHit]:
    """Find the stretches of a clip that answer best; none of a clip without vectors."""
    if not len(frames_of(s, place, times)) or s.vectors is None:
        return []
    scores = s.vectors.frame_scores(vector, int(s.first_rows[place]), int(s.counts[place]))
    return high_stretches(scores, times.spans_s, times.shots)


def unit(given: FloatArray | None) -> FloatArray:
    vector = np.array(given, np.float32)
    if not 0 < (length := float(np.linalg.norm(vector))) < np.inf:
        raise EncoderError("The encoder gave a vector without a direction (zero, NaN or infinite).")
    return np.asarray(vector / length, np.float32)


# Other matrices: sounds, and what texts mean (`evenreel.library.search.meaning`) -------------------------------------

NO_SOUNDS = (
    "The library knows of nothing that its videos sound like: none were listened to (`evenreel index --set "
    "sound=MODEL` does)."
)


Encoded = tuple[TextEncoder, FloatArray]  # a model, and its vector of a query (D,)


class OtherModel:
    """The model of another matrix than that of frames; loaded by the first search that asks it."""

    def __init__(self, of: Matrix, load: Callable[[Mapping[str, str]], TextEncoder | None]) -> None:
        self._of, self._load = of, load
        self._encoder: TextEncoder | None = None

    def encode(self, text: str, meta: Mapping[str, str], notices: list[str]) -> Encoded | None:
        """Encode a sentence by the catalog's model; None where it names none, and with a notice where it fails."""
        own = self._of.own(meta)
        if not own.get("weights_hash"):
            return None
        try:
            if self._encoder is None or self._encoder.weights_hash != own["weights_hash"]:
                self._encoder = self._load(own)
            if self._encoder is None:
                return None
            return self._encoder, unit(self._encoder.encode_text([text]).sentence[0])
        except (LibraryError, EncoderError) as error:
            notices.append(_left_out(own, error))
            return None


@dataclass(frozen=True, eq=False)
class Compared:
    """What another matrix than that of frames says of clips (C,) for a query."""

    s: Snapshot  # the library with that matrix in the place of that of frames
    model: TextEncoder
    vector: FloatArray  # (D,) the query
    scores: FloatArray  # similarity of each clip's best window; -inf of others
    found: Flags  # which clips are found by it
    weights: Column | float  # of their ranks
    shares: Column  # share of nonsense that each of these beats; NaN of others


class Heard(Compared):
    """What a model of sounds hears."""

    def stretches(self, clip_id: str, place: int, notices: list[str]) -> list[MomentHit]:
        """Find the stretches of a clip that sound like the query; none, with one notice, where they are damaged."""
        try:
            return stretches(self.s, self.vector, place, times_of(self.s, [clip_id])[clip_id])
        except LibraryError as error:
            sentence = f"Moments by sound are left out: {error}"
            notices.extend([] if sentence in notices else [sentence])
            return []


def with_matrix(s: Snapshot, of: Matrix, asked: Encoded | None) -> Snapshot | None:
    """The same library with another matrix in the place of that of frames; None where it has none of this model."""
    if asked is None or of.own(s.meta).get("weights_hash") != asked[0].weights_hash:
        return None
    if of not in s.kept:
        meta, s.kept[of] = of.own(s.meta), None
        if s.folder is not None and meta.get("dimension"):
            columns = s.held.setdefault(of, ClipColumns(of)).read(s.connection, meta["vectors_generation"])
            vectors, null_best = open_vectors(s.folder, s.meta, of), load_null_best(meta)
            s.kept[of] = replace(s, **columns, vectors=vectors, null_best=null_best, of=of, kept={})
    found: Snapshot | None = s.kept[of]
    return found


def score_or_tell(s: Snapshot, vector: FloatArray, allowed: Flags, notices: list[str]) -> FloatArray | None:
    """Score clips as `score` does; None, with a notice, where the matrix is damaged."""
    try:
        return score(s, vector, allowed)
    except LibraryError as error:
        notices.append(_left_out(s.of.own(s.meta), error))
        return None


def hear(
    s: Snapshot, to_hear: Encoded | None, allowed: Flags, notices: list[str], *, alone: bool, models: int
) -> Heard | None:
    """Score the allowed clips (C,) by their sound, `models` of which may say that it fits; None where it cannot be."""
    heard = with_matrix(s, SOUNDS, to_hear)
    if to_hear is None or heard is None or not len(heard.seen):
        return None
    if (scores := score_or_tell(heard, to_hear[1], allowed, notices)) is None:
        return None
    beaten, found, weights = above(heard, scores), np.isfinite(scores), np.ones(len(scores))
    shares = np.full(len(scores), np.nan) if beaten is None else as_one_of(beaten, models)
    if not alone:
        found = shares >= MAY_FIT
        weights = np.clip(np.nan_to_num((shares - MAY_FIT) / (FITS - MAY_FIT)), 0.0, 1.0)
    return Heard(heard, *to_hear, scores, found, weights, np.where(found, shares, np.nan))


def _left_out(meta: Mapping[str, str], error: Exception) -> str:
    return f"The search went on without the model {meta.get('encoder_id', '')}: {error}"


# Stretches -----------------------------------------------------------------------------------------------------------

Curve = NDArray[np.float64]

EVEN = 1e-3  # scores that differ by less are equal: float16 vectors do not tell them apart
CALM_SHARE, NOISY_SHARE, PER_NOISE = 0.85, 0.2, 1.5
"""Level from which scores are a moment, as a share of the way from Otsu's threshold to the best smoothed score: of
scores without noise, at least, and what noise as large as the scores' deviation takes off."""
FEW = 8  # number of frames below which scores are not smoothed
SMOOTHING = np.array([1.0, 2, 3, 2, 1]) / 9  # weights of five frames: those of a mean of three, taken twice
SURE = 0.8  # share of starts, and of ends, that are meant to lie in their ranges
DOUBT = 4.0  # sum of scores above the level, in their deviations, that makes one start e times as likely as another
MOST_STRETCHES = 256  # of a clip; hours of noise have thousands

MIDDLE = np.array([(1 - SURE) / 2, (1 + SURE) / 2])

Range = tuple[int, int]


class Stretch(NamedTuple):
    """Frames `start` to `stop` - 1, of which `best` is the one to land on.

    The true stretch around that frame is meant to start and to stop within `starts` and `stops`, both ends included, in
    a share `SURE` of cases each.
    """

    start: int
    stop: int
    best: int
    value: float
    starts: Range
    stops: Range


def stretches_of(scores: Curve) -> list[Stretch]:
    """Find the stretches of frames that stand out, the likeliest first; one of all frames where none does.

    They are those whose sum above a level is largest, which a single frame can neither begin nor break. The level lies
    between the threshold that parts scores in two (Otsu 1979) and the best smoothed score: near the best where scores
    hardly change from frame to frame, as those of models that look at time, since only the top of a gentle slope is
    meant; near the threshold where they jump, as those of single frames, since noise makes the best too good.
    """
    smoothed, most = _smoothed(scores), float(scores.max())
    if most - scores.min() < 2 * EVEN:
        best, stop = int(smoothed.argmax()), len(scores)
        return [Stretch(0, stop, best, most, (0, best), (best + 1, stop))]
    spread, middle = float(scores.std()), _otsu(scores)
    changes = np.sort(np.abs(scores[1:] - scores[:-1]))
    noise = float(changes[len(changes) // 2]) / 0.6745 / spread  # as of normal noise with that median
    share = max(NOISY_SHARE, CALM_SHARE - PER_NOISE * noise)
    gains = scores - middle - share * (float(smoothed.max()) - middle)
    doubted = gains / (DOUBT * spread)
    return [
        Stretch(start, stop, best, value, *_ranges(doubted, start, stop, best))
        for start, stop, value in sorted(_largest_sums(gains), key=lambda one: (-one[2], one[0]))[:MOST_STRETCHES]
        for best in (start + int(smoothed[start:stop].argmax()),)
    ]


def _ranges(gains: Curve, start: int, stop: int, best: int) -> tuple[Range, Range]:
    """Where a stretch around a frame may start and stop: each is as likely as e to the sum from there to the frame."""
    near, far = _middle(gains[best::-1])
    low, high = _middle(gains[best:])
    starts = min(start, best - far), max(start, best - near)
    return starts, (min(stop, best + low + 1), max(stop, best + high + 1))


def _middle(gains: Curve) -> Range:
    """First and last of the places in the middle `SURE` of e to the sum up to them."""
    sums = gains.cumsum()
    shares = np.exp(sums - sums.max()).cumsum()
    low, high = (shares / shares[-1]).searchsorted(MIDDLE).tolist()
    return low, min(high, len(gains) - 1)


def _smoothed(scores: Curve) -> Curve:
    """A running mean of three frames, taken twice, with the first and last repeated; few frames stay as they are."""
    if len(scores) < FEW:
        return scores
    first, last = scores[:1], scores[-1:]
    return np.convolve(np.concatenate([first, first, scores, last, last]), SMOOTHING, mode="valid")


def _otsu(scores: Curve) -> float:
    """Find the threshold that parts scores into two groups of the least variance."""
    ordered = np.sort(scores)
    below = np.arange(1.0, len(ordered))
    above = below[::-1]
    sums = ordered.cumsum()[:-1]
    apart = (np.add.reduce(ordered) - sums) / above - sums / below
    place = int((below * above * (apart * apart)).argmax())
    return float(ordered[place] + ordered[place + 1]) / 2


def _largest_sums(gains: Curve) -> list[tuple[int, int, float]]:
    """Disjoint stretches with their sums, each the largest of what those before it left, as long as it is positive.

    In one pass (Ruzzo & Tompa 1999): of each stretch, the sums before and after it, and the last one before it that
    begins lower, with which it is one where that also ends lower.
    """
    kept: list[tuple[int, int, float, float, int]] = []
    after = 0.0
    for place, gain in enumerate(gains.tolist()):
        before, after = after, after + gain
        if gain <= 0:
            continue
        start, lower = place, len(kept) - 1
        while lower >= 0:
            first, _, low, high, next_lower = kept[lower]
            if low >= before:
                lower = next_lower
            elif high >= after:
                break
            else:
                del kept[lower:]
                start, before, lower = first, low, next_lower
        kept.append((start, place + 1, before, after, lower))
    return [(start, stop, after - before) for start, stop, before, after, _ in kept]


MAX_MOMENTS = 3
Shots = Sequence[tuple[float, float]]
"""Start and end of each shot of a clip in seconds, in order; empty where they are not known."""


def high_stretches(scores: FloatArray, spans_s: NDArray[np.float64], shots: Shots = ()) -> list[MomentHit]:
    """Find the stretches of a clip whose frames answer best, the likeliest first (`stretches_of`).

    A stretch that goes on over a cut is one for each shot, that of its best frame first. Windows of frames may overlap:
    a stretch goes from the start of its first to the end of its last.
    """
    if len(shots) < 2:
        edges_s, shot_of = spans_s[:, 1:], None
    else:
        edges_s, shot_of = within_shots(spans_s[:, 0], spans_s[:, 1:], [start_s for start_s, _ in shots[1:]])
    return [
        MomentHit(
            float(spans_s[one.best, 0]),
            float(edges_s[one.start, 0]),
            float(edges_s[one.stop - 1, 1]),
            float(scores[one.start : one.stop].max()),
            (float(edges_s[one.starts[0], 0]), float(edges_s[one.starts[1], 0])),
            (float(edges_s[one.stops[0] - 1, 1]), float(edges_s[one.stops[1] - 1, 1])),
        )
        for stretch in stretches_of(scores.astype(np.float64))
        for one in ([stretch] if shot_of is None else _by_shot(stretch, scores, shot_of))
    ]


def _by_shot(stretch: Stretch, scores: FloatArray, shot_of: NDArray[np.intp]) -> list[Stretch]:
    """The parts of a stretch in each shot, the one with its best frame first, then by their best."""
    cuts = stretch.start + 1 + np.flatnonzero(np.diff(shot_of[stretch.start : stretch.stop]))
    parts = []
    for start, stop in pairwise([stretch.start, *cuts.tolist(), stretch.stop]):
        within = start <= stretch.best < stop
        best = stretch.best if within else start + int(scores[start:stop].argmax())
        first, last = np.flatnonzero(shot_of == shot_of[start])[[0, -1]].tolist()
        starts, stops = _clipped(stretch.starts, first, best), _clipped(stretch.stops, best + 1, last + 1)
        parts.append((within, Stretch(start, stop, best, float(scores[best]), starts, stops)))
    return [part for _, part in sorted(parts, key=lambda one: (not one[0], -one[1].value, one[1].start))]


def _clipped(places: Range, least: int, most: int) -> Range:
    low, high = (min(max(place, least), most) for place in places)
    return low, high


def best_moments(found: Sequence[MomentHit], others: Sequence[MomentHit] = ()) -> tuple[MomentHit, ...]:
    """Choose at most three moments, no two of which overlap, first of the channel that found the clip."""
    chosen: list[MomentHit] = []
    for moment in (*found, *others):
        for one in chosen:
            begins, ends = max(one.start_s, moment.start_s), min(one.end_s, moment.end_s)
            has_point = one.start_s == one.end_s or moment.start_s == moment.end_s  # it was read in a single frame
            if begins < ends or (begins == ends and has_point):
                break
        else:
            chosen.append(moment)
    return tuple(chosen[:MAX_MOMENTS])


def shown(sign: TextHit) -> MomentHit:
    return MomentHit((sign.start_s + sign.end_s) / 2, sign.start_s, sign.end_s, sign.similarity)


def spoken(utterance: TextHit) -> MomentHit:
    return MomentHit(utterance.start_s, utterance.start_s, utterance.end_s, utterance.similarity)


def whole(seen: Sequence[MomentHit], duration_s: float | None, score: float) -> list[MomentHit]:
    """Return a whole clip, found by its name or caption, as one moment at the frame that best matches the query."""
    end_s = max((moment.end_s for moment in seen), default=0.0) if duration_s is None else duration_s
    return [MomentHit(moment.time_s, 0.0, max(end_s, moment.end_s), score) for moment in seen[:1]]
