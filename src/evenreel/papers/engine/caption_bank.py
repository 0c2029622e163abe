"""Training captions that scores are corrected by, read as they are drawn: all of them may be more than memory holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenreel.adaptation.stream import shortened
from evenreel.arrays import Indices
from evenreel.features import load_text_features
from evenreel.features.graphs import with_graphs
from evenreel.features.load import check_text_features
from evenreel.types import Corpus, Shown, TextFeatures


@dataclass(frozen=True, eq=False)
class CaptionBank(Shown):
    """Training captions that scores are corrected by, read from disk as they are drawn.

    Attributes:
        count: number of captions.
        read: reads the features of some captions by their places.
    """

    count: int
    read: Callable[[Indices], TextFeatures]

    def drawn(self, seed: int, most: int, words: int | None = None) -> TextFeatures:
        """Draw captions, and read their features in the order of the corpus.

        Args:
            seed: seed of the draw.
            most: most captions that are drawn.
            words: words that each caption is cut to; None for all.
        """
        texts = self.read(np.sort(np.random.default_rng([seed, 3]).permutation(self.count)[:most]))
        if words is None:
            return texts
        kept, mask = shortened(texts.words, texts.word_mask, words)
        return replace(texts, words=kept, word_mask=mask)


def caption_bank(folder: Path, corpus: Corpus, *, graphs: bool) -> CaptionBank:
    """Open the captions of a corpus as a bank; none is read yet.

    Args:
        folder: folder of the captions' features.
        corpus: corpus with the captions; select the split first.
        graphs: whether role graphs of the captions are read too.
    """
    check_text_features(folder, corpus)

    def read(rows: Indices) -> TextFeatures:
        some = Corpus(corpus.clips, corpus.captions[rows])
        texts = load_text_features(folder, some)
        return with_graphs(texts, some) if graphs else texts

    return CaptionBank(corpus.captions.height, read)
