"""Models that the threads of a server share: one thread at a time, and one that failed to load is kept as such."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from evenreel.types import Encoder, FloatArray, Pixels, TextEmbedding

RETRY_S = 300.0
"""Seconds after which a further model that could not be loaded is tried again."""
Version = tuple[tuple[int, int, int], ...]
"""Inode, size and time of change of files."""


class ThreadSafeEncoder:
    """Encoder that several threads share: it passes each call on to the encoder it wraps, one call at a time."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._turn = threading.Lock()
        self.encoder_id, self.weights_hash = encoder.encoder_id, encoder.weights_hash
        self.dimension, self.window = encoder.dimension, encoder.window

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames to (N, D) float32, rows of unit length."""
        with self._turn:
            return self._encoder.encode_windows(pixels)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode N captions, cut at the tokenizer's limit, to vectors of their words and sentences."""
        with self._turn:
            return self._encoder.encode_text(captions)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether it is longer than the text tower takes, so that its end is not read."""
        with self._turn:
            return self._encoder.truncated(captions)


class HeldModel(NamedTuple):
    """A further model of a library that is served.

    Attributes:
        folder: name of the folder of its vectors.
        encoder: the model; None where it could not be loaded.
        trouble: why it could not be loaded.
        vectors: state of its vectors as that was tried.
        tried_s: seconds of the monotonic clock as that was tried.
    """

    folder: str
    encoder: ThreadSafeEncoder | None
    trouble: str = ""
    vectors: Version = ()
    tried_s: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it could not be loaded and some minutes have gone by since."""
        return self.encoder is None and time.monotonic() - self.tried_s >= RETRY_S
