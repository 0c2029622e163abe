"""Kinds of text in clips that have times, and the tables that each is kept and indexed in."""

from __future__ import annotations

from typing import NamedTuple


class Vocabulary(NamedTuple):
    """Names of the tables that hold the words of one word index.

    Attributes:
        words: table with the words.
        texts: column with the number of texts each word is in.
        trigrams: index of the words' trigrams.
    """

    words: str
    texts: str
    trigrams: str


class TimedTexts(NamedTuple):
    """Names of the tables of one kind of text with times.

    Attributes:
        table: table of the texts, with `clip_id`, `text`, `start_s`, `end_s` and `confidence`.
        key: its integer key.
        words: word index of FTS5, by that key.
        blocks: facts of neighbouring texts, see `evenreel.library.store.track_blocks`.
        vocabulary: tables of the words of the index.
    """

    table: str
    key: str
    words: str
    blocks: str
    vocabulary: Vocabulary


ON_SCREEN = TimedTexts(
    "tracks", "track_id", "track_words", "track_blocks", Vocabulary("vocabulary", "tracks", "vocabulary_trigrams")
)
SAID = TimedTexts(
    "utterances",
    "utterance_id",
    "said_words",
    "said_blocks",
    Vocabulary("said_vocabulary", "utterances", "said_trigrams"),
)
