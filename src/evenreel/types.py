"""Records that the layers pass to each other: features, scores, corpora, frames.

Arrays come with the ids of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from html import escape
from itertools import islice, zip_longest
from textwrap import fill
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    FloatArray = NDArray[np.float32]
else:  # whoever writes a record need not load numpy
    Pixels = FloatArray = Any
"""Pixels are (H, W, 3) or (N, 3, H, W) RGB, full range."""

Array = TypeVar("Array")
Changed = TypeVar("Changed")

CAMERA = "camera"
"""Source of a clip that nobody generated."""

SHOWN_ROWS, SHOWN_WIDTH = 11, 80  # lines below the name, and characters a line


class Shown:
    """A record whose `repr` is a short table, in a notebook too: of what `_shown` says, a field a row."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]  # which `dataclass` then leaves as it is

    def _shown(self) -> Iterable[Sequence[object]]:
        return [(name, getattr(self, name)) for name in getattr(self, "__dataclass_fields__", ())]

    def _shown_cells(self) -> list[list[str]]:
        rows = [[_brief(cell, (140, SHOWN_WIDTH, 36)[min(len(row), 3) - 1]) for cell in row] for row in self._shown()]
        more = [[f"... and {len(rows) - SHOWN_ROWS + 1:,} more"]] if len(rows) > SHOWN_ROWS else []
        return rows[: SHOWN_ROWS - len(more)] + more

    def __repr__(self) -> str:
        rows = self._shown_cells()
        widths = [max(map(len, column)) for column in zip_longest(*(row for row in rows if row[1:]), fillvalue="")]
        lines = (_cut("  ".join(map(str.ljust, row, widths)).rstrip()) if row[1:] else fill(row[0]) for row in rows)
        return "\n".join([type(self).__name__, *lines])

    def _repr_html_(self) -> str:
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self._shown_cells())
        return f"<b>{type(self).__name__}</b><table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _brief(value: object, width: int = 36) -> str:
    """A value in a few words: of what holds many how many, and the first ones."""
    if isinstance(value, float):
        words = f"{value:.4g}"
    elif (shape := getattr(value, "shape", None)) is not None:
        names = getattr(value, "columns", None)
        words = f"{type(value).__name__} {tuple(shape)}" + (f": {', '.join(map(str, names))}" if names else "")
    elif isinstance(value, (Mapping, Sequence, Set)) and not isinstance(value, (str, bytes)):
        first = ", ".join(map(_brief, islice(value, 4)))
        words = f"{len(value):,}{': ' * bool(first)}{first}{', ...' * (len(value) > 4)}"
    else:
        words = "-" if value is None else type(value).__name__ if isinstance(value, Shown) else str(value)
    return _cut("".join(one for one in " ".join(words.split()) if one.isprintable()), width)


def _cut(words: str, length: int = SHOWN_WIDTH) -> str:
    return words if len(words) <= length else f"{words[: length - 3]}..."


Metadata = dict[str, "str | int | float | bool | None"]
"""What the user says about one video: a flat row of a csv, parquet or jsonl table."""


@dataclass(frozen=True)
class VideoInfo:
    """Header of a video: size as shown, after rotation and with square pixels, rate and length.

    `duration_s` is the container's length where the packets agree, else that of the packets; None past thirty days.
    `frame_count` is the container's, None where it has none; counted where the length was wrong or missing.
    `starts_s` is the time on the file's own clock at our time 0; some players show that clock. `subtitle_streams`
    counts those of text and of pictures. `created` is when it was recorded, as `evenreel.media.video` reads it;
    None where the file does not say.
    """

    container: str
    codec: str
    width: int
    height: int
    duration_s: float | None
    frame_count: int | None
    fps: float | None
    rotation: int = 0
    notes: tuple[str, ...] = ()
    starts_s: float = 0.0
    subtitle_streams: int = 0
    created: str | None = None


@dataclass(frozen=True)
class Frame:
    """One decoded picture, upright, square pixels, RGB; `time_s` counts from what a player shows as 0."""

    time_s: float
    pixels: Pixels


@dataclass(frozen=True)
class Word:
    """One recognised line or word in a frame."""

    text: str  # as it was read
    confidence: float  # of the recogniser, 0 to 1
    box: tuple[float, float, float, float]  # x0, y0, x1, y1 as fractions of the picture
    time_s: float  # of the frame


