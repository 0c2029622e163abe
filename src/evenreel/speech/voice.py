"""Voice activity: where in a sound somebody speaks, by Silero's detector, which faster-whisper's wheel holds.

The sound comes in blocks, and no more of it is held than the piece of speech that is being heard.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenreel.errors import EncoderError
from evenreel.media.sound import SAMPLE_RATE, SoundBlock
from evenreel.types import FloatArray

WINDOW = 512
"""Samples of one look of the detector: 32 ms."""

_CONTEXT = 64  # samples before a window that the detector sees too
_MODEL = "silero_vad_v6.onnx"
_FOLLOWS_S = 1e-3  # blocks that are no further apart are one sound


@dataclass(frozen=True)
class VoiceRule:
    """Rule by which chances of speech become pieces of speech.

    Attributes:
        threshold: chance from which on somebody speaks.
        release: chance below which nobody does; between the two it stays as it was.
        silence_s: silence that ends a piece.
        margin_s: sound before and after a piece that belongs to it.
        most_s: length past which a piece is cut at its last pause.
        longest_s: length at which a piece without any pause is cut where speech is least likely.
        pause_s: silence that is a pause.
    """

    threshold: float = 0.5
    release: float = 0.35
    silence_s: float = 2.0
    margin_s: float = 0.4
    most_s: float = 29.0
    longest_s: float = 120.0
    pause_s: float = 0.098


@dataclass(frozen=True)
class SpeechPiece:
    """A stretch of sound in which somebody speaks.

    Attributes:
        start_s: when it begins, in seconds of the clip's own clock.
        samples: (N,) float32 at 16 kHz.
    """

    start_s: float
    samples: FloatArray

    @property
    def end_s(self) -> float:
        """Return when the piece ends, in seconds of the clip's own clock."""
        return self.start_s + len(self.samples) / SAMPLE_RATE


