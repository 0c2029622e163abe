"""Summary of a corpus: numbers of clips and captions, and the range of lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from evenreel.config import check_corpus
from evenreel.corpus.tables import CAPTION_COLUMNS, CLIP_COLUMNS
from evenreel.types import Corpus, Shown

UNASSIGNED = "(none)"


@dataclass(frozen=True)
class ValueRange:
    """Least, median and greatest of a clip property's known values, and for how many clips it is known."""

    least: float
    median: float
    greatest: float
    known: int


@dataclass(frozen=True)
class SplitCounts:
    """Numbers of clips and captions of a split."""

    clips: int
    captions: int


@dataclass(frozen=True)
class CorpusSummary(Shown):
    """Numbers of clips and captions of a corpus, and the range of lengths.

    Attributes:
        clips, captions: numbers of clips and captions.
        splits, sources, domains: numbers by split, source and domain; `(none)` for clips without one.
        captions_a_clip: captions of a clip, over all clips, those without one included.
        length_s: lengths of clips in seconds: `end_s - start_s`, else a column `duration_s`, else `frame_count / fps`.
        frame_count: lengths of clips in frames.
        verb_classes, noun_classes: numbers of different classes of clips and captions.
        own_columns: names of columns other than the standard ones, by table.
        texts: number of signs on screen; None where the corpus has no table of them.
    """

    clips: int
    captions: int
    splits: Mapping[str, SplitCounts]
    sources: Mapping[str, int]
    domains: Mapping[str, int]
    captions_a_clip: ValueRange | None
    length_s: ValueRange | None
    frame_count: ValueRange | None
    verb_classes: int
    noun_classes: int
    own_columns: Mapping[str, list[str]]
    texts: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the summary as a dictionary that JSON can hold, as `--json` prints it."""
        return asdict(self)


def summarise(corpus: Corpus, texts: pl.DataFrame | None = None) -> CorpusSummary:
    """Summarise a corpus: count clips, captions and classes, and find the range of lengths.

    Args:
        corpus: the corpus.
        texts: its table of words on screen, if there is one.
    """
    check_corpus(corpus)
    clips, captions = corpus.clips, corpus.captions
    classes = {
        kind: pl.concat([clips[kind], captions[kind]]).drop_nulls().explode().drop_nulls().n_unique()
        for kind in ("verb_classes", "noun_classes")
    }
    return CorpusSummary(
        clips=clips.height,
        captions=captions.height,
        splits=split_counts(corpus),
        sources=dict(clips["source"].fill_null(UNASSIGNED).value_counts(sort=True).iter_rows()),
        domains=dict(clips["domain"].fill_null(UNASSIGNED).value_counts(sort=True).iter_rows()),
        captions_a_clip=_spread(_told(corpus)["captions"]),
        length_s=_spread(lengths_s(clips)),
        frame_count=_spread(clips["frame_count"]),
        verb_classes=classes["verb_classes"],
        noun_classes=classes["noun_classes"],
        own_columns={
            "clips": [name for name in clips.columns if name not in CLIP_COLUMNS],
            "captions": [name for name in captions.columns if name not in CAPTION_COLUMNS],
        },
        texts=None if texts is None else texts.height,
    )


def split_counts(corpus: Corpus) -> dict[str, SplitCounts]:
    """Count the clips and captions of each split, in the order of the clips."""
    rows = _told(corpus).group_by("split", maintain_order=True).agg(pl.len().alias("clips"), pl.sum("captions"))
    return {split: SplitCounts(clips, captions) for split, clips, captions in rows.iter_rows()}


def lengths_s(clips: pl.DataFrame) -> pl.Series:
    """Return the length of each clip in seconds (V,), null where it is not known.

    It is `end_s - start_s`, else the column `duration_s`, else `frame_count / fps`.
    """
    said = pl.col("duration_s") if "duration_s" in clips.columns else pl.lit(None)
    times = pl.col("end_s") - pl.col("start_s").fill_null(0.0)
    by_frames = pl.col("frame_count") / pl.col("fps")
    return clips.select(pl.coalesce(times, said, by_frames).cast(pl.Float64).alias("length_s")).to_series()


def _told(corpus: Corpus) -> pl.DataFrame:
    """Split and number of captions of each clip."""
    counted = corpus.captions.group_by("clip_id").agg(pl.len().alias("captions"))
    rows = corpus.clips.select("clip_id", pl.col("split").fill_null(UNASSIGNED))
    return rows.join(counted, on="clip_id", how="left", maintain_order="left").with_columns(
        pl.col("captions").fill_null(0)
    )


def _spread(values: pl.Series) -> ValueRange | None:
    known = values.drop_nulls().cast(pl.Float64).sort()
    if known.is_empty():
        return None
    middle = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
    return ValueRange(known[0], middle, known[-1], len(known))