@dataclass(frozen=True)
class TextTrack:
    """One sign followed over time, with every distinct reading of it."""

    text: str  # its best reading
    confidence: float  # of that reading, 0 to 1
    start_s: float  # when it is first seen
    end_s: float  # when it is last seen
    box: tuple[float, float, float, float]  # x0, y0, x1, y1 as fractions of the picture, where it was read best
    readings: tuple[str, ...] = ()  # all distinct ones, the most confident first


@dataclass(frozen=True)
class TextEmbedding:
    """Features of captions: `words` (Q, W, D), `word_mask` (Q, W) True = real, `sentence` (Q, D).

    Rows of `sentence` have unit length.
    """

    words: FloatArray
    word_mask: NDArray[np.bool_]
    sentence: FloatArray


@dataclass(frozen=True)
class WindowRule:
    """Windows of an encoder: what it turns into one vector."""

    frames: int = 1  # T, spread evenly over the window; a picture is a window of one
    span_s: float = 0.0  # length of a window; 0 for a picture
    stride_s: float = 0.0  # from the start of one window to that of the next; 0 where frames are sampled instead


class TextEncoder(Protocol):
    """Protocol of what turns sentences into vectors."""

    @property
    def encoder_id(self) -> str:
        """Name that the encoder can be loaded by: `builtin`, a hub id with its revision, or a folder."""

    @property
    def weights_hash(self) -> str:
        """Hex digest over weights and preprocessing; features of another digest are refused."""

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode captions of any length, cut at the tokenizer's limit, to words and sentences."""


class Encoder(TextEncoder, Protocol):
    """Protocol of frozen image and text towers, of any family."""

    @property
    def window(self) -> WindowRule:
        """Number of frames that one vector is made of, and over how many seconds they are spread."""

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames of any size to (N, D), rows of unit length.

        T is `window.frames`, or 1 for a picture, which is taken for a still video.
        """

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether it is longer than the text tower takes, so that its end is not read."""


@dataclass(frozen=True, eq=False)
class Corpus(Shown):
    """Clips and their captions as two tables; made and checked by `evenreel.corpus.make_corpus`.

    Attributes:
        clips: `clip_id, path, start_s, end_s, frame_count, fps, split, domain, source, pair_id, verb_classes,
            noun_classes`, one row a clip, and any columns of the user's own after these.
        captions: `caption_id, clip_id, text, verb_classes, noun_classes`, one row a caption, and any columns of the
            user's own after these.
    """

    clips: pl.DataFrame
    captions: pl.DataFrame


@dataclass(frozen=True)
class ScoreNotes(Shown):
    """Notes that scores carry: what they use, what was left out, names; whatever wraps scores passes them on.

    `uses` is what went into the values beside the caption and the video itself, `other queries` for example; it is
    printed with every figure calculated from them.
    """

    uses: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()  # sentences on what was left out of the scores
    texts: Mapping[str, str] = field(default_factory=dict)  # captions in words, by their ids, that the corpus lacks
    names: Mapping[str, str] = field(default_factory=dict)  # of clips, by their ids, where these are others
    complete: bool = True  # whether every pair has a score, so that the values serve both directions

    def using(self, *uses: str) -> ScoreNotes:
        """Add labels of what the values use; those that are there already are not repeated."""
        return replace(self, uses=tuple(dict.fromkeys((*self.uses, *uses))))

    @classmethod
    def joined(cls, several: Sequence[ScoreNotes]) -> ScoreNotes:
        """Join the notes of several scores into one; where two name a caption or a clip, the first counts."""
        return cls(
            tuple(dict.fromkeys(use for one in several for use in one.uses)),
            tuple(dict.fromkeys(notice for one in several for notice in one.notices)),
            {caption: text for one in reversed(several) for caption, text in one.texts.items()},
            {clip: name for one in reversed(several) for clip, name in one.names.items()},
            all(one.complete for one in several),
        )


NO_NOTES = ScoreNotes()
"""Notes of scores that use nothing but captions and videos, and leave nothing out."""


