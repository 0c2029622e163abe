"""What systems answer captions with: which captions a study shows, what comes first, and the rank of their clips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import polars as pl

from evenreel.corpus import select
from evenreel.errors import UsageError
from evenreel.papers.engine.material import Model
from evenreel.papers.engine.words import paragraph
from evenreel.report.result import Effect
from evenreel.types import Corpus, ScoreBlocks

CAPTIONS, MOST_CAPTIONS = 4, 1_000
"""Shown where the user names none, and looked through for them."""

_SHARE = "Share of the captions shown whose clip is first"


class Answer(NamedTuple):
    """The clips that a system ranks first for a caption, and the rank of the caption's own clip.

    Attributes:
        first: columns of the clips that come first.
        own: column of the clip that the caption describes.
        rank: rank of that clip.
    """

    first: tuple[int, ...]
    own: int
    rank: int


def notices_of_shown(*, chosen: bool) -> tuple[str, ...]:
    """Return the notices that few captions are shown and, where a study chose them itself, how."""
    how = paragraph("shared", "Captions that are shown", most=MOST_CAPTIONS)
    return (paragraph("shared", "A few captions"), *([how] if chosen else []))


def alike(models: Sequence[Model]) -> list[Model]:
    """Keep the clips that all models have features of, so that a row is the same caption to each model."""
    shared = set.intersection(*(set(model.part.videos.ids) for model in models))
    corpus = select(models[0].part.corpus, where=pl.col("clip_id").is_in(shared))
    return [replace(model, part=model.part.only(corpus)) for model in models]


def asked(corpus: Corpus, queries: Sequence[str]) -> list[int]:
    """Return the rows of the captions that the user asks for, by their ids."""
    place = {one: row for row, one in enumerate(corpus.captions["caption_id"])}
    if strange := [one for one in queries if one not in place]:
        raise UsageError(f"The split has no caption {strange[0]!r}; --query takes ids of captions.")
    return [place[one] for one in queries]


def chosen(models: Sequence[Model], rankings: Mapping[str, ScoreBlocks]) -> list[int]:
    """Choose captions that the first system answers and the last one does not; else the first captions."""
    first, last = models[0], models[-1]
    count = first.part.corpus.captions.height

    def answered(model: Model, row: int) -> bool:
        return answer(model, rankings[model.name], row).rank == 1

    looked_through = range(min(count, MOST_CAPTIONS) if len(models) > 1 else 0)
    told_apart = (row for row in looked_through if answered(first, row) and not answered(last, row))
    return list(islice(told_apart, CAPTIONS)) or list(range(min(CAPTIONS, count)))


def answer(model: Model, scores: ScoreBlocks, row: int, most: int = 1) -> Answer:
    """Return the clips that rank first for a caption, and the rank of its own clip.

    Of equal scores the clip that comes first in the split is first, and the rank is the best of theirs.
    """
    values = scores.block(slice(row, row + 1), slice(0, len(scores.video_ids)))[0]
    own = list(scores.video_ids).index(model.part.corpus.captions["clip_id"][row])
    first = np.argsort(-values, kind="stable")[:most].tolist()
    return Answer(tuple(first), own, 1 + int((values > values[own]).sum()))


def shares_first(ranks: Mapping[str, Sequence[int]]) -> tuple[str, Effect]:
    """Say how often each system ranks the own clip of the captions shown first, and return that as an effect."""
    shares = {name: sum(rank == 1 for rank in own) / len(own) for name, own in ranks.items()}
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    first, last = next(iter(shares.values())), next(reversed(shares.values()))
    effect = Effect(_SHARE, first) if len(shares) == 1 else Effect(f"{_SHARE}: last system less first", last - first)
    return f"Of the captions shown, those whose own clip is first: {told}.", effect
