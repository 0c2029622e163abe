"""Outward properties of clips, independent of what they show: codec, frame rate, picture size, duration."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus.summary import lengths_s
from evenreel.errors import CorpusError
from evenreel.types import Corpus

MOST_NAMES = 20
"""A property with more names than that is none of a few kinds: hardly two clips would share one."""


@dataclass(frozen=True)
class PairProperty:
    """Property in which the two clips of a pair can be alike, such as the codec.

    Attributes:
        name: name of the property in words.
        columns: columns of `outward_table`: numbers whose product is its size, or one column of names.
        tolerance: greatest share by which the larger number exceeds the other in clips that are alike; None for names,
            which are alike where they are equal.
        unit: unit to write after a number.
    """

    name: str
    columns: tuple[str, ...]
    tolerance: float | None = None
    unit: str = ""

    @property
    def alike(self) -> str:
        """Words on when two clips count as alike in the property."""
        return "the same" if self.tolerance is None else f"within {self.tolerance:.0%}"


PROPERTIES = (
    PairProperty("codec", ("codec",)),
    PairProperty("frame rate", ("fps",), 0.01, " fps"),
    PairProperty("picture size", ("width", "height"), 0.01),
    PairProperty("duration", ("duration_s",), 0.1, " s"),
)


@dataclass(frozen=True, eq=False)
class PropertyComparison:
    """Comparison of the two clips of n pairs in one outward property.

    Attributes:
        known: (n,) whether the property is known of both clips.
        alike: (n,) whether it is known and the clips are alike in it.
        difference: (n,) difference of the generated clip from the real one: the logarithm of the ratio of their sizes,
            or for names 1 where they differ; NaN where it is not known.
        real, generated: typical values of real clips and of mirrors, in words.
        names: number of different names; 0 for numbers.
    """

    known: NDArray[np.bool_]
    alike: NDArray[np.bool_]
    difference: NDArray[np.float64]
    real: str
    generated: str
    names: int = 0


def outward_table(corpus: Corpus) -> pl.DataFrame:
    """Tabulate `clip_id, codec, fps, width, height, duration_s` of every clip, null where it is not known.

    The duration is as `evenreel.corpus.summary.lengths_s` finds it.

    Raises:
        CorpusError: a column of one of these names holds something else.
    """
    clips = corpus.clips
    try:
        numbers = [_number(clips, name) for name in ("fps", "width", "height")]
        table = clips.select("clip_id", _own(clips, "codec", pl.String()), *numbers)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(
            f"The clips have a column codec, width or height that holds something else ({error}); write "
            "what their videos say with `evenreel corpus overview --keep-facts`."
        ) from error
    lengths = lengths_s(clips).alias("duration_s")
    return table.with_columns(lengths.set(lengths <= 0, None))


def compare(
    table: pl.DataFrame, one: PairProperty, real: Sequence[str], generated: Sequence[str]
) -> PropertyComparison:
    """Compare the two clips of n pairs in an outward property, such as the codec.

    Args:
        table: table of properties by clip, from `outward_table`.
        one: the property.
        real: n ids of real clips.
        generated: n ids of their mirrors.
    """
    row = {clip: place for place, clip in enumerate(table["clip_id"])}
    sides = [table.select(one.columns)[[row[clip] for clip in side]] for side in (real, generated)]
    if one.tolerance is None:
        return _compare_names(*(side.to_series().to_list() for side in sides))
    return _compare_numbers(one, *(side.to_numpy().astype(np.float64) for side in sides))


def _compare_names(real: list[str | None], generated: list[str | None]) -> PropertyComparison:
    known = np.array([a is not None and b is not None for a, b in zip(real, generated, strict=True)], dtype=np.bool_)
    alike = np.array([a == b for a, b in zip(real, generated, strict=True)], dtype=np.bool_) & known
    difference = np.where(known, 1.0 - alike, np.nan)
    return PropertyComparison(
        known, alike, difference, _usual(real), _usual(generated), len({*real, *generated} - {None})
    )


def _compare_numbers(
    one: PairProperty, real: NDArray[np.float64], generated: NDArray[np.float64]
) -> PropertyComparison:
    """(n, c) numbers above 0, NaN where they are not known."""
    ratios = np.log(generated / real)
    known = np.asarray(~np.isnan(ratios).any(axis=1))
    alike = known & (np.abs(ratios) <= math.log1p(one.tolerance or 0.0) + 1e-9).all(axis=1)
    return PropertyComparison(known, alike, ratios.sum(axis=1), _middle(real, one.unit), _middle(generated, one.unit))


def _usual(names: list[Any]) -> str:
    """The most frequent name, and how frequent it is where there are others."""
    counts = Counter(name for name in names if name is not None)
    if not counts:
        return ""
    name, count = counts.most_common(1)[0]
    return str(name) if len(counts) == 1 else f"{name} ({count / counts.total():.0%})"


def _middle(values: NDArray[np.float64], unit: str) -> str:
    """The median of each number; of two in the middle the lower, so that it is one that a clip has."""
    known = values[~np.isnan(values).any(axis=1)]
    return " x ".join(f"{median_low(column):.4g}" for column in known.T) + unit if len(known) else ""


def _number(clips: pl.DataFrame, name: str) -> pl.Expr:
    own = _own(clips, name, pl.Float64())
    return pl.when(own > 0).then(own).alias(name)  # 0 x 0 is what some tools write of what they do not know


def _own(clips: pl.DataFrame, name: str, kind: pl.DataType) -> pl.Expr:
    return pl.col(name).cast(kind) if name in clips.columns else pl.lit(None, kind).alias(name)
