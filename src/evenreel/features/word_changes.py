"""On-screen words left out or misread at known rates, to find out how much a matcher needs them.

After the OCR ratios of TCD (table 4), whose authors do not say how they drop words. Here a digest over the seed, the
clip and the word decides whether a word is kept, and further ones how it is misread in each window. So a higher ratio
keeps all that a lower one keeps, a higher error rate misreads alike what a lower one misreads, a word on several signs
of a clip is one word, and no other clip, order or setting plays a part.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from evenreel.config import MOST_BITS, check_settings, number, whole
from evenreel.errors import FeaturesError
from evenreel.features.windows import EMPTY, MOMENT_S, Fits, Sampled, WindowText, where_empty, windows_of, written
from evenreel.progress import Progress
from evenreel.types import Encoder, OnScreen, TextTrack, VideoFeatures

if TYPE_CHECKING:
    from evenreel.features.load import FoundClips, Sentences
    from evenreel.features.manifest import FeatureSet
    from evenreel.features.shards import Shard
    from evenreel.features.stored import StoredClips

Unit = Literal["word", "window", "clip"]
Splits = Literal["all", "evaluated"]
Empty = Literal["left_out", "caption"]

LOOK_ALIKE: Mapping[str, str] = {
    **{"O": "0DQ", "D": "O0", "Q": "O0", "0": "OD", "o": "0c", "c": "oe", "e": "c", "a": "o"},
    **{"l": "1I", "I": "l1", "1": "lI7", "i": "j1", "j": "i", "t": "f", "f": "t", "7": "1T", "T": "7"},
    **{"S": "5", "5": "S6", "s": "5", "B": "8", "8": "B3", "3": "8", "Z": "2", "2": "Z", "z": "2"},
    **{"G": "6C", "6": "Gb", "C": "G", "b": "6h", "h": "b", "g": "9q", "q": "g", "9": "g", "A": "4", "4": "A"},
    **{"m": "n", "n": "m", "r": "n", "u": "v", "v": "u", "U": "V", "V": "U", "E": "F", "F": "E", "P": "R", "R": "P"},
}
"""Characters that a recogniser takes for each other, one for one: `rn` for `m` would be two errors instead of one."""

_NEAR = 8
"""Among how many numbers of characters, on either side, one without look-alikes is replaced by one of its kind."""

_SHARE = number("from 0 to 1", lambda value: 0 <= value <= 1)
_MANTISSA_BITS = 53
_DRAW_BYTES = 8


@dataclass(frozen=True)
class WordChanges:
    """Changes of on-screen words when features are loaded; by default none.

    Attributes:
        ratio: share of the on-screen words that is kept.
        unit: unit that is kept or left out: each `word` of a clip, all words of a `window`, or all of a `clip`.
        char_errors: share of the characters of the kept words that are misread, in each window anew: a third
            of them each as another one, as none, and as two.
        seed: seed of which words are kept and which characters misread.
        splits: whether words are changed in `all` splits, or only where a matcher is `evaluated` and not in training.
        empty: whether windows without text are `left_out`, or say so in a sentence (`caption`), as in the paper; in all
            splits.
    """

    ratio: Annotated[float, _SHARE] = 1.0
    unit: Unit = "word"
    char_errors: Annotated[float, _SHARE] = 0.0
    seed: Annotated[int, whole(0, MOST_BITS)] = 0
    splits: Splits = "all"
    empty: Empty = "left_out"

    def __post_init__(self) -> None:
        check_settings("changed words", self)

    @property
    def words_differ(self) -> bool:
        """Whether words are left out or misread."""
        return self.ratio < 1 or self.char_errors > 0

    @property
    def changes_nothing(self) -> bool:
        """Whether features stay as they are stored."""
        return not self.words_differ and self.empty == "left_out"

    @property
    def uses(self) -> tuple[str, ...]:
        """Labels to print with every figure of scores of such words, see `evenreel.types.Scores`."""
        return (str(self),) if self.words_differ else ()

    @property
    def learned(self) -> WordChanges:
        """Changes of the words that a matcher is trained on."""
        return self if self.splits == "all" else WordChanges(empty=self.empty)

    def __str__(self) -> str:
        """Describe the changes as a part of a sentence; empty for none.

        >>> str(WordChanges(0.4, char_errors=0.05, seed=3))
        '40 % of the on-screen words with 5 % of their characters misread (seed 3)'
        """
        if self.ratio == 0:
            return "no on-screen words"
        if not self.words_differ:
            return ""
        kept = "on-screen words"
        if self.ratio < 1:
            share = f"{100 * self.ratio:g} % of"
            kept = f"{share} the {kept}" if self.unit == "word" else f"{kept} of {share} {self.unit}s"
        misread = f" with {100 * self.char_errors:g} % of their characters misread" if self.char_errors else ""
        return f"{kept}{misread} (seed {self.seed})"


def with_changed_words(
    found: FoundClips | StoredClips,
    videos: VideoFeatures,
    changes: WordChanges,
    encoder: Callable[[], Encoder],
    progress: Progress = lambda share: None,
) -> VideoFeatures:
    """Return features of clips with windows made of the changed words; each clip is read once for all changes.

    Sentences that were not met before are encoded, and kept beside the features for the next time; `encoder` loads the
    encoder of the features where there are such, and `progress` is called with the share of them that is done.

    Raises:
        FeaturesError: the features have no on-screen text, or are not the encoder's; a file is damaged.
        EncoderError: the encoder cannot be loaded, or gives a number that is not finite.
    """
    if changes.changes_nothing:
        return videos
    from evenreel.features.stored import StoredClips

    if isinstance(found, StoredClips) or found.made.windows is None:
        raise FeaturesError(
            f"The features in {found.folder} have no on-screen text to change; run `evenreel features` without "
            "--no-ocr, or change no words."
        )
    said, sentences = changed_sentences(found, changes, encoder)
    clips = [said[clip_id] for clip_id in videos.ids]
    vectors = sentences.vectors((one.text for clip in clips for one in clip if one.text), progress)
    windows = np.zeros((len(clips), found.made.windows, found.dimension), np.float16)
    for row, clip in enumerate(clips):
        for place, one in enumerate(clip):
            if one.text:
                windows[row, place] = vectors[one.text]
    shape = windows.shape[:2]
    mask = np.array([[bool(one.text) for one in clip] for clip in clips], np.bool_).reshape(shape)
    confidence = np.array([[one.confidence for one in clip] for clip in clips], np.float32).reshape(shape)
    return replace(videos, on_screen=OnScreen(windows, mask, confidence))


def changed_sentences(
    found: FoundClips, changes: WordChanges, encoder: Callable[[], Encoder]
) -> tuple[dict[str, tuple[WindowText, ...]], Sentences]:
    """Return the sentences of each clip's windows after its words were changed, and the store of known sentences."""
    from evenreel.features.load import Sentences

    shards, _ = found.shards(without=("frames",))
    sentences = Sentences(found.folder, found.manifest, encoder)
    for shard in shards.values():
        if shard.window_texts is not None and shard.windows is not None:
            sentences.know(shard.window_texts, shard.windows)
    said = {one: changed_windows(shard, one, changes, found.made, sentences.fits) for one, shard in shards.items()}
    return said, sentences


