"""Overview of a corpus of real clips and the generated clips that mirror them: number, form, and similarity.

Generative Ghost, section 2.3, Table 1 and Figure 2: clips, frame rate, duration and picture size of each group, and the
cosine of the mean vectors of a real clip's and its mirror's frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.audits.exchange import mean_interval
from evenreel.audits.inputs import paragraph
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.counterparts import counterparts, groups_of
from evenreel.corpus.summary import UNASSIGNED, ValueRange
from evenreel.errors import FeaturesError
from evenreel.evaluation.intervals import Interval
from evenreel.report.page import Chart, Page, Part, Section, Text
from evenreel.report.result import AuditTable, Named, cell, figure_words
from evenreel.report.words import percent
from evenreel.types import CAMERA, Corpus, VideoFeatures

if TYPE_CHECKING:
    from evenreel.features.facts import ClipFacts

PAPER_RULE = "10 midpoints"  # ten frames evenly over each clip, as the paper takes them (section 2.3)
_BAND_BYTES = 64 * 2**20
_MANY_NAMES = 3
_FEWEST_BINS, _MOST_BINS = 5, 40


@dataclass(frozen=True)
class GroupOverview:
    """Counts and forms of the clips of one group in one split."""

    group: str  # generator and its setting; `camera` for real clips
    split: str
    clips: int  # number of clips, including those whose video cannot be read
    fps: ValueRange | None  # over clips with known headers; None without any
    duration_s: ValueRange | None
    sizes: Mapping[str, int]  # number of clips by width x height, the most frequent first
    codecs: Mapping[str, int]  # likewise by codec
    similarity: Interval | None = None  # mean cosine to the real counterparts; None for real clips and if not measured
    pairs: int = 0  # number of pairs that `similarity` is over


@dataclass(frozen=True)
class Overview:
    """Clips of a corpus by group and split, their forms, and the similarity of mirrors."""

    groups: tuple[GroupOverview, ...]  # real clips first, then each generated group, by split in the clips' order
    similarity: Mapping[str, Interval]  # mean cosine of each group to the real counterparts, over all splits
    # how much larger the mean similarity of a group is in one split than in another, by group, then by the two splits;
    # the paper's .7332 - .7304
    consistency: Mapping[str, Mapping[str, Interval]]
    pairs: pl.DataFrame  # `clip_id, generated_id, group, split, similarity`, the last NaN where it was not measured
    confidence: float = 0.95
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the overview, without the single pairs, as a dictionary that JSON can hold, as `--json` prints it."""
        return {name: value for name, value in asdict(self).items() if name != "pairs"}