class ScoreBlocks(Protocol):
    """Similarities of Q captions and V videos, read a block at a time, so that the (Q, V) matrix need not exist."""

    @property
    def caption_ids(self) -> Sequence[str]:
        """Q ids of captions."""

    @property
    def video_ids(self) -> Sequence[str]:
        """Ids of the V columns (videos)."""

    @property
    def about(self) -> ScoreNotes:
        """Notes of the scores, and of all scores that they are made of."""

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the scores of some rows and columns, higher is better; both slices have a start and a stop."""


@dataclass(frozen=True, eq=False)
class Scores(Shown):
    """A similarity matrix with the ids of its rows and columns; implements `ScoreBlocks`.

    Minus infinity is never retrieved: it has a rank, behind all others, but is no hit and earns nothing.
    """

    values: NDArray[Any]  # (Q, V), a caption a row and a video a column; higher is better
    caption_ids: Sequence[str]  # Q ids
    video_ids: Sequence[str]  # V ids of clips
    about: ScoreNotes = NO_NOTES  # what the values use, and what else a reader must know

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        return self.values[captions, videos]


@dataclass(frozen=True, eq=False)
class OnScreen(Generic[Array]):
    """On-screen text of V clips as a text tower read it: arrays of numpy in features, tensors in batches.

    `confidence` (V, O) float32 is the mean with which the words of a window were read, 0 where there is no word and 1
    where a sentence says that there is none; None where not known.
    """

    windows: Array  # (V, O, D) features of the texts of O equal stretches of each clip, rows of unit length
    mask: Array  # (V, O) True = some text was read in the window
    confidence: Array | None = None

    def mapped(self, change: Callable[[Array], Changed]) -> OnScreen[Changed]:
        """Apply a function to each array, in the order of the fields."""
        sure = self.confidence
        return OnScreen(change(self.windows), change(self.mask), None if sure is None else change(sure))


@dataclass(frozen=True, eq=False)
class VideoFeatures(Shown):
    """Features of V videos: frames by a frozen image tower, and on-screen text by its text tower."""

    ids: tuple[str, ...]  # V ids of clips
    frames: NDArray[Any]  # (V, T, D) float16 or float32, rows of unit length; zero where there is no frame
    frame_mask: NDArray[np.bool_]  # (V, T) True = real; every video has at least one frame
    times_s: NDArray[np.float64]  # (V, T) time of each frame in its clip; zero where there is no frame
    on_screen: OnScreen[NDArray[Any]] | None = None  # None where it was not read
    pretrained_mean: FloatArray | None = None  # (V, D) mean frame by the tower before it was trained; None if it is not

    def taken(self, rows: NDArray[np.int64] | slice) -> VideoFeatures:
        """Select some videos by their rows."""
        import numpy as np

        return VideoFeatures(
            tuple(self.ids[row] for row in np.arange(len(self.ids))[rows]),
            self.frames[rows],
            self.frame_mask[rows],
            self.times_s[rows],
            None if self.on_screen is None else self.on_screen.mapped(lambda array: array[rows]),
            None if self.pretrained_mean is None else self.pretrained_mean[rows],
        )


@dataclass(frozen=True, slots=True)
class RoleNode:
    """A phrase of a caption and its semantic role."""

    role: str  # `V` for a verb; `ARG0`, `ARGM-LOC`, ... for what belongs to one; `NOUN` for what belongs to none
    words: tuple[int, ...]  # places of its words in the caption, ascending, at least one

    @property
    def is_verb(self) -> bool:
        return self.role == "V"


@dataclass(frozen=True, slots=True)
class RoleGraph:
    """A caption as its actions and the things that take part in them (Chen et al. 2020, section 3.1).

    A noun in no edge stands alone; every verb belongs to the caption as a whole, which is no node here.
    """

    words: tuple[str, ...]  # of the caption, in small letters, at least one
    nodes: tuple[RoleNode, ...] = ()  # verbs and nouns, in any order
    edges: tuple[tuple[int, int], ...] = ()  # places in `nodes` of a verb and of a noun that takes part in it


@dataclass(frozen=True, eq=False)
class TextFeatures(Shown):
    """Features of Q captions by a frozen text tower.

    D of `words` is 0 beside features that were computed elsewhere, where no tower has read captions.
    """

    ids: tuple[str, ...]  # Q ids of captions
    words: NDArray[Any]  # (Q, W, D) float16 or float32, of any length; zero where there is no word
    word_mask: NDArray[np.bool_]  # (Q, W) True = real; every caption has at least one
    sentence: NDArray[Any]  # (Q, D), rows of unit length
    graphs: tuple[RoleGraph, ...] | None = None  # Q role graphs, for matchers that read these
