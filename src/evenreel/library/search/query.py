"""Queries to a library: what they ask of which channels, and their vectors.

A query is a sentence, asked of every channel. In quotes (`"mind the gap"`) it is words alone: they are found side by
side, as they are written, on screen, in what is said, and in names and captions; no picture or sound answers. A word
before it chooses a channel: `said:`, `on-screen:`, `seen:`, `sounds:`; what follows the first two may be in quotes.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenreel.config import IMAGE_LIMITS, RERANK_DEPTH, MediaLimits, described
from evenreel.documents import brief
from evenreel.errors import MediaError, UsageError
from evenreel.language import folding
from evenreel.language.folding import words
from evenreel.library.search.result import Channel
from evenreel.media.picture import upright
from evenreel.media.workers import Worker
from evenreel.types import Encoder, FloatArray, Pixels, TextEmbedding, TextEncoder

if TYPE_CHECKING:
    import PIL.Image

    from evenreel.library.search.rerank import Reranker

MAX_CHARACTERS = 1_000
MAX_CONTENT_WORDS = 50
MOST_CLIPS = 1_000_000  # most clips of an answer, and most that a matcher scores anew
NEVER_CUT_BYTES = 60
"""Length of a query that no text tower cuts: they read 62 tokens (SigLIP) or more, each of at least one byte."""

WRITTEN: frozenset[Channel] = frozenset({"on_screen", "said", "about"})
EVERY: frozenset[Channel] = WRITTEN | {"seen", "sounds", "meaning"}
PREFIXES: dict[str, tuple[Channel, ...]] = {"seen": ("seen",), "sounds": ("sounds",)}
PREFIXES |= {"said": ("said", "meaning"), "on-screen": ("on_screen", "meaning")}
OPENING, CLOSING = '"“”„', '"“”'
_PREFIX = re.compile(rf"({'|'.join(PREFIXES)})\s*:\s*", re.IGNORECASE)


class PlainText(str):
    """Text that is one query, though it may have a `then` or a `without`."""

    __slots__ = ()


class UnfinishedText(str):
    """Text that is still being typed: its last word may be the beginning of a longer one."""

    __slots__ = ()


class PausedText(UnfinishedText):
    """Such a text after a pause in the typing, which is worth the wait for a slow model."""

    __slots__ = ()


class ClipMoment(NamedTuple):
    """A clip of a library, and the time of one of its moments in seconds; None for the mean of all."""

    clip_id: str
    time_s: float | None


class AskedText(NamedTuple):
    text: str  # words without quotes and prefix
    channels: frozenset[Channel] = EVERY  # channels that are asked
    exact: bool = False  # whether the words are to be found side by side, as they are written

    @property
    def sees(self) -> bool:
        return "seen" in self.channels


def read_query(text: str, *, typing: bool = False) -> AskedText:
    """Read a query with single spaces.

    >>> asked = read_query('said: "mind the gap"')
    >>> asked.text, sorted(asked.channels), asked.exact
    ('mind the gap', ['said'], True)
    """
    prefix = _PREFIX.match(text)
    rest = text if prefix is None else text[prefix.end() :]
    channels = EVERY if prefix is None else frozenset(PREFIXES[prefix[1].lower()])
    if not rest:
        raise UsageError(f"Nothing follows {text}; write after it what is looked for there.")
    if rest[0] not in OPENING:
        return AskedText(rest, channels)
    if not channels & WRITTEN:
        remedy = 'leave the quotes out, or ask said:"…" or on-screen:"…"'
        raise UsageError(f"What is seen and what it sounds like has no words to be found in quotes; {remedy}.")
    closed = len(rest) > 1 and rest[-1] in CLOSING
    inner = rest[1 : -1 if closed else None].strip()
    if not closed and not words(inner):  # a sign, and no words that somebody forgot to close
        return AskedText(rest, channels)
    if not closed and not typing:
        remedy = "close it (a query has at most 1,000 characters), or leave it out"
        raise UsageError(f"The quote at the beginning of the query is not closed; {remedy}.")
    if not words(inner):
        raise UsageError("The quotes of the query hold no word; write between them what is to be found as it is.")
    if any(quote in inner for quote in OPENING):
        raise UsageError("The query has quotes within quotes; put one pair around all that is to be found as it is.")
    return AskedText(inner, channels & WRITTEN, exact=closed)


def as_sentence(text: str) -> PlainText:
    """Return a text that is asked of every channel, whatever words it has; one of quotes alone becomes a dash.

    >>> as_sentence('"Mind the gap" is said'), as_sentence("seen: a red bus")
    ('Mind the gap" is said', 'seen  a red bus')
    """
    plain = text.strip().lstrip(OPENING).strip() or "-"
    return PlainText(plain.replace(":", " ", 1) if _PREFIX.match(plain) else plain)


def content_words(text: str) -> list[str]:
    """Return the distinct words of a query that carry meaning, at most 50; all its words where none does."""
    return folding.content_words(text)[:MAX_CONTENT_WORDS]


@dataclass(frozen=True)
class Query:
    # words to find in frames, on screen or in what is said; `UnfinishedText` while it is typed
    text: str | None = None
    image: FloatArray | None = None  # (D,) the encoded picture, unit length
    k: int = 10  # most clips to return
    where: str | None = None  # a filter, see `evenreel.library.search.filters`
    # a matcher that orders the first clips anew, see `evenreel.library.search.rerank`
    reranker: Reranker | None = None
    rerank_depth: int = RERANK_DEPTH  # number of clips to order anew, `k` at least
    # (D,) what frames are compared with in place of the text's own vector, unit length; None for that
    moved: FloatArray | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.image is None):
            raise UsageError("A query is a text or a picture; give one of the two.")
        if not 1 <= self.k <= MOST_CLIPS:
            raise UsageError(f"The number of results is {brief(self.k)}; ask for 1 to {MOST_CLIPS:,}.")
        if not 1 <= self.rerank_depth <= MOST_CLIPS:
            depth = brief(self.rerank_depth)
            raise UsageError(f"The number of clips to re-rank is {depth}; it must be 1 to {MOST_CLIPS:,}.")
        if self.text is not None and not readable(self.text):
            raise UsageError("The query is empty; say in a few words what is to be seen or read.")
        self.asked  # noqa: B018 -- read before a model is loaded
        if self.image is not None and self.reranker is not None:
            raise UsageError("A matcher re-ranks by words; it cannot be used with a picture.")

    @cached_property
    def asked(self) -> AskedText | None:
        """What the text asks for, and of which channels; None for a picture."""
        if not isinstance(self.text, UnfinishedText):
            return None if self.text is None else read_query(readable(self.text))
        asked = read_query(readable(self.text), typing=True)
        return asked._replace(text=type(self.text)(asked.text))

    @property
    def channels(self) -> frozenset[Channel]:
        return frozenset({"seen"}) if self.asked is None else self.asked.channels

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The words to look up, each once; those of a phrase are one."""
        if self.asked is None:
            return ()
        return (" ".join(self.in_order),) if self.asked.exact else tuple(content_words(self.asked.text))

    @cached_property
    def in_order(self) -> tuple[str, ...]:
        return () if self.asked is None else tuple(words(self.asked.text))

    @cached_property
    def typed(self) -> str | None:
        """The last word, if it may be the beginning of a longer one: two letters or more of an unfinished text."""
        unfinished = isinstance(self.text, UnfinishedText) and self.text[-1:].isalnum()
        last = self.in_order[-1] if unfinished and self.in_order else ""
        return last if len(last) > 1 and last in self.terms else None

    @property
    def enough(self) -> int:
        return self.k if self.reranker is None else max(self.k, self.rerank_depth)

    def notices(self) -> list[str]:
        found: list[str] = []
        if self.text is None or self.asked is None:
            return found
        if len(self.text.strip()) > MAX_CHARACTERS:
            found.append(f"The query is long; only its first {MAX_CHARACTERS} characters were read.")
        if any(_is_hidden(letter) and not letter.isspace() for letter in self.text[:MAX_CHARACTERS]):
            found.append("The query holds control characters; they were left out.")
        reads = bool(self.asked.channels & WRITTEN) and not self.asked.exact
        if reads and len(self.terms) == MAX_CONTENT_WORDS < len(set(self.in_order)):
            found.append(f"Only the first {MAX_CONTENT_WORDS} words were looked for in writing.")
        return found


