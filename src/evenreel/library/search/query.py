"""Queries to a library, parsed and encoded."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenreel.config import RERANK_DEPTH
from evenreel.documents import brief
from evenreel.errors import EncoderError, UsageError
from evenreel.language.folding import words
from evenreel.library.search.asked import Asked, read_query
from evenreel.library.store.fulltext import MAX_CONTENT_WORDS, content_words
from evenreel.types import Encoder, FloatArray, Pixels, TextEmbedding

if TYPE_CHECKING:
    from evenreel.library.search.rerank import Reranker

MAX_CHARACTERS = 1_000
MOST_CLIPS = 1_000_000
"""Most clips of an answer, and most that a matcher scores anew."""

NEVER_CUT_BYTES = 60
"""Length of a query that no text tower cuts: they read 62 tokens (SigLIP) or more, each of at least one byte."""


class UnfinishedText(str):
    """Text that is still being typed: its last word may be the beginning of a longer one."""

    __slots__ = ()


class ClipMoment(NamedTuple):
    """A clip of a library, and the time of one of its moments in seconds; None for the mean of all."""

    clip_id: str
    time_s: float | None


@dataclass(frozen=True)
class Query:
    """One query to a library: a text, or the vector of a picture.

    Attributes:
        text: words to find in frames, on screen or in what is said, in the language of `evenreel.library.search.asked`;
            `UnfinishedText` while it is typed.
        image: (D,) the encoded picture, unit length.
        k: most clips to return.
        where: a filter, see `evenreel.library.search.filters`.
        reranker: a matcher that orders the first clips anew, see `evenreel.library.search.rerank`.
        rerank_depth: number of clips to order anew, `k` at least.
        move: function that moves the vector of the text (D,), see `evenreel.library.asking.examples`; None leaves it.
    """

    text: str | None = None
    image: FloatArray | None = None
    k: int = 10
    where: str | None = None
    reranker: Reranker | None = None
    rerank_depth: int = RERANK_DEPTH
    move: Callable[[FloatArray], FloatArray] | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.image is None):
            raise UsageError("A query is a text or a picture; give one of the two.")
        if not 1 <= self.k <= MOST_CLIPS:
            raise UsageError(f"The number of results is {brief(self.k)}; ask for 1 to {MOST_CLIPS:,}.")
        if not 1 <= self.rerank_depth <= MOST_CLIPS:
            raise UsageError(
                f"The number of clips to re-rank is {brief(self.rerank_depth)}; it must be 1 to {MOST_CLIPS:,}."
            )
        if self.text is not None and not readable(self.text):
            raise UsageError("The query is empty; say in a few words what is to be seen or read.")
        self.asked  # noqa: B018 -- read before a model is loaded
        if self.image is not None and self.reranker is not None:
            raise UsageError("A matcher re-ranks by words; it cannot be used with a picture.")

    @cached_property
    def asked(self) -> Asked | None:
        """What the text asks for, and of which channels; None for a picture."""
        if self.text is None:
            return None
        return read_query(readable(self.text), typing=isinstance(self.text, UnfinishedText))

    @property
    def unfinished(self) -> bool:
        """True if the last word may be the beginning of one: the text is unfinished and ends in a letter or digit."""
        return isinstance(self.text, UnfinishedText) and self.text[-1:].isalnum()

    @property
    def enough(self) -> int:
        """Number of clips that must be ranked by frames."""
        return self.k if self.reranker is None else max(self.k, self.rerank_depth)


@dataclass(frozen=True)
class ParsedQuery:
    """A cleaned and encoded query; a picture has no text, a search by words alone no vector.

    `text` is without quotes and prefix, which `query.asked` tells.
    """

    query: Query
    text: str | None
    embedding: TextEmbedding | None  # of the text, one row
    vector: FloatArray | None  # (D,) of unit length


def understand(query: Query, encoder: Encoder | None) -> tuple[ParsedQuery, tuple[str, ...]]:
    """Clean and encode a query; return it with notices of what was changed in it."""
    if query.text is None or query.asked is None:
        return ParsedQuery(query, None, None, unit(query.image)), ()
    text, notices = query.asked.text, _changes(query.text, query.asked)
    if encoder is None or not query.asked.sees:
        return ParsedQuery(query, text, None, None), tuple(notices)
    embedding = _encode(encoder, text, notices)
    vector = unit(embedding.sentence[0])
    if query.move is not None:
        return ParsedQuery(query, text, embedding, unit(query.move(vector))), tuple(notices)
    return ParsedQuery(query, text, embedding, vector), tuple(notices)


def picture_vector(encoder: Encoder, pixels: Pixels) -> FloatArray:
    """Encode a picture (H, W, 3) as a window of one frame: a vector (D,)."""
    (vector,) = encoder.encode_windows(pixels.transpose(2, 0, 1)[None, None])
    return np.asarray(vector, np.float32)


def readable(text: str) -> str:
    """Return the beginning of a query with single spaces, without control characters and lone surrogates."""
    beginning = text.lstrip()[:MAX_CHARACTERS]
    return " ".join("".join(" " if _unreadable(letter) else letter for letter in beginning).split())


def _unreadable(letter: str) -> bool:
    return unicodedata.category(letter) in {"Cc", "Cs"}


def _changes(given: str, asked: Asked) -> list[str]:
    """What is changed in a query, or not looked for."""
    notices = []
    if len(given.strip()) > MAX_CHARACTERS:
        notices.append(f"The query is long; only its first {MAX_CHARACTERS} characters were read.")
    if any(_unreadable(letter) and not letter.isspace() for letter in given[:MAX_CHARACTERS]):
        notices.append("The query holds control characters; they were left out.")
    one_by_one = not asked.exact and asked.reads
    if one_by_one and len(content_words(asked.text)) == MAX_CONTENT_WORDS < len(set(words(asked.text))):
        notices.append(f"Only the first {MAX_CONTENT_WORDS} words were looked for in writing.")
    return notices


def captions_of(text: str) -> list[str]:
    """Return what is encoded of a cleaned query: itself; if it may be too long, also without its last letter."""
    return [text] if len(text.encode()) <= NEVER_CUT_BYTES else [text, text[:-1]]


def _encode(encoder: Encoder, text: str, notices: list[str]) -> TextEmbedding:
    """The text as the encoder reads it, one row, with a notice if the model did not read it to its end."""
    captions = captions_of(text)
    both = encoder.encode_text(captions)
    if len(captions) == 1:
        return both
    whole, shorter = both.sentence
    if np.allclose(whole, shorter, atol=1e-5):  # the last letter made no difference
        notices.append(
            "The query is longer than the model reads; its end was looked for in writing, not in the frames."
        )
    return TextEmbedding(both.words[:1], both.word_mask[:1], both.sentence[:1])


def unit(given: FloatArray | None) -> FloatArray:
    """Normalise a vector (D,) to unit length."""
    vector = np.array(given, np.float32)
    if not 0 < (length := float(np.linalg.norm(vector))) < np.inf:
        raise EncoderError("The encoder gave a vector without a direction (zero, NaN or infinite).")
    return np.asarray(vector / length, np.float32)
