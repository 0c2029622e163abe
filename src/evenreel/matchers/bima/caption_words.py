"""Captions as vocabulary numbers of their words, for decoders that are trained to write captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from evenreel.language.tokens import split_words

BEGIN, END, UNKNOWN = range(3)
"""Numbers of what begins and ends a caption, and of every word that is not in the vocabulary."""

SPECIAL = 3
"""The words of the vocabulary have the numbers from here on."""


class WrittenCaptions(NamedTuple):
    """B captions as vocabulary numbers, the input and target of a decoder.

    Attributes:
        before: (B, L) the word before each target: the begin mark, then the words.
        words: (B, L) targets: the words, then the end mark.
        mask: (B, L) True = real.
    """

    before: Tensor
    words: Tensor
    mask: Tensor

    def on(self, device: torch.device) -> WrittenCaptions:
        """Return a copy with the tensors on another device."""
        return WrittenCaptions(*(tensor.to(device) for tensor in self))


def words_in(caption: str) -> list[str]:
    """Split a caption into words and punctuation marks, in small letters.

    >>> words_in("A Man's dog")
    ['a', 'man', "'s", 'dog']
    """
    return split_words(caption.lower())


def vocabulary_of(captions: Iterable[str], most: int, least: int = 1) -> tuple[str, ...]:
    """Return the `most` most frequent words of captions, each found at least `least` times; ties by the alphabet.

    >>> vocabulary_of(["a dog", "a cat and a dog", "two"], most=3)
    ('a', 'dog', 'and')
    """
    counts = Counter(word for caption in captions for word in words_in(caption))
    kept = sorted((word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word))
    return tuple(kept[:most])


class CaptionWords:
    """Vocabulary of a caption decoder: distinct words in small letters, and special words."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {word: number for number, word in enumerate(vocabulary, start=SPECIAL)}

    def __len__(self) -> int:
        return SPECIAL + len(self._numbers)

    def written(self, captions: Sequence[str], most: int) -> WrittenCaptions:
        """Convert captions to vocabulary numbers; a caption of more than `most` words is cut and gets no end mark.

        >>> CaptionWords(["a", "dog"]).written(["A dog", "a big dog"], most=3).words
        tensor([[3, 4, 1],
                [3, 2, 4]])
        """
        words = [[self._numbers.get(word, UNKNOWN) for word in words_in(caption)] for caption in captions]
        rows = [([BEGIN, *one][:most], [*one, END][:most]) for one in words]
        longest = max((len(after) for _, after in rows), default=1)
        before, after = torch.full((2, len(rows), longest), END)
        for row, (one, other) in enumerate(rows):
            before[row, : len(one)], after[row, : len(other)] = torch.tensor(one), torch.tensor(other)
        lengths = torch.tensor([len(after) for _, after in rows], dtype=torch.int64)
        return WrittenCaptions(before, after, torch.arange(longest) < lengths[:, None])
