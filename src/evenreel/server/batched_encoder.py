"""A text tower that many threads share: what waits for it is encoded together, and kept for whoever asks again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from evenreel.types import Encoder, FloatArray, Pixels, TextEmbedding

KEPT_BYTES = 8 * 2**20
"""Most bytes of encoded captions that are kept, of which single words are asked for again most."""
LIKE_LENGTH = 16
"""Captions are padded to the longest of those that go through the tower with them, so only those of like length do."""


class BatchedEncoder:
    """Encoder that several threads share; it passes what they ask for on to the encoder it wraps, one call at a time.

    Captions that threads wait to have encoded are encoded with the next call, whoever makes it. Those of like length
    make one batch, padded to the longest of them; what is kept of each is without padding, so that it is the same
    whatever was beside it. A caption that cannot be encoded fails alone.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._asked: dict[str, None] = {}  # captions that wait, in order
        self._kept: OrderedDict[str, TextEmbedding] = OrderedDict()
        self._kept_bytes = 0
        self.encoder_id, self.weights_hash = encoder.encoder_id, encoder.weights_hash
        self.dimension, self.window = encoder.dimension, encoder.window

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames to (N, D) float32, rows of unit length."""
        with self._turn:
            return self._encoder.encode_windows(pixels)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode N captions, cut at the tokenizer's limit, to vectors of their words and sentences."""
        if isinstance(captions, str) or not captions:
            with self._turn:
                return self._encoder.encode_text(captions)
        found = self._found(captions)
        if len(found) < len(set(captions)):
            with self._lock:
                self._asked.update(dict.fromkeys(caption for caption in captions if caption not in found))
            with self._turn:
                found |= self._found(captions)  # another thread may have done it
                if len(found) < len(set(captions)):
                    found |= self._encode(self._taken(captions, found))
                for caption in captions:
                    if caption not in found:  # it failed beside others: by itself it says why
                        found[caption] = self._encoder.encode_text([caption])
        return _joined([found[caption] for caption in captions])

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether it is longer than the text tower takes, so that its end is not read."""
        with self._turn:
            return self._encoder.truncated(captions)

    def _taken(self, captions: Sequence[str], found: Iterable[str]) -> list[str]:
        """The captions that are wanted here, and all that wait."""
        with self._lock:
            taken = dict.fromkeys(captions) | self._asked
            self._asked.clear()
            return [caption for caption in taken if caption not in self._kept and caption not in found]

    def _found(self, captions: Sequence[str]) -> dict[str, TextEmbedding]:
        with self._lock:
            found = {caption: self._kept[caption] for caption in captions if caption in self._kept}
            for caption in found:
                self._kept.move_to_end(caption)
            return found

    def _encode(self, captions: Sequence[str]) -> dict[str, TextEmbedding]:
        """Those of some captions that can be encoded."""
        found: dict[str, TextEmbedding] = {}
        for _, group in groupby(
            sorted(captions, key=len), key=lambda caption: (len(caption) // LIKE_LENGTH).bit_length()
        ):
            batch = list(group)
            try:
                found |= zip(batch, _parted(self._encoder.encode_text(batch)), strict=True)
            except Exception:  # whichever it is of them, the others are not to blame
                if len(batch) > 1:
                    found |= {caption: made for one in batch for caption, made in self._encode([one]).items()}
        self._keep(found)
        return found

    def _keep(self, found: dict[str, TextEmbedding]) -> None:
        with self._lock:
            for caption, made in found.items():
                self._kept_bytes += _bytes(made) - (_bytes(self._kept.pop(caption)) if caption in self._kept else 0)
                self._kept[caption] = made
            while self._kept_bytes > KEPT_BYTES:
                _, gone = self._kept.popitem(last=False)
                self._kept_bytes -= _bytes(gone)


def _parted(made: TextEmbedding) -> list[TextEmbedding]:
    """Each caption alone, without padding."""
    return [
        TextEmbedding(words[mask][None], np.ones((1, int(mask.sum())), np.bool_), sentence[None].copy())
        for words, mask, sentence in zip(made.words, made.word_mask, made.sentence, strict=True)
    ]


def _joined(parts: Sequence[TextEmbedding]) -> TextEmbedding:
    """Captions together, padded to the longest of them."""
    if len(parts) == 1:
        return parts[0]
    lengths = [part.words.shape[1] for part in parts]
    words = np.zeros((len(parts), max(lengths), parts[0].words.shape[2]), np.float32)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    for row, part in enumerate(parts):
        words[row, : lengths[row]] = part.words[0]
    return TextEmbedding(words, mask, np.concatenate([part.sentence for part in parts]))


def _bytes(made: TextEmbedding) -> int:
    return int(made.words.nbytes + made.word_mask.nbytes + made.sentence.nbytes)
