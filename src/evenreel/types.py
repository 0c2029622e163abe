"""The records that travel between the layers; numpy arrays travel with the ids or times of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""(H, W, 3) or (N, 3, H, W) RGB, full range."""

FloatArray = NDArray[np.float32]

Metadata = dict[str, "str | int | float | bool | None"]
"""What the user says about one video: a flat row of a csv, parquet or jsonl table."""


@dataclass(frozen=True)
class VideoInfo:
    """What the header of a video says, as it is shown: after rotation and with square pixels.

    `duration_s` and `frame_count` are the container's claims, None where it makes none.
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


@dataclass(frozen=True)
class Frame:
    """One decoded picture, upright, square pixels, RGB; `time_s` counts from what a player shows as 0."""

    time_s: float
    pixels: Pixels


@dataclass(frozen=True)
class Word:
    """One recognised line or word: `box` is x0, y0, x1, y1 as fractions of the picture."""

    text: str
    confidence: float
    box: tuple[float, float, float, float]
    time_s: float


@dataclass(frozen=True)
class TextTrack:
    """One sign followed over time, with its best reading first and every distinct reading kept."""

    text: str
    confidence: float
    start_s: float
    end_s: float
    box: tuple[float, float, float, float]
    readings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextEmbedding:
    """Captions through a text tower: `words` (Q, W, D), `word_mask` (Q, W) True = real, `sentence` (Q, D).

    Rows of `sentence` have unit length.
    """

    words: FloatArray
    word_mask: NDArray[np.bool_]
    sentence: FloatArray


class Encoder(Protocol):
    """Frozen towers: CLIP, SigLIP, the built-in one."""

    @property
    def encoder_id(self) -> str:
        """Name a person can load it by: `builtin`, a hub id with its revision, or a folder."""

    @property
    def weights_hash(self) -> str:
        """Hex digest over the weights and the preprocessing; features of another digest are refused."""

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""

    def encode_frames(self, pixels: Pixels) -> FloatArray:
        """(N, 3, H, W) uint8 RGB of any size -> (N, D), rows of unit length."""

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Captions of any length (cut at the tokenizer's limit) -> their embedding."""


@dataclass(frozen=True)
class MomentHit:
    """A stretch of a clip that fits the query; `time_s` is its best frame."""

    time_s: float
    start_s: float
    end_s: float
    score: float


@dataclass(frozen=True)
class TextHit:
    """On-screen words that matched: the track's text, what of the query it matched, and when it is shown.

    `similarity` is 1 for an exact match, less for a reading with errors.
    """

    text: str
    matched: tuple[str, ...]
    start_s: float
    end_s: float
    similarity: float


@dataclass(frozen=True)
class Hit:
    """One clip of a result, with the reason it is there.

    `scores` has one entry a channel that found the clip (`seen`, `on_screen`, `about`): the channel's own
    score. `score` is the fused one. `confidence` is the share of nonsense queries that this clip beats.
    """

    clip_id: str
    path: str
    score: float
    confidence: float
    scores: dict[str, float]
    moments: tuple[MomentHit, ...]
    on_screen: tuple[TextHit, ...]
    duration_s: float | None
    metadata: Metadata = field(default_factory=dict)
    other_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchResult:
    """Hits, best first. `fits` is False when nothing in the library answers better than nonsense would."""

    query: str
    hits: tuple[Hit, ...]
    fits: bool
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The result as plain data, the form that `--json` prints."""
        from dataclasses import asdict

        return asdict(self)
