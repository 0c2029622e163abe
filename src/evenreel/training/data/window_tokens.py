"""What is written on screen in clips, as tokens for a text tower that is in training."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from evenreel.arrays import Indices
from evenreel.encoders.towers import Towers
from evenreel.encoders.trainable import TokenIds, shortened, tokenise
from evenreel.features.on_screen import ScreenSentences
from evenreel.features.settings import Words

NOTHING = ""
"""The sentence of a window without text. It is always the first, and the tower reads it with every batch: else a device
with no text in its part of a batch would have no gradients to send where the others wait for them."""


@dataclass(frozen=True, eq=False)
class WindowTokens:
    """The sentences of the O windows of V clips, each distinct one once.

    Attributes:
        sentences: (N, W) token ids of the distinct sentences and their mask.
        rows: (V, O) which of them each window says; 0 where nothing is written.
        confidence: (V, O) see `evenreel.types.OnScreen`.
        words_from: where the words are from.
        full_length: whether the tower takes sentences of its full length only, as SigLIP does.
    """

    sentences: TokenIds
    rows: Tensor
    confidence: Tensor
    words_from: Words
    full_length: bool = False

    @property
    def count(self) -> int:
        """The number O of windows."""
        return self.rows.shape[1]

    @property
    def mask(self) -> Tensor:
        """(V, O) True = some text was read in the window."""
        return self.rows > 0

    def of(self, clips: Indices) -> WindowTokens:
        """Select the windows of some clips, and the sentences that they say."""
        where = torch.from_numpy(clips)
        rows = self.rows[where]
        said, places = torch.unique(torch.cat([rows.new_zeros(1), rows.flatten()]), return_inverse=True)
        sentences = TokenIds(self.sentences.ids[said], self.sentences.mask[said])
        return replace(
            self,
            sentences=sentences if self.full_length else shortened(sentences),
            rows=places[1:].view_as(rows),
            confidence=self.confidence[where],
        )

    def on(self, device: torch.device) -> WindowTokens:
        """Move the tensors to another device."""
        sentences = TokenIds(*(tensor.to(device, non_blocking=True) for tensor in self.sentences))
        rows, confidence = (one.to(device, non_blocking=True) for one in (self.rows, self.confidence))
        return replace(self, sentences=sentences, rows=rows, confidence=confidence)

    def digest(self) -> str:
        """Digest of all that the windows say, the clips in order."""
        digest = hashlib.sha256()
        for tensor in (*self.sentences, self.rows, self.confidence):
            digest.update(np.ascontiguousarray(tensor.numpy()).tobytes())
        return digest.hexdigest()


def window_tokens(towers: Towers, written: ScreenSentences) -> WindowTokens:
    """Tokenise what is written in some clips."""
    distinct = {text: row for row, text in enumerate(dict.fromkeys([NOTHING, *_all(written.texts)]))}
    rows = torch.tensor([[distinct[text] for text in windows] for windows in written.texts])
    return WindowTokens(
        tokenise(towers, list(distinct), towers.longest_caption),
        rows,
        torch.from_numpy(written.confidence),
        written.words_from,
        full_length=towers.checkpoint.family != "clip",
    )


def _all(texts: Sequence[Sequence[str]]) -> list[str]:
    return [text for windows in texts for text in windows]