def changed_windows(
    shard: Shard, clip_id: str, changes: WordChanges, made: FeatureSet, fits: Fits
) -> tuple[WindowText, ...]:
    """Make the sentences of the O windows of a clip after its words were changed."""
    said = written(
        shard.tracks or (),
        Sampled.of_text(shard),
        made.windows or 0,
        fits,
        exact=made.words == "corpus",
        change=lambda track, number: changed_track(track, clip_id, number, changes),
    )
    if changes.unit == "window":
        draws = (_draws(1, changes.seed, "window", clip_id, number)[0] for number in range(len(said)))
        said = tuple(
            one if draw < changes.ratio else WindowText("", 0.0) for one, draw in zip(said, draws, strict=True)
        )
    return where_empty(said, EMPTY) if changes.empty == "caption" else said


def changed_signs(shard: Shard, clip_id: str, changes: WordChanges, made: FeatureSet) -> tuple[TextTrack, ...]:
    """Return the signs of a clip without the words that are left out and with misread characters.

    A sign that is read otherwise from one window to the next is several, each with the stretch in which it is read so;
    one that is not read without an error has lost its other readings, and one without a word left is gone. Windows that
    are left out as a whole do not concern signs: see `changed_windows`.
    """
    tracks, count = shard.tracks or (), made.windows or 1
    if not changes.words_differ:
        return tuple(tracks)
    sampled = Sampled.of_text(shard)
    spans = windows_of(tracks, sampled, count, exact=made.words == "corpus")
    edges_s = np.linspace(0.0, float(sampled.spans_s[-1, 1]), count + 1).tolist()
    signs: list[TextTrack] = []
    for track, span in zip(tracks, spans, strict=True):
        read = {number: changed_track(track, clip_id, number, changes) for number in span}
        signs += _readings(track, read, edges_s)
    return tuple(signs)