class VoiceDetector:
    """Silero's detector of speech on one thread of onnxruntime; it remembers what it heard of one sound."""

    def __init__(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.inter_op_num_threads = options.intra_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            str(_model_file()), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self.forget()

    def forget(self) -> None:
        """Begin anew, with another sound."""
        self._state = (np.zeros((1, 1, 128), np.float32), np.zeros((1, 1, 128), np.float32))
        self._before = np.zeros(_CONTEXT, np.float32)

    def chances(self, samples: FloatArray) -> FloatArray:
        """Compute how likely somebody speaks in each window: (N * 512,) -> (N,), 0 to 1."""
        windows = samples.reshape(-1, WINDOW)
        if not len(windows):
            return np.zeros(0, np.float32)
        ends = np.concatenate([self._before[None], windows[:, -_CONTEXT:]])
        self._before = ends[-1]
        hidden, cell = self._state
        seen = np.concatenate([ends[:-1], windows], axis=1)
        found, *state = self._session.run(None, {"input": seen, "h": hidden, "c": cell})
        self._state = (state[0], state[1])
        return np.asarray(found, np.float32).reshape(-1)


def _model_file() -> Path:
    found = importlib.util.find_spec("faster_whisper")
    if found is None or not found.submodule_search_locations:
        raise EncoderError(
            "Hearing speech needs faster_whisper, which is not installed: pip install 'evenreel[speech]'."
        )
    path = Path(found.submodule_search_locations[0]) / "assets" / _MODEL
    if not path.is_file():
        raise EncoderError(f"The detector of speech ({_MODEL}) is not in {path.parent}; install faster-whisper 1.2.")
    return path


@dataclass(frozen=True)
class Span:
    """Windows of one piece, from `begin` up to, without, `end`; its margin may go on up to, without, `until`."""

    begin: int
    end: int
    until: int


class SpanFinder:
    """Finder of spans of speech, window by window, as Silero's authors do it."""

    def __init__(self, rule: VoiceRule) -> None:
        self._rule = rule
        self._place = 0  # the next window
        self._begin: int | None = None
        self._quiet_from: int | None = None
        self._pause: tuple[int, int] | None = None  # the last one of this span
        self._recent: deque[tuple[float, int]] = deque(maxlen=_windows(10))

    @property
    def begin(self) -> int | None:
        """Window in which the span that is being heard begins; None in silence."""
        return self._begin

    def add(self, chance: float) -> Span | None:
        """Take the chance of speech in the next window; return a span that ended with it."""
        place, self._place = self._place, self._place + 1
        self._recent.append((chance, place))
        if self._begin is None:
            if chance >= self._rule.threshold:
                self._begin = place
            return None
        if chance >= self._rule.threshold:
            self._quiet_from = None
        elif chance < self._rule.release:
            if self._quiet_from is None:
                self._quiet_from = place
            if (place - self._quiet_from) * WINDOW > self._rule.pause_s * SAMPLE_RATE:
                self._pause = (self._quiet_from, place)
            if (place - self._quiet_from) * WINDOW >= self._rule.silence_s * SAMPLE_RATE:
                return self._close(self._quiet_from, place)
        return self._cut(place) if place - self._begin >= _windows(self._rule.most_s) else None

    def finish(self) -> Span | None:
        """Return the span that the end of the sound ends."""
        return None if self._begin is None else self._close(self._place, self._place)

    def _cut(self, place: int) -> Span | None:
        if self._pause is not None:
            begin, end = self._pause
            if begin == self._quiet_from:  # it goes on: what follows is silence so far
                return self._close(begin, place)
            return self._close_and_go_on((begin + end) // 2)
        if self._begin is not None and place - self._begin >= _windows(self._rule.longest_s):
            return self._close_and_go_on(min(self._recent)[1])
        return None

    def _close_and_go_on(self, end: int) -> Span:
        span = self._close(end, end)
        self._begin = end
        return span

    def _close(self, end: int, until: int) -> Span:
        assert self._begin is not None
        span = Span(self._begin, end, until)
        self._begin, self._quiet_from, self._pause = None, None, None
        return span


def _windows(length_s: float) -> int:
    return int(length_s * SAMPLE_RATE) // WINDOW


def find_pieces(blocks: Iterable[SoundBlock], detector: VoiceDetector, rule: VoiceRule) -> Iterator[SpeechPiece]:
    """Yield the pieces of a sound in which somebody speaks, in rising time; they do not overlap."""
    run: _Run | None = None
    for block in blocks:
        if run is None or abs(block.start_s - run.end_s) > _FOLLOWS_S:
            if run is not None:
                yield from run.finish()
            detector.forget()
            run = _Run(block.start_s, detector, rule)
        yield from run.add(block.samples)
    if run is not None:
        yield from run.finish()


class _Run:
    """Sound without a gap, of which only what may still be spoken is held; places are samples from its start."""

    def __init__(self, start_s: float, detector: VoiceDetector, rule: VoiceRule) -> None:
        self._start_s, self._detector, self._rule = start_s, detector, rule
        self._spans = SpanFinder(rule)
        self._held = np.zeros(0, np.float32)
        self._first = 0  # place of what is held
        self._looked = 0  # up to where the detector has looked
        self._given = 0  # where the last piece ended

    @property
    def end_s(self) -> float:
        return self._start_s + (self._first + len(self._held)) / SAMPLE_RATE

    def add(self, samples: FloatArray) -> Iterator[SpeechPiece]:
        self._held = np.concatenate([self._held, samples])
        new = self._held[self._looked - self._first :]
        yield from self._look(new[: len(new) // WINDOW * WINDOW])
        margin = int(self._rule.margin_s * SAMPLE_RATE)
        begin = self._looked if self._spans.begin is None else self._spans.begin * WINDOW
        needed = max(self._first, self._given, begin - margin)
        self._held, self._first = self._held[needed - self._first :].copy(), needed

    def finish(self) -> Iterator[SpeechPiece]:
        rest = self._held[self._looked - self._first :]
        yield from self._look(np.pad(rest, (0, -len(rest) % WINDOW)))
        if (span := self._spans.finish()) is not None:
            yield self._piece(span)

    def _look(self, samples: FloatArray) -> Iterator[SpeechPiece]:
        chances = self._detector.chances(samples)
        self._looked += len(samples)
        for chance in chances.tolist():
            if (span := self._spans.add(chance)) is not None:
                yield self._piece(span)

    def _piece(self, span: Span) -> SpeechPiece:
        margin = int(self._rule.margin_s * SAMPLE_RATE)
        begin = max(self._first, self._given, span.begin * WINDOW - margin)
        end = min(span.end * WINDOW + margin, span.until * WINDOW, self._first + len(self._held))
        self._given = end
        return SpeechPiece(
            self._start_s + begin / SAMPLE_RATE, self._held[begin - self._first : end - self._first].copy()
        )
