"""Stretches of speech: what a model hears at a time, made of pieces with the silence between them left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from evenreel.media.sound import SAMPLE_RATE
from evenreel.speech.voice import SpeechPiece
from evenreel.types import FloatArray


@dataclass(frozen=True)
class SpeechStretch:
    """Pieces of speech, one right after the other."""

    pieces: tuple[SpeechPiece, ...]

    @cached_property
    def samples(self) -> FloatArray:
        """Return the sound of all pieces: (N,) float32 at 16 kHz."""
        return np.concatenate([piece.samples for piece in self.pieces])

    @cached_property
    def _begins_s(self) -> list[float]:
        lengths = [len(piece.samples) / SAMPLE_RATE for piece in self.pieces]
        return [0.0, *accumulate(lengths[:-1])]

    def piece_at(self, time_s: float) -> int:
        """Return the number of the piece that is heard at a time in seconds from the start of the stretch."""
        return max(0, bisect_right(self._begins_s, time_s) - 1)

    def clip_time_s(self, time_s: float, piece: int) -> float:
        """Return when in the clip it is that time of the stretch, which is held to be in the given piece."""
        found = self.pieces[piece]
        return min(max(found.start_s, found.start_s + time_s - self._begins_s[piece]), found.end_s)


def join_pieces(pieces: Iterable[SpeechPiece], most_s: float) -> Iterator[SpeechStretch]:
    """Yield stretches of at most so many seconds of speech; a piece that is longer is a stretch of its own."""
    held: list[SpeechPiece] = []
    for piece in pieces:
        if held and sum(len(one.samples) for one in [*held, piece]) > most_s * SAMPLE_RATE:
            yield SpeechStretch(tuple(held))
            held = []
        held.append(piece)
    if held:
        yield SpeechStretch(tuple(held))