def similarities(videos: VideoFeatures, pairs: pl.DataFrame) -> NDArray[np.float64]:
    """Compute the cosine of the mean frame vectors of the two clips of each pair.

    Args:
        videos: features of clips; the paper's figures are of 10 frames evenly over each (`PAPER_RULE`).
        pairs: P rows with `clip_id` and `generated_id`.

    Returns:
        (P,) cosines; NaN for a pair of which a clip has no features.

    Raises:
        FeaturesError: a vector is not a number.
    """
    row = {clip: place for place, clip in enumerate(videos.ids)}
    found = np.full(pairs.height, np.nan)
    both = pairs.select("clip_id", "generated_id").iter_rows()
    places = [(at, row[real], row[made]) for at, (real, made) in enumerate(both) if real in row and made in row]
    step = max(1, _BAND_BYTES // max(1, 4 * videos.frames[:1].size))
    for start in range(0, len(places), step):
        at, real, made = np.array(places[start : start + step]).T
        first, second = _mean_vectors(videos, real), _mean_vectors(videos, made)
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        found[at] = (first * second).sum(axis=1) / np.maximum(norms, np.finfo(np.float64).tiny)
        if not np.isfinite(found[at]).all():
            raise FeaturesError("A frame's features hold what is no number; compute them again.")
    return found


def _mean_vectors(videos: VideoFeatures, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n, D), over the frames that a clip has."""
    mask = videos.frame_mask[rows].astype(np.float32)
    total = np.einsum("vtd,vt->vd", videos.frames[rows].astype(np.float32), mask)
    return np.asarray(total / mask.sum(axis=1, keepdims=True), dtype=np.float64)


def overview(
    corpus: Corpus,
    facts: ClipFacts,
    cosines: NDArray[np.float64] | None = None,
    settings: AuditSettings | None = None,
    notices: Sequence[str] = (),
) -> Overview:
    """Compute the overview of a corpus: counts, forms and similarities of each group in each split.

    `facts` are header values of its clips, `cosines` the similarity of each pair of `counterparts(corpus)`, None where
    not measured; `notices` on these come before the overview's own.
    """
    settings = settings or AuditSettings()
    pairs = counterparts(corpus)
    similarity = np.full(pairs.height, np.nan) if cosines is None else cosines
    splits = corpus.clips.select(generated_id="clip_id", split=pl.col("split").fill_null(UNASSIGNED))
    pairs = pairs.join(splits, on="generated_id", how="left", maintain_order="left").with_columns(
        pl.Series("similarity", similarity, dtype=pl.Float64)
    )
    names = groups_of(corpus)
    clips = corpus.clips.select(
        "clip_id",
        pl.Series("group", [names.get(clip, CAMERA) for clip in corpus.clips["clip_id"]], dtype=pl.String),
        pl.col("split").fill_null(UNASSIGNED),
    ).join(facts.table, on="clip_id", how="left", maintain_order="left")
    order = pl.col("group") != CAMERA
    parts = clips.sort(order, maintain_order=True).partition_by("group", "split", maintain_order=True)
    measured = pairs.filter(pl.col("similarity").is_not_nan())
    return Overview(
        tuple(_group(part, measured, settings) for part in parts),
        {str(group): _mean(own, settings) for (group,), own in measured.group_by("group", maintain_order=True)},
        _consistency(measured, settings),
        pairs,
        settings.confidence,
        (*notices, *_notices(facts, pairs)),
    )


def _group(clips: pl.DataFrame, measured: pl.DataFrame, settings: AuditSettings) -> GroupOverview:
    group, split = clips["group"][0], clips["split"][0]
    own = measured.filter((pl.col("group") == group) & (pl.col("split") == split))
    known = clips.drop_nulls("codec")
    sizes = known.select(size=pl.format("{} x {}", "width", "height"))["size"]
    forms = _spread(clips["fps"]), _spread(clips["duration_s"]), _counts(sizes), _counts(known["codec"])
    return GroupOverview(group, split, clips.height, *forms, _mean(own, settings) if own.height else None, own.height)


def _spread(values: pl.Series) -> ValueRange | None:
    known = values.drop_nulls()
    if known.is_empty():
        return None
    array = known.to_numpy()
    return ValueRange(float(array.min()), float(np.median(array)), float(array.max()), len(array))


def _counts(values: pl.Series) -> dict[str, int]:
    return dict(sorted(Counter(values.to_list()).items(), key=lambda one: (-one[1], one[0])))


def _mean(pairs: pl.DataFrame, settings: AuditSettings) -> Interval:
    """The mean similarity; mirrors of one real clip are resampled together."""
    clip = pairs["clip_id"].rank("dense").to_numpy().astype(np.int64)
    return mean_interval(pairs["similarity"].to_numpy(), clip, settings)


def _consistency(measured: pl.DataFrame, settings: AuditSettings) -> dict[str, dict[str, Interval]]:
    """Differences between the first split of a group and each other, of which two pairs at least are measured."""
    found: dict[str, dict[str, Interval]] = {}
    for (group,), own in measured.group_by("group", maintain_order=True):
        splits = own.group_by("split", maintain_order=True)
        parts = [(split, part["similarity"].to_numpy()) for (split,), part in splits if part.height > 1]
        for split, values in parts[1:]:
            first, base = parts[0]
            found.setdefault(str(group), {})[f"{first} less {split}"] = difference(base, values, settings)
    return found


def difference(first: NDArray[np.float64], second: NDArray[np.float64], settings: AuditSettings) -> Interval:
    """Compute the difference of the means of two independent samples, which may differ in variance (Welch 1947)."""
    from scipy.stats import t

    value = float(first.mean() - second.mean())
    counts = np.array([len(first), len(second)])
    variances = np.array([first.var(ddof=1), second.var(ddof=1)]) / counts
    both = variances.sum()
    if not both:
        return Interval(value, value, value)
    freedom = both**2 / (variances**2 / (counts - 1)).sum()
    half = float(t.ppf((1 + settings.confidence) / 2, freedom) * np.sqrt(both))
    return Interval(value, value - half, value + half)


def _notices(facts: ClipFacts, pairs: pl.DataFrame) -> Iterator[str]:
    if facts.set_aside:
        yield f"Clips whose video cannot be read, so that their form is not counted: {len(facts.set_aside):,}."
    if pairs.is_empty():
        yield "No clip has a generated counterpart; add some with `evenreel corpus pair`."
        return
    unmeasured = int(pairs["similarity"].is_nan().sum())
    if unmeasured == pairs.height:
        yield (
            f"Similarity was not measured: compute features (`evenreel features CORPUS --rule '{PAPER_RULE}'`) and "
            "name their folder with --features."
        )
    elif unmeasured:
        yield f"Pairs whose similarity is left out, for want of features of a clip: {unmeasured:,} of {pairs.height:,}."


# Tables, words and page.


def overview_tables(found: Overview) -> tuple[AuditTable, ...]:
    """Return the tables of an overview: forms, and, where measured, similarities and how they differ between splits."""
    ends = f"Low and high are the ends of the {percent(found.confidence)} interval."
    forms: list[Named] = [
        {
            "group": one.group, "split": one.split, "frames a second": spread_words(one.fps),
            "seconds": spread_words(one.duration_s), "picture": names_words(one.sizes),
            "codec": names_words(one.codecs), "clips": one.clips,
        }
        for one in found.groups
    ]  # fmt: skip
    alike: list[Named] = [
        {"group": one.group, "split": one.split, "pairs": one.pairs, "mean cosine": one.similarity}
        for one in found.groups
        if one.similarity is not None
    ]
    differences: list[Named] = [
        {"group": group, "splits": splits, "difference": one}
        for group, by in found.consistency.items()
        for splits, one in by.items()
    ]
    tables = (
        AuditTable.of(
            "Clips by group and split", forms,
            "Medians, with the range in brackets where values differ; sizes and codecs by how frequent they are.",
        ),
        AuditTable.of(
            "Similarity to the real clips", alike,
            f"Of the mean frame vectors of a real clip and its mirror; 1 is the same direction. {ends}", digits=4,
        ),
        AuditTable.of(
            "Similarity in one split less that in another", differences,
            f"Near 0: mirrors were made alike in both splits. {ends}", digits=4,
        ),
    )  # fmt: skip
    return tuple(table for table in tables if table.rows)


def spread_words(spread: ValueRange | None) -> str:
    """Format a range of values in words: the median, and least and greatest where they differ.

    >>> spread_words(ValueRange(24.0, 25.0, 30.0, 9)), spread_words(ValueRange(8.0, 8.0, 8.0, 2)), spread_words(None)
    ('25 (24 to 30)', '8', '–')
    """
    if spread is None:
        return cell(None, 0)
    middle = f"{spread.median:.4g}"
    return middle if spread.least == spread.greatest else f"{middle} ({spread.least:.4g} to {spread.greatest:.4g})"


def names_words(counts: Mapping[str, int]) -> str:
    """Format counts by name in words: the most frequent names with their shares, and how many others there are.

    >>> names_words({"h264": 3, "vp9": 1}), names_words({"h264": 3}), names_words({})
    ('h264 75 %, vp9 25 %', 'h264', '–')
    """
    if len(counts) < 2:
        return next(iter(counts), cell(None, 0))
    every = sum(counts.values())
    shown = ", ".join(f"{name} {100 * count / every:.0f} %" for name, count in [*counts.items()][:_MANY_NAMES])
    more = len(counts) - _MANY_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def overview_sentence(found: Overview) -> str:
    """Return a sentence on the number of clips of each kind, and on the group most similar to the real clips."""
    made: Counter[str] = Counter()
    for one in found.groups:
        made[one.group] += one.clips
    real = made.pop(CAMERA, 0)
    clips = f"{real:,} real clip{'' if real == 1 else 's'}"
    if not made:
        return f"{clips} and no generated ones."
    groups = ", ".join(f"{count:,} of {group}" for group, count in made.items())
    said = f"{clips} and {made.total():,} generated: {groups}."
    if not found.similarity:
        return said
    group, mean = max(found.similarity.items(), key=lambda one: one[1].value)
    figure = figure_words(mean, found.confidence, digits=3)
    which = ", the nearest of all groups" if len(found.similarity) > 1 else " that they mirror"
    return f"{said} Clips of {group} have a mean similarity of {figure} to the real ones{which}."


def overview_method() -> tuple[str, str]:
    """Return the paragraphs on how an overview is computed, with the source."""
    frames = PAPER_RULE.split(maxsplit=1)[0]
    return paragraph("overview", "Files"), paragraph("overview", "Similarity", frames=frames)


def overview_page(found: Overview) -> Page:
    """Make the page of an overview of a corpus: a sentence, the histogram of similarities, tables, and the method."""
    from evenreel.report.figures import similarity_histogram

    sections = [Section("What to know first", [Text(one, "notice") for one in found.notices])] if found.notices else []
    parts: list[Part] = []
    measured = found.pairs.filter(found.pairs["similarity"].is_not_nan()).group_by("group", maintain_order=True)
    if groups := {str(group): part["similarity"].to_numpy() for (group,), part in measured}:
        bins = min(_MOST_BINS, max(_FEWEST_BINS, isqrt(min(map(len, groups.values())))))
        title = "Similarity of real clips and their mirrors, all splits"
        parts.append(Chart(similarity_histogram(groups, bins=bins), title))
    method = Section("How it was calculated", [Text(one) for one in overview_method()])
    sections += [Section("What was found", [*parts, *overview_tables(found)]), method]
    return Page("Real clips and their mirrors", overview_sentence(found), sections)
