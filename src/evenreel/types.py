"""Records that the layers pass to each other: features, scores, corpora, frames.

Arrays come with the ids of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

Array = TypeVar("Array")
Changed = TypeVar("Changed")

Pixels = NDArray[np.uint8]
"""(H, W, 3) or (N, 3, H, W) RGB, full range."""

FloatArray = NDArray[np.float32]

CAMERA = "camera"
"""Source of a clip that nobody generated."""

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
    """One recognised line or word in a frame.

    Attributes:
        text: the words as they were read.
        confidence: confidence of the recogniser, 0 to 1.
        box: x0, y0, x1, y1 as fractions of the picture.
        time_s: time of the frame in seconds.
    """

    text: str
    confidence: float
    box: tuple[float, float, float, float]
    time_s: float


@dataclass(frozen=True)
class TextTrack:
    """One sign followed over time, with every distinct reading of it.

    Attributes:
        text: its best reading.
        confidence: confidence of that reading, 0 to 1.
        start_s: time in seconds at which it is first seen.
        end_s: time in seconds at which it is last seen.
        box: x0, y0, x1, y1 as fractions of the picture, where it was read best.
        readings: all distinct readings, the most confident first.
    """

    text: str
    confidence: float
    start_s: float
    end_s: float
    box: tuple[float, float, float, float]
    readings: tuple[str, ...] = ()


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
    """Windows of an encoder: what it turns into one vector.

    Attributes:
        frames: T, the number of frames in a window, spread evenly over it; a picture is a window of one.
        span_s: length of a window in seconds; 0 for a picture.
        stride_s: seconds from the start of one window to that of the next; 0 where frames are sampled instead.
    """

    frames: int = 1
    span_s: float = 0.0
    stride_s: float = 0.0


class Encoder(Protocol):
    """Protocol of frozen image and text towers, of any family."""

    @property
    def encoder_id(self) -> str:
        """Name that the encoder can be loaded by: `builtin`, a hub id with its revision, or a folder."""

    @property
    def weights_hash(self) -> str:
        """Hex digest over weights and preprocessing; features of another digest are refused."""

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""

    @property
    def window(self) -> WindowRule:
        """Number of frames that one vector is made of, and over how many seconds they are spread."""

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames of any size to (N, D), rows of unit length.

        T is `window.frames`, or 1 for a picture, which is taken for a still video.
        """

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode captions of any length, cut at the tokenizer's limit, to words and sentences."""

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether it is longer than the text tower takes, so that its end is not read."""


@dataclass(frozen=True, eq=False)
class Corpus:
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
class ScoreNotes:
    """Notes that scores carry: what they use, what was left out, names; whatever wraps scores passes them on.

    Attributes:
        uses: what went into the values beside the caption and the video itself, `other queries` for example; printed
            with every figure calculated from them.
        notices: sentences on what was left out of the scores.
        texts: captions in words, by their ids, that the corpus does not have.
        names: what clips are called, by their ids, where that is not their id.
        complete: whether every pair has a score, so that the values serve both directions.
    """

    uses: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True

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
        """Ids of the Q rows (captions)."""

    @property
    def video_ids(self) -> Sequence[str]:
        """Ids of the V columns (videos)."""

    @property
    def about(self) -> ScoreNotes:
        """Notes of the scores, and of all scores that they are made of."""

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the scores of some rows and columns, higher is better; both slices have a start and a stop."""


@dataclass(frozen=True, eq=False)
class Scores:
    """A similarity matrix with the ids of its rows and columns; implements `ScoreBlocks`.

    Attributes:
        values: (Q, V), a caption a row and a video a column; higher is better, minus infinity is never retrieved: it
            has a rank, behind all others, but is no hit and earns nothing.
        caption_ids: Q ids of captions.
        video_ids: V ids of clips.
        about: notes: what the values use, and what else a reader must know.
    """

    values: NDArray[Any]
    caption_ids: Sequence[str]
    video_ids: Sequence[str]
    about: ScoreNotes = NO_NOTES

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return a view of some rows and columns."""
        return self.values[captions, videos]


@dataclass(frozen=True, eq=False)
class OnScreen(Generic[Array]):
    """On-screen text of V clips as a text tower read it: arrays of numpy in features, tensors in batches.

    Attributes:
        windows: (V, O, D) features of the texts of O equal stretches of each clip, rows of unit length.
        mask: (V, O) True = some text was read in the window.
        confidence: (V, O) float32, mean confidence with which the words of a window were read, 0 where there is no word
            and 1 where a sentence says that there is none; None where not known.
    """

    windows: Array
    mask: Array
    confidence: Array | None = None

    def mapped(self, change: Callable[[Array], Changed]) -> OnScreen[Changed]:
        """Apply a function to each array, in the order of the fields."""
        sure = self.confidence
        return OnScreen(change(self.windows), change(self.mask), None if sure is None else change(sure))


@dataclass(frozen=True, eq=False)
class VideoFeatures:
    """Features of V videos: frames by a frozen image tower, and on-screen text by its text tower.

    Attributes:
        ids: V ids of clips.
        frames: (V, T, D) float16 or float32, rows of unit length; zero where there is no frame.
        frame_mask: (V, T) True = real; every video has at least one frame.
        times_s: (V, T) float64, time of each frame in its clip; zero where there is no frame.
        on_screen: features of on-screen text; None where it was not read.
        pretrained_mean: (V, D) mean frame by the tower before training, where the tower of `frames` was trained; None
            where they are the same.
    """

    ids: tuple[str, ...]
    frames: NDArray[Any]
    frame_mask: NDArray[np.bool_]
    times_s: NDArray[np.float64]
    on_screen: OnScreen[NDArray[Any]] | None = None
    pretrained_mean: FloatArray | None = None

    def taken(self, rows: NDArray[np.int64] | slice) -> VideoFeatures:
        """Select some videos by their rows."""
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
    """A phrase of a caption and its semantic role.

    Attributes:
        role: `V` for a verb; `ARG0`, `ARGM-LOC`, ... for what belongs to one; `NOUN` for what belongs to none.
        words: places of its words in the caption, ascending, at least one.
    """

    role: str
    words: tuple[int, ...]

    @property
    def is_verb(self) -> bool:
        """Whether the phrase is an action, and not a thing that takes part in one."""
        return self.role == "V"


@dataclass(frozen=True, slots=True)
class RoleGraph:
    """A caption as its actions and the things that take part in them (Chen et al. 2020, section 3.1).

    Attributes:
        words: words of the caption, in small letters, at least one.
        nodes: verbs and nouns, in any order.
        edges: places in `nodes` of a verb and of a noun that takes part in it. A noun in none stands alone; every verb
            belongs to the caption as a whole, which is no node here.
    """

    words: tuple[str, ...]
    nodes: tuple[RoleNode, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """Features of Q captions by a frozen text tower.

    Attributes:
        ids: Q ids of captions.
        words: (Q, W, D) float16 or float32, of any length; zero where there is no word. D is 0 beside features that
            were computed elsewhere, where no tower has read captions.
        word_mask: (Q, W) True = real; every caption has at least one.
        sentence: (Q, D), rows of unit length.
        graphs: Q role graphs, for matchers that read these; None where there are none.
    """

    ids: tuple[str, ...]
    words: NDArray[Any]
    word_mask: NDArray[np.bool_]
    sentence: NDArray[Any]
    graphs: tuple[RoleGraph, ...] | None = None
