"""Misleading words laid over clips: written on the picture, or spoken in the sound."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import polars as pl
from PIL import Image, ImageDraw, ImageFont

from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import (
    OVERLAY,
    OVERLAY_CONTROL,
    OVERLAY_OF,
    OVERLAYS,
    VOICEOVER,
    VOICEOVER_OF,
    VOICEOVERS,
    OverlayName,
    VoiceoverName,
    assign_distractors,
)
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.language.wording import babbled, scrambled
from evenreel.speech.synthesis import NO_ESPEAK, VOICES, WORDS_PER_MINUTE, can_speak, speak_text
from evenreel.types import Corpus, FloatArray, Pixels

# Lending of words: which clip's words each clip of a corpus is to show or say, and the column that tells it.


@dataclass(frozen=True)
class WordSettings:
    """Settings of writing misleading words on clips, or of saying them.

    Attributes:
        edit: `overlay`, words of another clip on the picture; `voiceover`, the first caption of another clip in the
            sound; `overlay-control` and `voiceover-control`, as many random letters or syllables in the same place.
        seed: seed of the distractors, of the voices, and of the control's letters and syllables.

    Raises:
        UsageError: there is no such edit.
    """

    edit: OverlayName | VoiceoverName
    seed: int = 0

    def __post_init__(self) -> None:
        if self.edit not in (*OVERLAYS, *VOICEOVERS):
            there = ", ".join((*OVERLAYS, *VOICEOVERS))
            raise UsageError(f"There is no edit {self.edit!r} of clips; there are: {there}.")


@dataclass(frozen=True)
class LentWords:
    """Misleading words to write on clips or to say in them, taken from other clips."""

    words: Mapping[str, str]  # words of another clip, by clip id
    distractors: Mapping[str, str]  # id of the clip that the words are from, by clip id
    column: str  # column of the clips that names it
    notices: tuple[str, ...] = ()  # sentences on what is lent, and on what is left out

    def mark(self, corpus: Corpus, edit: OverlayName | VoiceoverName) -> Corpus:
        """Return a corpus with a column that names each clip's distractor; without such a column for a control."""
        clips = corpus.clips.drop(OVERLAY_OF, VOICEOVER_OF, strict=False)
        if edit in (OVERLAY, VOICEOVER):
            lenders = [self.distractors[clip] for clip in clips["clip_id"]]
            clips = clips.with_columns(pl.Series(self.column, lenders, pl.String))
        return make_corpus(clips, corpus.captions)


def lend_words(corpus: Corpus, words: Mapping[str, str], seed: int, none_to_lend: str) -> dict[str, str]:
    """Assign each clip another clip of its split, the distractor, whose words it is to show or say.

    A clip never gets words of which it has all itself, or of a clip with a caption equal to one of its own. Each clip's
    words are used about as often. `none_to_lend` is what a split without any word lacks, for the message.
    """
    sentences = {clip: {_folded(one) for one in some} for clip, some in captions_of(corpus).items()}
    terms = {clip: set(_folded(text).split()) for clip, text in words.items()}
    splits: dict[str, list[str]] = defaultdict(list)
    for clip, split in corpus.clips.select("clip_id", "split").iter_rows():
        splits[split or ""].append(clip)

    def fits(carrier: str, distractor: str) -> bool:  # a clip has all of its own words, so it never lends to itself
        return sentences[carrier].isdisjoint(sentences[distractor]) and not terms[distractor] <= terms[carrier]

    distractors: dict[str, str] = {}
    for split, clips in splits.items():
        able = [clip for clip in clips if terms[clip]]
        if not able:
            of = f"the split {split!r}" if split else "the corpus"
            raise CorpusError(f"Not one of the {len(clips):,} clips of {of} has {none_to_lend}")
        random = np.random.default_rng([seed, crc32(split.encode())])
        distractors |= assign_distractors(clips, able, fits, random)
    return distractors


