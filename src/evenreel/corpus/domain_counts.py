"""Counts of the captions and words that the source and the target domain of a corpus have in common."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from evenreel.corpus.domains import SOURCE, TARGET
from evenreel.corpus.summary import SplitCounts
from evenreel.types import Corpus

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class DomainCounts:
    """Counts of a source and a target domain, and of what they have in common.

    Attributes:
        source, target: numbers of clips and captions of each domain.
        shared_captions: captions of the target that the source has too, but for case and spaces.
        source_words, target_words, shared_words: numbers of different words, in small letters.
        known_percent: percent of the target's different words that the source has too; None without captions.
        known_in_text_percent: the same percentage with each word counted as often as it occurs.
    """

    source: SplitCounts
    target: SplitCounts
    shared_captions: int
    source_words: int
    target_words: int
    shared_words: int
    known_percent: float | None
    known_in_text_percent: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a dictionary that JSON can hold."""
        return asdict(self)


def domain_counts(corpus: Corpus) -> DomainCounts:
    """Count the captions and words that the source and target domain of a corpus have in common.

    >>> from evenreel.corpus import make_corpus
    >>> clips = pl.DataFrame({"clip_id": ["a", "b"], "domain": ["source", "target"]})
    >>> captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["a red cat", "a cat naps"]})
    >>> counts = domain_counts(make_corpus(clips, captions))
    >>> counts.shared_words, counts.target_words, round(counts.known_percent, 1)
    (2, 3, 66.7)
    """
    clips = Counter(corpus.clips["domain"])
    source, target = (_captions(corpus, domain) for domain in (SOURCE, TARGET))
    first, second = (Counter(word for text in texts for word in _WORD.findall(text)) for texts in (source, target))
    shared, there = first.keys() & second.keys(), set(source)
    return DomainCounts(
        source=SplitCounts(clips[SOURCE], len(source)),
        target=SplitCounts(clips[TARGET], len(target)),
        shared_captions=sum(text in there for text in target),
        source_words=len(first),
        target_words=len(second),
        shared_words=len(shared),
        known_percent=100 * len(shared) / len(second) if second else None,
        known_in_text_percent=100 * sum(second[word] for word in shared) / second.total() if second else None,
    )


def _captions(corpus: Corpus, domain: str) -> list[str]:
    """Captions of the clips of a domain, in small letters with single spaces."""
    own = corpus.clips.filter(pl.col("domain") == domain)["clip_id"]
    texts = corpus.captions.filter(pl.col("clip_id").is_in(own.implode()))["text"]
    return [" ".join(text.lower().split()) for text in texts]
