"""BM25 scores of captions with the words on clips' screens, a text search that needs no model.

Robertson and Zaragoza 2009 (The Probabilistic Relevance Framework: BM25 and Beyond), equation 3.15. A clip is a
document of the words of its signs:

    s(q, v) = sum over words w of q:  log(1 + (V - n_w + 0.5) / (n_w + 0.5)) · f_wv / (f_wv + k1 (1 - b + b l_v / l))

with f_wv how often w is in v, l_v how many words v has and l their mean over all clips, and n_w the clips with w out of
V. The 1 within the logarithm keeps the weight of a word that most clips show above 0, as Lucene does; its factor k1 +
1, which changes no ranking, is left out, as Lucene does too. A word that a caption has twice counts once, and words
such as 'the' are not looked for (`evenreel.language.folding.content_words`).

A track, one sign followed over time, counts once, however long it is: how long says where the camera rested, not what
the clip is about, and counts by windows of time would grow with the frame rate of the reader. A sign that is shown
twice, or lost and found again, is two tracks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from evenreel.errors import UsageError
from evenreel.language.folding import content_words, words
from evenreel.types import ScoreNotes

By = Literal["words", "trigrams"]
"""What is counted: whole words, or all runs of three characters of each word between two spaces, of which a misread
letter spoils three at most."""

WORD_COUNTS = "word counts of the gallery"
"""What such scores use beside a caption and a clip: in how many clips a word is, and how many words a clip has."""

_USING_COUNTS = ScoreNotes(uses=(WORD_COUNTS,))

K1 = 1.2
B = 0.75


@dataclass(frozen=True, eq=False)
class Bm25Scores:
    """BM25 scores of Q captions and V clips, computed from n terms when a block is read; implements `ScoreBlocks`."""

    caption_ids: Sequence[str]  # Q ids of captions
    video_ids: Sequence[str]  # V ids of clips
    asked: sparse.csr_array  # (Q, n) sparse, 1 where a caption has a term
    # (n, V) sparse, what a term adds to the score of a clip, 0 where the clip does not show it
    weights: sparse.csr_array
    about: ScoreNotes = _USING_COUNTS  # notes on what the scores use

    def block(self, captions: slice, videos: slice) -> NDArray[np.float32]:
        """Compute the scores (q, v), float32, of some captions and clips; both slices have a start and a stop."""
        whole = videos.stop - videos.start == len(self.video_ids)
        weights = self.weights if whole else self.weights[:, videos]
        return np.asarray((self.asked[captions] @ weights).toarray(), np.float32)

    @property
    def silent(self) -> int:
        """Number of captions that share no term with any clip: all their scores are 0, so their ranking is void."""
        shown = np.diff(self.weights.indptr) > 0
        return int((self.asked @ shown.astype(np.float64) == 0).sum())


def bm25_scores(
    captions: Mapping[str, str], clips: Mapping[str, Sequence[str]], *, by: By = "words", k1: float = K1, b: float = B
) -> Bm25Scores:
    """Score every caption with the on-screen words of every clip by BM25.

    >>> scores = bm25_scores({"a": "a bus to Bath"}, {"v": ["Bath 12"], "w": ["London"], "x": []})
    >>> row = scores.block(slice(0, 1), slice(0, 3))[0]
    >>> [f"{score:.3f}" for score in row]  # log(1 + 2.5 / 1.5) / (1 + 1.2 (0.25 + 0.75 * 2 / 1)), and 0
    ['0.316', '0.000', '0.000']
    """
    if by not in get_args(By):
        raise UsageError(f"{by!r} is not what BM25 can count; it counts {' or '.join(get_args(By))}.")
    if not (k1 >= 0 and math.isfinite(k1) and 0 <= b <= 1):
        raise UsageError(f"BM25 is asked for with k1 = {k1} and b = {b}; k1 must be at least 0, and b 0 to 1.")
    for clip, signs in clips.items():
        if isinstance(signs, str):
            raise UsageError(
                f"The signs of the clip {clip!r} are the text {signs!r}; give a list of texts, one for each sign."
            )
    numbers: dict[str, int] = {}
    counts = _counted([_terms(chain.from_iterable(map(words, signs)), by) for signs in clips.values()], numbers)
    asked = _counted([dict.fromkeys(_terms(content_words(text), by)) for text in captions.values()], numbers)
    counts.resize(len(clips), len(numbers))
    return Bm25Scores(tuple(captions), tuple(clips), asked, _weights(counts, k1, b))


def trigrams(word: str) -> list[str]:
    """Return the character trigrams of a word, with a space before and after it.

    >>> trigrams("bus")
    [' bu', 'bus', 'us ']
    """
    edged = f" {word} "
    return [edged[start : start + 3] for start in range(len(edged) - 2)]


def _terms(found: Iterable[str], by: By) -> Iterable[str]:
    return found if by == "words" else chain.from_iterable(map(trigrams, found))


def _counted(documents: Iterable[Iterable[str]], numbers: dict[str, int]) -> sparse.csr_array:
    """(documents, terms) how often each has each; terms that are new get the next numbers."""
    places: list[int] = []
    ends = [0]
    for terms in documents:
        places.extend(numbers.setdefault(term, len(numbers)) for term in terms)
        ends.append(len(places))
    shape = (len(ends) - 1, len(numbers))
    table = sparse.csr_array((np.ones(len(places)), np.array(places, np.int64), np.array(ends)), shape=shape)
    table.sum_duplicates()
    return table


def _weights(counts: sparse.csr_array, k1: float, b: float) -> sparse.csr_array:
    """(V, n) counts -> (n, V) what each word adds."""
    total, lengths = counts.shape[0], counts.sum(axis=1)
    with_word = np.bincount(counts.indices, minlength=counts.shape[1])
    rarity = np.log1p((total - with_word + 0.5) / (with_word + 0.5))
    mean = lengths.mean() if lengths.any() else 1.0
    held_back = np.repeat(k1 * (1 - b + b * lengths / mean), np.diff(counts.indptr))
    added = rarity[counts.indices] * counts.data / (counts.data + held_back)
    return sparse.csr_array(sparse.csr_array((added, counts.indices, counts.indptr), shape=counts.shape).T)