class _EditByWords:
    """Edit of clips by words of others (`evenreel.edits.clips.ClipEdit`); of itself it leaves a clip as it is."""

    look: ClassVar[Mapping[str, Any]]
    """How the words look or sound, the same for all clips."""

    def __init__(self, words: Mapping[str, str], settings: WordSettings) -> None:
        self._words, self._settings = words, settings

    @property
    def described(self) -> dict[str, Any]:
        """Return what identifies the edit and is the same for all clips, ready for JSON."""
        return {**asdict(self._settings), **self.look}

    def described_of(self, clip_id: str) -> list[str]:
        """Return what identifies the edit of one clip beyond `described`, such as its words."""
        return [self._words[clip_id]]

    def __call__(self, clip_id: str, pixels: Pixels) -> Pixels:
        """Edit the frames (T, 3, H, W) of a clip."""
        return pixels

    def edit_sound(self, clip_id: str, sound: FloatArray) -> FloatArray:
        """Edit the sound (N,) of a clip."""
        return sound

    def _random(self, clip_id: str) -> np.random.Generator:
        return np.random.default_rng([self._settings.seed, crc32(clip_id.encode())])


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


# Overlay of misleading words on clips: a banner with another clip's words, or with random letters as a control.
#
# Words that are put on a picture mislead models (Goh et al. 2021, Multimodal neurons in artificial neural
# networks); `evenreel.audits.overlay` says how far.

MOST_LETTERS = 90
"""Of the words that are lent; what is beyond is left out, at the end of a word where one ends before."""

HEIGHT, MOST_LINES, LEAST_LINE_PX = 0.2, 3, 12
"""Of the banner: share of the picture, lines, and the height of a line below which nobody reads it."""

NOTHING_TO_WRITE = (
    "words that could be put onto another: Pillow's own font writes Latin letters alone. Give captions, or words on "
    "screen (texts.parquet), in Latin letters."
)
LEAST_PICTURE_PX = 3 * LEAST_LINE_PX
DARK, LIGHT = 24, 240
_MARGIN = 0.02
_NO_SUCH_LETTER = "\U0010fffd"

_PLAIN = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "Th"}
    | dict(zip("øØłŁđĐðÐħĦŧŦı\u2010\u2012–—\u2044", "oOlLdDdDhHtTi----/", strict=True))
)
"""Letters, dashes and the stroke of fractions that the font lacks and Unicode does not take apart."""


def distractor_words(corpus: Corpus, texts: pl.DataFrame | None, seed: int = 0) -> LentWords:
    """Assign each clip the words of another clip: those on that clip's screen, or else its first caption.

    Both clips are of the same split, see `evenreel.edits.overlay.lend_words`.
    """
    said = captions_of(corpus)
    shown: dict[str, list[str]] = {clip: [] for clip in said}
    if texts is not None:
        signs = texts.filter(pl.col("clip_id").is_in([*shown])).sort("start_frame", maintain_order=True)
        for clip, text in signs.select("clip_id", "text").iter_rows():
            shown[clip].append(text)
    on_screen = {clip: _drawn(some) for clip, some in shown.items()}
    whole = {clip: on_screen[clip] or _drawn(said[clip][:1]) for clip in said}
    drawn = {clip: shortened(text, MOST_LETTERS) for clip, text in whole.items()}
    distractors = lend_words(corpus, drawn, seed, NOTHING_TO_WRITE)
    clips, captioned = len(said), sum(not on_screen[other] for other in distractors.values())
    notices = [
        f"{clips - captioned:,} of {clips:,} clips carry what is on another clip's screen, {captioned:,} another "
        "clip's first caption."
    ]
    lossy = ((drawable(text) != _folded_letters(text) for text in shown[clip] or said[clip][:1]) for clip in said)
    if reduced := sum(map(any, lossy)):
        notices.append(
            f"What Pillow's own font lacks is left out of what {reduced:,} of {clips:,} clips lend, words with such a "
            "letter whole; accents are taken off."
        )
    if cut := sum(len(text) > MOST_LETTERS for text in whole.values()):
        notices.append(f"{cut:,} of {clips:,} clips lend no more than the first {MOST_LETTERS} letters.")
    if silent := sum(not text for text in drawn.values()):
        notices.append(f"{silent:,} of {clips:,} clips have no words that could be written; they lend none.")
    lent = {own: drawn[other] for own, other in distractors.items()}
    return LentWords(lent, distractors, OVERLAY_OF, tuple(notices))