class EncodedQuery(NamedTuple):
    query: Query  # the query
    embedding: TextEmbedding | None  # its text as the model reads it, one row; None where frames are not asked
    vector: FloatArray | None  # (D,) what frames are compared with, of unit length; None likewise
    # the model of sounds, or of what texts mean, and its vector of the query; None where they are not asked
    to_hear: tuple[TextEncoder, FloatArray] | None
    to_mean: tuple[TextEncoder, FloatArray] | None
    notices: tuple[str, ...]  # sentences for a person


def readable(text: str) -> str:
    """Return the beginning of a query with single spaces, without control characters and lone surrogates."""
    beginning = text.lstrip()[:MAX_CHARACTERS]
    return " ".join("".join(" " if _is_hidden(letter) else letter for letter in beginning).split())


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in {"Cc", "Cs"}


def encode_text(encoder: Encoder, text: str, notices: list[str]) -> TextEmbedding:
    """Encode a cleaned text, one row, with a notice if the model did not read it to its end."""
    if len(text.encode()) <= NEVER_CUT_BYTES or isinstance(text, UnfinishedText):
        return encoder.encode_text([text])
    both = encoder.encode_text([text, text[:-1]])
    whole, shorter = both.sentence
    if np.allclose(whole, shorter, atol=1e-5):  # the last letter made no difference
        notices.append(
            "The query is longer than the model reads; its end was looked for in writing, not in the frames."
        )
    return TextEmbedding(both.words[:1], both.word_mask[:1], both.sentence[:1])