def _readings(track: TextTrack, read: Mapping[int, TextTrack | None], edges_s: Sequence[float]) -> Iterator[TextTrack]:
    """Iterate over the readings of a sign from window to window; equal neighbours are one reading."""
    numbers = [*read]
    for said, run in groupby(numbers, lambda number: read[number]):
        if said is None:
            continue
        first, *rest = run
        last = rest[-1] if rest else first
        start_s = track.start_s if first == numbers[0] else max(track.start_s, edges_s[first])
        end_s = track.end_s if last == numbers[-1] else edges_s[last + 1] - MOMENT_S
        yield replace(said, start_s=start_s, end_s=max(start_s, end_s))


def changed_track(track: TextTrack, clip_id: str, window: int, changes: WordChanges) -> TextTrack | None:
    """Return a sign as it is read in a window, with the words that are left; None without a word."""
    if changes.unit == "clip" and not _draws(1, changes.seed, "clip", clip_id)[0] < changes.ratio:
        return None
    before = track.text.split()
    after = [word for one in before if (word := _changed_word(one, clip_id, window, changes))]
    if after == before:
        return track
    text = " ".join(after)
    return replace(track, text=text, readings=(text,)) if after else None


def _changed_word(word: str, clip_id: str, window: int, changes: WordChanges) -> str:
    """Return the rest of a word in a window; empty where it is left out."""
    own = (clip_id, word.casefold())
    if changes.unit == "word" and changes.ratio < 1 and not _draws(1, changes.seed, "word", *own)[0] < changes.ratio:
        return ""
    if changes.char_errors == 0:
        return word
    draws = _draws(3 * len(word), changes.seed, "characters", *own, window)
    return "".join(
        _misread(character, kind, which) if error < changes.char_errors else character
        for character, error, kind, which in zip(word, draws[::3], draws[1::3], draws[2::3], strict=True)
    )


def _misread(character: str, kind: float, which: float) -> str:
    """A character as another one, as none, or as itself and another one; the numbers, 0 to 1, say which."""
    other = look_alikes(character)
    chosen = other[int(which * len(other))]
    return (chosen, "", character + chosen)[int(3 * kind)]


@cache
def look_alikes(character: str) -> str:
    """Return what a character may be misread as: its look-alikes, or else its neighbours of the same kind.

    >>> look_alikes("l"), look_alikes("w")
    ('1I', 'opqrstuvxyz')
    """
    if character in LOOK_ALIKE:
        return LOOK_ALIKE[character]
    number, kind = ord(character), unicodedata.category(character)
    near = map(chr, range(max(0, number - _NEAR), min(0x110000, number + _NEAR + 1)))
    return (
        "".join(one for one in near if one != character and unicodedata.category(one) == kind and not one.isspace())
        or "?"
    )


def _draws(count: int, *place: str | int) -> list[float]:
    """Draw numbers from 0 to below 1 for a place, the same in every process."""
    digest = hashlib.shake_128(json.dumps(place).encode()).digest(count * _DRAW_BYTES)
    numbers = (int.from_bytes(digest[at : at + _DRAW_BYTES], "big") for at in range(0, len(digest), _DRAW_BYTES))
    return [(number >> (8 * _DRAW_BYTES - _MANTISSA_BITS)) / 2**_MANTISSA_BITS for number in numbers]
