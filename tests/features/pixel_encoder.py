"""An encoder without a model: a frame is its colours in four quarters, a word a random direction of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

DIMENSION = 12
LIMIT = 12


class PixelEncoder:
    encoder_id = "org/pixels@1"
    dimension = DIMENSION
    window = WindowRule()

    def __init__(self, weights_hash: str = "a" * 64) -> None:
        self.weights_hash = weights_hash
        self.frames_encoded = 0
        self.captions: list[str] = []

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        self.frames_encoded += len(pixels)
        return np.stack([self._frame(picture) for (picture,) in pixels])

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        self.captions += captions
        rows = [["<", *caption.lower().split()[: LIMIT - 2], ">"] for caption in captions]
        words = np.zeros((len(rows), max(map(len, rows)), DIMENSION), np.float32)
        mask = np.zeros(words.shape[:2], np.bool_)
        for number, row in enumerate(rows):
            words[number, : len(row)] = [3 * self._direction(word) for word in row]
            mask[number, : len(row)] = True
        sentence = words.sum(axis=1)
        return TextEmbedding(words, mask, sentence / np.linalg.norm(sentence, axis=1, keepdims=True))

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        return [len(caption.split()) + 2 > LIMIT for caption in captions]

    def _frame(self, picture: Pixels) -> FloatArray:
        _, height, width = picture.shape
        halves = (slice(0, height // 2), slice(height // 2, None)), (slice(0, width // 2), slice(width // 2, None))
        colours = [picture[:, rows, columns].mean(axis=(1, 2)) for rows in halves[0] for columns in halves[1]]
        values = np.concatenate(colours).astype(np.float32) + 1
        return values / np.linalg.norm(values)

    def _direction(self, word: str) -> FloatArray:
        seed = hashlib.sha256((self.weights_hash + word).encode()).digest()[:8]
        values = np.random.default_rng(int.from_bytes(seed, "big")).standard_normal(DIMENSION).astype(np.float32)
        return values / np.linalg.norm(values)