def picture_vector(encoder: Encoder, pixels: Pixels) -> FloatArray:
    (vector,) = encoder.encode_windows(pixels.transpose(2, 0, 1)[None, None])
    return np.asarray(vector, np.float32)


# Pictures: untrusted, so they are decoded in a process of their own, which can be killed ------------------------------

MAX_BYTES = 50 * 2**20
READER = "evenreel.media.picture:ImageReader"

Picture: TypeAlias = "str | PathLike[str] | bytes | PIL.Image.Image | ArrayLike"
"""What is taken for a picture: the path of a file, its bytes, an image of PIL, or RGB pixels (H, W, 3) of uint8."""

_HOW = "give the path of a file, its bytes, an image of PIL, or RGB pixels (H, W, 3) of uint8"


def image_worker(limits: MediaLimits = IMAGE_LIMITS) -> Worker:
    return Worker(READER, {"limits": asdict(limits)}, limits)


def decode_image(content: bytes, worker: Worker, name: str = "The picture") -> Pixels:
    """Decode the bytes of a picture file to upright RGB (H, W, 3); transparent parts become white."""
    _check_bytes(name, len(content))
    try:
        ((_, pixels),) = worker.run({}, np.frombuffer(content, np.uint8))
    except MediaError as error:
        raise UsageError(f"{name} cannot be read: {error}.") from error
    assert pixels is not None
    return pixels


def read_image(picture: Path | bytes, limits: MediaLimits = IMAGE_LIMITS) -> Pixels:
    """Read a picture, a file or the bytes of one, in a process of its own; see `decode_image`."""
    name, content = ("The picture", picture) if isinstance(picture, bytes) else _content(picture)
    with closing(image_worker(limits)) as worker:
        return decode_image(content, worker, name)


def as_pixels(picture: Picture) -> Pixels:
    """Convert a picture of any kind to RGB pixels (H, W, 3) of uint8; files and bytes are read as `read_image` does."""
    if isinstance(picture, (str, PathLike)):
        return read_image(Path(picture))
    if isinstance(picture, bytes):
        return read_image(picture)
    given: Any = picture
    try:
        if hasattr(given, "getbands") and hasattr(given, "copy"):  # an image of PIL
            return upright(given.copy())  # it is turned in place
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for damage, which it finds late
        raise UsageError(f"The picture cannot be read: it is damaged ({error}).") from error
    if not (hasattr(given, "__array__") or hasattr(given, "__array_interface__")) or isinstance(given, type):
        raise UsageError(f"image is {described(picture)}; {_HOW}.")
    try:
        pixels = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"image is {described(picture)}, which cannot be read as an array; {_HOW}.") from error
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise UsageError(f"image is {described(pixels)}; {_HOW}.")
    return pixels


def _content(path: Path) -> tuple[str, bytes]:
    """What an error calls a file, and its bytes."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
        raise UsageError(f"{path} is an address; nothing is fetched: save the picture and give its file name.")
    name = f"The picture {path}"
    try:  # a pipe without a writer is not waited for
        with open(path, "rb", opener=lambda file, flags: os.open(file, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{name} does not exist or is not a file.")
            _check_bytes(name, found.st_size)
            return name, file.read(MAX_BYTES)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(f"{name} does not exist or is not a file.") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {error}.") from error


def _check_bytes(name: str, size_bytes: int) -> None:
    if size_bytes > MAX_BYTES:
        raise UsageError(f"{name} has {size_bytes / 2**20:,.0f} MiB, the limit is {MAX_BYTES >> 20} MiB.")
