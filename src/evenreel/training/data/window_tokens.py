"""On-screen text of clips as tokens, for a text tower in training."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from evenreel.arrays import Indices
from evenreel.encoders.towers import Towers
from evenreel.encoders.trainable import TokenIds, shortened, takes_whole, tokenise
from evenreel.features.on_screen import read_on_screen
from evenreel.features.settings import Words
from evenreel.features.word_changes import WordChanges
from evenreel.training.recipe import Recipe
from evenreel.types import Corpus

NOTHING = ""
"""The sentence of a window without text. It is always the first, and the tower reads it with every batch: else a device
with no text in its part of a batch would have no gradients to send where the others wait for them."""


@dataclass(frozen=True, eq=False)
class WindowTokens:
    """On-screen text of V clips in O windows each, as tokens of its sentences.

    Attributes:
        sentences: (N, W) token ids of the N distinct sentences, and their mask.
        rows: (V, O) index of each window's sentence; 0 where there is no text.
        confidence: (V, O) confidence, 0 to 1, with which words were read.
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
        """Mask (V, O), True where some text was read in the window."""
        return self.rows > 0

    def of(self, clips: Indices) -> WindowTokens:
        """Select the windows of clips by their rows, and the sentences in them."""
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
        """Return a copy with the tensors on another device."""
        sentences = TokenIds(*(tensor.to(device, non_blocking=True) for tensor in self.sentences))
        rows, confidence = (one.to(device, non_blocking=True) for one in (self.rows, self.confidence))
        return replace(self, sentences=sentences, rows=rows, confidence=confidence)

    def digest(self) -> str:
        """Return a digest of the sentences of all windows, clip by clip."""
        digest = hashlib.sha256()
        for tensor in (*self.sentences, self.rows, self.confidence):
            digest.update(np.ascontiguousarray(tensor.numpy()).tobytes())
        return digest.hexdigest()


def on_screen_tokens(
    recipe: Recipe, corpus: Corpus, clip_ids: tuple[str, ...], rule: str, towers: Towers, *, learned: bool
) -> WindowTokens | None:
    """Read the on-screen text of clips from stored features of any encoder, and tokenise it.

    Args:
        recipe: recipe whose `data` names the folder of features, and how words are changed; without a folder, None is
            returned.
        corpus: corpus that has the clips.
        clip_ids: V clips.
        rule: sampling rule of the frames.
        towers: towers that have the tokenizer, which limits the words of a sentence.
        learned: whether the clips are trained on, and not only scored.

    Raises:
        FeaturesError: the on-screen text of a clip is missing or damaged.
    """
    if recipe.data.on_screen is None:
        return None
    changes = recipe.changed_words or WordChanges()
    if learned:
        changes = changes.learned
    written = read_on_screen(recipe.data.on_screen, corpus, clip_ids, rule, partial(takes_whole, towers), changes)
    sentences = [text for windows in written.texts for text in windows]
    distinct = {text: row for row, text in enumerate(dict.fromkeys([NOTHING, *sentences]))}
    return WindowTokens(
        tokenise(towers, list(distinct), towers.longest_caption),
        torch.tensor([[distinct[text] for text in windows] for windows in written.texts]),
        torch.from_numpy(written.confidence),
        written.words_from,
        full_length=towers.family.padded,
    )
