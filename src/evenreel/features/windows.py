"""On-screen text as captions of windows: the signs of a clip in each of O equal stretches of it.

After TCD's window captioner (Zhao et al., AAAI 2026, METHODS): words of a window in the order in which their signs
appear, a repeated one once, inside a fixed sentence. A window without text has no sentence: equal sentences would make
such windows of all videos alike. The paper's sentence for these can be chosen when features are loaded, see
`evenreel.features.word_changes`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import slices
from evenreel.errors import UsageError
from evenreel.features.clip_reader import spans
from evenreel.features.shards import Shard
from evenreel.types import Encoder, ScoreNotes, Scores, TextFeatures, TextTrack, VideoFeatures

TEMPLATE = "There are scene texts: {words} in this frame."
EMPTY = "There is no scene text in this frame."
"""Sentence of a window without text in the paper."""

Fits = Callable[[str], bool]
"""Function that returns whether a tokenizer takes a sentence whole."""

Change = Callable[[TextTrack, int], TextTrack | None]
"""Function from a sign and the number of a window to the sign as it reads there; None where nothing is left."""

MOMENT_S = 1e-6
"""Seconds before the end of a stretch at which its last moment is: the precision of times."""


class Sampled(NamedTuple):
    """Times of the frames of a clip: `times_s` (T,), in order, and `spans_s` (T, 2), the stretch each stands for."""

    times_s: NDArray[np.float64]
    spans_s: NDArray[np.float64]

    @classmethod
    def of_text(cls, shard: Shard) -> Sampled:
        """Return the times of the frames in which the text of a clip was read."""
        if shard.text_times_s is None:
            return cls(shard.times_s, shard.spans_s)
        return cls(shard.text_times_s, spans(shard.text_times_s, float(shard.spans_s[-1, 1])))


class Windows(NamedTuple):
    """On-screen text in the O windows of a clip."""

    texts: tuple[str, ...]  # O sentences, empty where no sign is shown
    vectors: NDArray[np.float16]  # (O, D) float16, features of the sentences, zero where there is none
    confidence: NDArray[np.float32]  # (O,) float32, see `WindowText`


class WindowText(NamedTuple):
    """On-screen text of one window."""

    text: str  # the sentence; empty where no sign is shown
    # mean over its words of the confidence each was read with, on the sign where it was read best; 0 where there is
    # none, and 1 where the window says so (`where_empty`)
    confidence: float


def with_windows(shard: Shard, count: int, encoder: Encoder, *, exact: bool = False) -> Shard:
    """Return a shard with on-screen windows, made of the text in it; none where on-screen text was not read."""
    if shard.tracks is None or shard.frames is None:
        return replace(shard, window_texts=None, windows=None)
    made = read_windows(shard.tracks, Sampled.of_text(shard), count, encoder, exact=exact)
    return replace(shard, window_texts=made.texts, windows=made.vectors)


def read_windows(
    tracks: Sequence[TextTrack],
    sampled: Sampled,
    count: int,
    encoder: Encoder,
    *,
    exact: bool = False,
    empty: str = "",
) -> Windows:
    """Make the O = `count` windows of a clip with at least one frame, from its signs in the order of their appearance.

    `exact` says that tracks know when signs appear and vanish; `empty` is the sentence of a window without text, such
    as `EMPTY`, by default none.
    """
    said = written(tracks, sampled, count, lambda text: not encoder.truncated([text])[0], exact=exact)
    said = where_empty(said, empty) if empty else said
    texts = tuple(one.text for one in said)
    vectors = np.zeros((count, encoder.dimension), np.float16)
    if distinct := list(dict.fromkeys(filter(None, texts))):
        row_of = dict(zip(distinct, encoder.encode_text(distinct).sentence, strict=True))
        for row, text in enumerate(texts):
            if text:
                vectors[row] = row_of[text]
    return Windows(texts, vectors, np.array([one.confidence for one in said], np.float32))


def written(
    tracks: Sequence[TextTrack],
    sampled: Sampled,
    count: int,
    fits: Fits,
    *,
    exact: bool = False,
    change: Change | None = None,
) -> tuple[WindowText, ...]:
    """Make the on-screen sentence and its confidence for each of the O windows of a clip with at least one frame."""
    spans = windows_of(tracks, sampled, count, exact=exact)
    kept = (_kept(_words(shown), fits) for shown in _shown(tracks, spans, count, change))
    return tuple(WindowText(_fill(words), _mean(words.values())) for words in kept)


def windows_of(tracks: Sequence[TextTrack], sampled: Sampled, count: int, *, exact: bool = False) -> list[range]:
    """Return the numbers of the windows (of O = `count`) in which each sign is shown; arguments as in `written`."""
    length_s = float(sampled.spans_s[-1, 1])
    middles_s = (np.arange(count) + 0.5) * length_s / count
    return [
        range(_window(track.start_s, length_s, count), _window(track.end_s, length_s, count) + 1)
        for track in (tracks if exact else spread(tracks, sampled, middles_s))
    ]


def where_empty(said: Sequence[WindowText], sentence: str) -> tuple[WindowText, ...]:
    """Give windows without text a sentence, with confidence 1, since no word of it was read."""
    return tuple(one if one.text else WindowText(sentence, 1.0) for one in said)


def read_confidence(
    tracks: Sequence[TextTrack], sampled: Sampled, texts: Sequence[str], *, exact: bool = False
) -> NDArray[np.float32]:
    """Compute the mean confidence (O,), 0 to 1, with which the words of each window's sentence were read."""
    before, after = TEMPLATE.split("{words}")
    found = np.zeros(len(texts), np.float32)
    spans = windows_of(tracks, sampled, len(texts), exact=exact)
    for number, shown in enumerate(_shown(tracks, spans, len(texts))):
        said = set(texts[number].removeprefix(before).removesuffix(after).split())
        found[number] = _mean([sure for word, sure in _words(shown).items() if word in said])
    return found


