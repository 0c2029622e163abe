"""Lending of words: which clip's words each clip of a corpus is to show or say, and the column that tells it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from zlib import crc32

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus
from evenreel.corpus.distractors import OVERLAY_OF, VOICEOVER_OF, assign_distractors
from evenreel.errors import CorpusError
from evenreel.types import Corpus


def lend_words(
    corpus: Corpus, words: Mapping[str, str], seed: int, none_to_lend: Callable[[str, int], str]
) -> dict[str, str]:
    """Assign each clip another clip of its split, the distractor, whose words it is to show or say.

    A clip never gets words of which it has all itself, or of a clip with a caption equal to one of its own. Each clip's
    words are used about as often.

    Args:
        corpus: corpus of the clips.
        words: words that each clip would lend, by clip id; a clip whose words are empty lends none.
        seed: seed of the assignment.
        none_to_lend: function that makes the sentence for a split (its name and number of clips) without any words.

    Returns:
        The distractor by clip id.
    """
    sentences = {clip: {_folded(one) for one in some} for clip, some in captions_of(corpus).items()}
    terms = {clip: set(_folded(text).split()) for clip, text in words.items()}

    def fits(carrier: str, distractor: str) -> bool:  # a clip has all of its own words, so it never lends to itself
        return sentences[carrier].isdisjoint(sentences[distractor]) and not terms[distractor] <= terms[carrier]

    distractors: dict[str, str] = {}
    for split, clips in _by_split(corpus).items():
        able = [clip for clip in clips if terms[clip]]
        if not able:
            raise CorpusError(none_to_lend(split, len(clips)))
        random = np.random.default_rng([seed, crc32(split.encode())])
        distractors |= assign_distractors(clips, able, fits, random)
    return distractors


def mark_lenders(corpus: Corpus, distractors: Mapping[str, str] | None, column: str) -> Corpus:
    """Return a corpus with a column that names each clip's distractor; None takes all such columns away."""
    clips = corpus.clips.drop(OVERLAY_OF, VOICEOVER_OF, strict=False)
    if distractors is not None:
        lenders = [distractors[clip] for clip in clips["clip_id"]]
        clips = clips.with_columns(pl.Series(column, lenders, pl.String))
    return make_corpus(clips, corpus.captions)


def captions_of(corpus: Corpus) -> dict[str, list[str]]:
    """Return the captions of each clip, in the order of the table."""
    found: dict[str, list[str]] = {clip: [] for clip in corpus.clips["clip_id"]}
    for clip, text in corpus.captions.select("clip_id", "text").iter_rows():
        found[clip].append(text)
    return found


def shortened(text: str, most: int) -> str:
    """Return as many of the words as `most` letters have room for, or the beginning of the first one.

    >>> shortened("a man is cutting bread", 12), shortened("Donaudampfschiff", 5)
    ('a man is', 'Donau')
    """
    if len(text) <= most:
        return text
    whole, _, _ = text[: most + 1].rpartition(" ")
    return whole or text[:most]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _by_split(corpus: Corpus) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for clip, split in corpus.clips.select("clip_id", "split").iter_rows():
        found[split or ""].append(clip)
    return found