def drawable(text: str) -> str:
    """Return a text with plain letters for accented ones, without words that Pillow's own font cannot write.

    Marks that the font lacks are left out; a word with a letter that it lacks is left out whole.

    >>> drawable("Café  Hauptstraße 東京 24h")
    'Cafe Hauptstrasse 24h'
    """
    able = (word for word in _folded_letters(text).split() if all(_has_letter(one) for one in word if one.isalnum()))
    return " ".join(filter(None, ("".join(filter(_has_letter, word)) for word in able)))


class Overlay(_EditByWords):
    """Edit of clips that writes words in a banner at the bottom (`evenreel.edits.clips.ClipEdit`)."""

    look: ClassVar = {"height": HEIGHT, "lines": MOST_LINES, "line_px": LEAST_LINE_PX, "colours": [DARK, LIGHT]}

    def __call__(self, clip_id: str, pixels: Pixels) -> Pixels:
        """Cover the lowest rows of a clip's frames (T, 3, H, W) with a banner."""
        height, width = pixels.shape[2:]
        if height < LEAST_PICTURE_PX:
            least = f"a banner that can be read needs {LEAST_PICTURE_PX}"
            raise MediaError("failed", f"its picture is {height} pixels high, and {least}")
        size = max(LEAST_LINE_PX, round(HEIGHT * height)), width
        layout = laid_out(self._words[clip_id], size)
        said: Sequence[str] = layout.lines
        if self._settings.edit == OVERLAY_CONTROL:
            random = self._random(clip_id)
            said = [scrambled(line, random) for line in layout.lines]
        painted = pixels.copy()
        painted[:, :, height - size[0] :] = banner(said, layout, size)
        return painted


@dataclass(frozen=True)
class Layout:
    """Lines of text of a banner, each `line_px` pixels high."""

    lines: tuple[str, ...]
    line_px: int