def spread(tracks: Sequence[TextTrack], sampled: Sampled, moments_s: NDArray[np.float64]) -> list[TextTrack]:
    """Extend signs from their frames to the middles of the windows that these frames stand for.

    Else a window between two frames would be empty under a sign that is in both. A frame's whole stretch would reach
    into the next window wherever the frame is not exactly in the middle of its own.
    """
    times_s, spans_s, middles_s = sampled.times_s.tolist(), sampled.spans_s.tolist(), moments_s.tolist()

    def frame_at(time_s: float) -> int:
        return max(0, bisect_left(times_s, time_s + MOMENT_S) - 1)

    reaching = []
    for track in tracks:
        start_s, end_s = spans_s[frame_at(track.start_s)][0], spans_s[frame_at(track.end_s)][1]
        at_s = middles_s[bisect_left(middles_s, start_s) : bisect_left(middles_s, end_s)]
        reaching.append(replace(track, start_s=min([track.start_s, *at_s]), end_s=max([track.end_s, *at_s])))
    return reaching


def _shown(
    tracks: Sequence[TextTrack], spans: Sequence[range], count: int, change: Change | None = None
) -> Iterator[list[TextTrack]]:
    """Iterate over the tracks of each window, as they are read there."""
    for number in range(count):
        shown = (track for track, span in zip(tracks, spans, strict=True) if number in span)
        read = shown if change is None else (change(track, number) for track in shown)
        yield [track for track in read if track is not None]


def _window(time_s: float, length_s: float, count: int) -> int:
    return min(count - 1, int(time_s * count / length_s)) if length_s > 0 else 0


def _words(tracks: Sequence[TextTrack]) -> dict[str, float]:
    """Return words in order with the best confidence they were read with; case makes no other word."""
    spelt: dict[str, str] = {}
    certain: dict[str, float] = {}
    for track in tracks:
        for word in track.text.split():
            first = spelt.setdefault(word.casefold(), word)
            certain[first] = max(certain.get(first, 0.0), track.confidence)
    return certain


def _kept(words: dict[str, float], fits: Fits) -> dict[str, float]:
    """Return as many of the most certain words as the tokenizer takes in the sentence, in their order."""
    if not words or fits(_fill(words)):
        return words
    ranked = sorted(words, key=lambda word: -words[word])  # stable: of equally certain ones the earlier
    fewest, most = 0, len(ranked) - 1
    while fewest < most:
        middle = (fewest + most + 1) // 2
        kept = set(ranked[:middle])
        fewest, most = (middle, most) if fits(_fill([word for word in words if word in kept])) else (fewest, middle - 1)
    kept = set(ranked[:fewest])
    return {word: sure for word, sure in words.items() if word in kept}


def _mean(confidences: Collection[float]) -> float:
    return sum(confidences) / len(confidences) if confidences else 0.0


def _fill(words: Sequence[str] | dict[str, float]) -> str:
    return TEMPLATE.format(words=" ".join(words)) if words else ""


USES = "mean score of the clips with text"
"""What scores of clips without any text are taken from."""
BLOCK_BYTES = 2**26


def window_scores(texts: TextFeatures, videos: VideoFeatures) -> Scores:
    """Compute scores (Q, V): the largest cosine between a word of the caption and an on-screen window of the clip.

    A caption names a sign in one word, and the sign is read in some of the windows, more often wrong than all else that
    is compared. So the best pair says more than a mean over words and windows does, in which the others drown it. It
    says nothing of what a clip shows otherwise: fused with a matcher of frames (`evenreel.evaluation.fuse`), its weight
    learned on a validation split, it counts as much as words are worth there.

    A clip in which no text was read gets the mean of the caption's scores with all other clips.

    Args:
        texts: features of Q captions.
        videos: features of V clips with on-screen text, by the same encoder.

    Raises:
        UsageError: no clip has on-screen text, or captions have features of another length.
    """
    read = videos.on_screen
    if read is None or not read.mask.any():
        raise UsageError("No clip has on-screen text; compute features that have it, without --no-ocr.")
    if texts.words.shape[2] != read.windows.shape[2]:
        raise UsageError(
            f"Features of captions have {texts.words.shape[2]} numbers and those of on-screen text "
            f"{read.windows.shape[2]}; compute both with one encoder."
        )
    written = read.mask.any(1)
    columns, clip_starts = _real(read.windows, read.mask)
    captions = max(1, BLOCK_BYTES // (4 * len(columns) * texts.words.shape[1]))
    values = np.empty((len(texts.ids), len(videos.ids)), np.float32)
    for rows in slices(len(values), captions):
        words, caption_starts = _real(texts.words[rows], texts.word_mask[rows])
        of_words = np.maximum.reduceat(words @ columns.T, clip_starts, axis=1)
        values[rows, written] = np.maximum.reduceat(of_words, caption_starts, axis=0)
    values[:, ~written] = values[:, written].mean(1, keepdims=True)
    about = ScoreNotes(uses=() if written.all() else (USES,))
    return Scores(values, texts.ids, videos.ids, about)


def _real(vectors: NDArray[np.floating], mask: NDArray[np.bool_]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The real vectors (N, D) of all rows that have any, of unit length, and where each such row begins."""
    real = vectors[mask].astype(np.float32)
    counts = mask.sum(1)
    counts = counts[counts > 0]
    return real / np.linalg.norm(real, axis=1, keepdims=True), np.cumsum(counts) - counts
