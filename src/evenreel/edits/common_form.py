"""Choice of a common form (frame rate, size, length) for all clips of a corpus that invents no pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import polars as pl

from evenreel.corpus.counterparts import groups_of
from evenreel.edits.settings import EqualiseSettings
from evenreel.errors import CorpusError
from evenreel.features.facts import ClipFacts
from evenreel.features.pool import SetAside
from evenreel.media.encode import Form, inner_size
from evenreel.types import CAMERA, Corpus

_RATES = 1001  # largest denominator of a rate: 30000/1001 and its kin
_ROUNDING_S = 1e-3  # a length in a header is rounded to a unit of its time base


def common_form(corpus: Corpus, facts: ClipFacts, settings: EqualiseSettings) -> Form:
    """Choose the common form of all clips: by the settings, else the lowest frame rate and size among groups' medians.

    A group is real clips, or the clips of a generator in a setting. A median is that of a real clip, not the middle
    between two.
    """
    table = grouped(corpus, facts)
    if table.is_empty():
        raise CorpusError("The video of no clip can be read; name the folder that their paths begin in (--videos).")
    fps = settings.fps or _lowest(table, "fps")
    if fps is None:
        raise CorpusError("The headers of the videos tell no frame rate; give one (--fps).")
    smallest = (
        table.with_columns(aspect=pl.col("width") / pl.col("height"))
        .group_by("group", maintain_order=True)
        .agg(pl.col("height", "aspect").quantile(0.5, "lower"))
        .sort("height", maintain_order=True)
    )
    height = settings.height or _even(smallest["height"][0])
    width = settings.width or _even(height * smallest["aspect"][0])
    return Form(Fraction(fps).limit_denominator(_RATES), width, height, settings.fit, settings.crf)


def frame_counts(
    corpus: Corpus, facts: ClipFacts, form: Form, duration_s: float | None
) -> tuple[dict[str, int], list[SetAside]]:
    """Return the number of frames that each clip gets, by clip id, and clips set aside as shorter than `duration_s`."""
    table = facts.table.select("clip_id", "duration_s").join(
        corpus.clips.select("clip_id", "path", family=pl.coalesce("pair_id", "clip_id")), on="clip_id", how="left"
    )
    if duration_s is None:
        shortest = table.with_columns(pl.col("duration_s").min().over("family"))
        return {clip: _frames(length_s, form) for clip, length_s in shortest.select("clip_id", "duration_s").rows()}, []
    counts, aside = {}, []
    for clip, length_s, path in table.select("clip_id", "duration_s", "path").iter_rows():
        if length_s + _ROUNDING_S < duration_s:
            why = f"it is {length_s:.2f} s long, and {duration_s:g} s are asked for (--duration)"
            aside.append(SetAside(clip, path, "failed", why))
        else:
            counts[clip] = _frames(duration_s, form)
    return counts, aside


def form_notices(corpus: Corpus, facts: ClipFacts, form: Form) -> Iterator[str]:
    """Iterate over notices on what a common form invents, and on differences between groups that it leaves."""
    table = grouped(corpus, facts)
    if slower := table.filter(pl.col("fps") < float(form.fps) * 0.99).height:
        yield f"Clips with fewer frames a second than {float(form.fps):.4g}, of which some are repeated: {slower:,}."
    sizes = table.select("height", "width").rows()
    inner = [inner_size(width, height, form) for height, width in sizes]
    if smaller := sum(new[0] > old[0] for new, old in zip(inner, sizes, strict=True)):
        yield f"Clips whose picture is enlarged to {form.width} x {form.height}: {smaller:,}."
    if form.fit == "pad":
        yield from _of_bars(table["group"], [size != (form.height, form.width) for size in inner])


def _of_bars(groups: pl.Series, barred: list[bool]) -> Iterator[str]:
    table = pl.DataFrame({"group": groups, "barred": barred})
    shares = table.group_by("group", maintain_order=True).agg(pl.col("barred").mean() * 100)
    if shares["barred"].n_unique() > 1:
        listed = ", ".join(f"{group} {share:.0f} %" for group, share in shares.iter_rows())
        yield (
            f"Pictures of another shape get black bars, which tell groups apart: {listed} of the clips have some. "
            "--fit crop leaves none, at the cost of their edges."
        )


def grouped(corpus: Corpus, facts: ClipFacts) -> pl.DataFrame:
    """Add the column `group` to the facts of clips: the generator and its setting, and `camera` for real clips."""
    names = groups_of(corpus)
    group = pl.Series("group", [names.get(clip, CAMERA) for clip in facts.table["clip_id"]], dtype=pl.String)
    return facts.table.with_columns(group)


def _lowest(table: pl.DataFrame, column: str) -> float | None:
    medians = table.drop_nulls(column).group_by("group").agg(pl.col(column).quantile(0.5, "lower"))
    return None if medians.is_empty() else float(medians[column].to_numpy().min())


def _frames(length_s: float, form: Form) -> int:
    return max(1, math.floor((length_s + _ROUNDING_S) * form.fps))


def _even(side: float) -> int:
    return max(16, int(side) // 2 * 2)