def laid_out(text: str, size: tuple[int, int]) -> Layout:
    """Lay out words in a banner of a size (height, width) in pixels, in the largest letters that fit; the rest is cut.

    A word that is too long even in the smallest letters goes on in the next line.

    >>> laid_out("a man is cutting bread", (40, 160))
    Layout(lines=('a man is cutting', 'bread'), line_px=20)
    """
    height, width = size
    room, most = _room(width), max(1, height // LEAST_LINE_PX)
    for divided in (False, True):
        for count in range(1, most + 1):
            font = _font(height // count)
            words = text.split()
            parts = [part for word in words for part in _pieces(word, font, room)] if divided else words
            lines = tuple(_wrapped(parts, font, room))
            if len(lines) <= min(count, MOST_LINES) and all(font.getlength(line) <= room for line in lines):
                return Layout(lines, height // count)
    return Layout(lines[: min(most, MOST_LINES)], height // most)


def banner(said: Sequence[str], layout: Layout, size: tuple[int, int]) -> Pixels:
    """Draw a banner, light letters on a dark ground: uint8 RGB (3, height, width)."""
    height, width = size
    picture = Image.new("L", (width, height), DARK)
    line_px, font = layout.line_px, _font(layout.line_px)
    top = (height - line_px * len(layout.lines)) // 2
    for number, (letters, model) in enumerate(zip(said, layout.lines, strict=True)):
        taken = min(_room(width), max(1, round(font.getlength(model))))
        mask = _letters(letters, font).resize((taken, line_px), Image.Resampling.BICUBIC)
        picture.paste(LIGHT, ((width - taken) // 2, top + number * line_px), mask)
    return np.repeat(np.asarray(picture, np.uint8)[None], 3, axis=0)


def _room(width: int) -> int:
    return max(1, round(width * (1 - 2 * _MARGIN)))


def _letters(text: str, font: ImageFont.FreeTypeFont) -> Image.Image:
    """Return the mask of a line, as high as any line of the font."""
    mask = Image.new("L", (max(1, round(font.getlength(text))), sum(font.getmetrics())))
    ImageDraw.Draw(mask).text((0, 0), text, fill=255, font=font)
    return mask


def _wrapped(words: Sequence[str], font: ImageFont.FreeTypeFont, room: int) -> Iterator[str]:
    line = ""
    for word in words:
        longer = f"{line} {word}" if line else word
        if line and font.getlength(longer) > room:
            yield line
            longer = word
        line = longer
    yield line


def _pieces(word: str, font: ImageFont.FreeTypeFont, room: int) -> Iterator[str]:
    """Split a word into parts that fit the room, of a letter at least."""
    start = 0
    for end in range(1, len(word)):
        if font.getlength(word[start : end + 1]) > room:
            yield word[start:end]
            start = end
    yield word[start:]


@cache
def _font(line_px: int) -> ImageFont.FreeTypeFont:
    """Return Pillow's own font with lines of this height."""
    whole = sum(_loaded(100).getmetrics())
    return _loaded(max(1, line_px * 100 // whole))


def _loaded(em_px: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(em_px)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise UsageError("This Pillow was built without FreeType and cannot write; install it from its wheel.")
    return font


@cache
def _has_letter(letter: str) -> bool:
    """Check that the font draws a letter otherwise than the box for letters that it lacks."""
    font = _font(LEAST_LINE_PX * 2)
    return bytes(font.getmask(letter)) != bytes(font.getmask(_NO_SUCH_LETTER))


def _drawn(texts: Iterable[str]) -> str:
    """Join what can be written of the texts, each once."""
    return " ".join(dict.fromkeys(filter(None, map(drawable, texts))))


def _folded_letters(text: str) -> str:
    """Remove accents, and make spaces single."""
    plain = (one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))
    return " ".join("".join(plain).translate(_PLAIN).split())


# Voice-over of misleading words on clips: a voice says what describes another clip, or syllables as a control.
#
# What is said in a clip misleads a search by speech as words on a picture mislead one that reads;
# `evenreel.audits.overlay` says how far.

VOICEOVER_MOST_LETTERS = 300
"""Of the words that are lent, about twenty seconds; what is beyond is left out."""

OWN_SOUND = 0.1
"""How loud the clip's own sound stays while the voice speaks, as a share."""


def spoken_words(corpus: Corpus, seed: int = 0) -> LentWords:
    """Assign each clip the first caption of another clip of its split, see `evenreel.edits.overlay.lend_words`."""
    if not can_speak():
        raise UsageError(f"{NO_ESPEAK}.")
    first = {clip: " ".join(some[0].split()) if some else "" for clip, some in captions_of(corpus).items()}
    whole = {clip: text if any(map(str.isalnum, text)) else "" for clip, text in first.items()}
    said = {clip: shortened(text, VOICEOVER_MOST_LETTERS) for clip, text in whole.items()}
    nothing = "a caption that could be said over another; give captions."
    distractors, clips = lend_words(corpus, said, seed, nothing), len(said)
    notices = [f"Over {clips:,} clips a voice says another clip's first caption, as far as the clip is long enough."]
    if cut := sum(said[clip] != text for clip, text in whole.items()):
        notices.append(f"{cut:,} of {clips:,} clips lend no more than the first {VOICEOVER_MOST_LETTERS} letters.")
    if silent := sum(not text for text in said.values()):
        notices.append(f"{silent:,} of {clips:,} clips have no words that could be said; they lend none.")
    lent = {own: said[other] for own, other in distractors.items()}
    return LentWords(lent, distractors, VOICEOVER_OF, tuple(notices))


class Voiceover(_EditByWords):
    """Edit of clips that lays a voice over their sound (`evenreel.edits.clips.ClipEdit`)."""

    look: ClassVar = {"voices": [*VOICES], "words_per_minute": WORDS_PER_MINUTE, "own_sound": OWN_SOUND}

    def edit_sound(self, clip_id: str, sound: FloatArray) -> FloatArray:
        """Return the sound (N,) of a clip at 16 kHz with a voice from its beginning on, cut where the clip ends."""
        said, random = self._words[clip_id], self._random(clip_id)
        voice = VOICES[int(random.integers(len(VOICES)))]
        if self._settings.edit != VOICEOVER:
            said = babbled(said, random)
        spoken = speak_text(said, voice)[: len(sound)]
        mixed = sound.copy()
        mixed[: len(spoken)] = OWN_SOUND * sound[: len(spoken)] + spoken
        return np.clip(mixed, -1, 1).astype(np.float32)
