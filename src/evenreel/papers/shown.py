"""What studies show: captions and their answers, frames of clips beside each other, and vectors in a plane.

A t-SNE picture (Generative Ghost, Figure 5; BiMa, Figure 5) shows clusters that depend on its settings, and may draw
apart what is not (van der Maaten and Hinton, JMLR 9, 2008), so it comes with two figures from the full space. Mind what
is drawn: differences of vectors, such as p-vectors, lie near zero and clips on the unit sphere, so they part in any
picture; and a constant added to a group makes a cluster of it.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus import select
from evenreel.errors import UsageError
from evenreel.papers.study import paragraph
from evenreel.papers.workspace import Model
from evenreel.report.figures import COLOURS, name_label, panels, vector_map, wrapped
from evenreel.report.result import Effect
from evenreel.types import Corpus, Pixels, ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

# captions and what answers them ---------------------------------------------------------------------------------------

CAPTIONS, MOST_CAPTIONS = 4, 1_000
"""Shown where the user names none, and looked through for them."""
_SHARE = "Share of the captions shown whose clip is first"


class Answer(NamedTuple):
    """The clips that a system ranks first for a caption, and the rank of the caption's own clip."""

    first: tuple[int, ...]  # columns of the clips that come first
    own: int  # column of the clip that the caption describes
    rank: int  # rank of that clip


def shown_notices(*, chosen: bool) -> tuple[str, ...]:
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


# frames of clips ------------------------------------------------------------------------------------------------------

JPEG_QUALITY = 85
GAP = 0.04
"""Between frames, in widths of a frame."""
RIGHT, WRONG = COLOURS[2], COLOURS[4]
TITLE_LETTERS, _WORDS_LETTERS, _WORDS_WIDTH = 28, 120, 34


class FramedClip(NamedTuple):
    """One picture (H, W, 3) of a clip, its title, whether the border says that it is right, and the words below it."""

    title: str
    picture: Pixels
    right: bool
    words: tuple[str, ...]


def beside_each_other(clips: Sequence[FramedClip]) -> go.Figure:
    """Draw pictures beside each other, each above its words and in a border that says whether it is right."""
    import plotly.graph_objects as go

    titles = [textwrap.shorten(one.title, TITLE_LETTERS, placeholder=" ...") for one in clips]
    figure = go.Figure(layout=panels(titles, "", [""] * len(titles)))
    figure.update_layout(showlegend=False)
    for number, one in enumerate(clips, start=1):
        add_frames(figure, [jpeg(one.picture)], [0.0], aspect_of(one.picture), number)
        add_borders(figure, 1, aspect_of(one.picture), number, right=one.right)
        figure.add_scatter(
            x=[0.5], y=[aspect_of(one.picture) / 2], mode="markers", marker_opacity=0, **axes_of(number),
            customdata=["<br>".join(map(wrapped, filter(None, one.words)))],
            hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip
        lines = [textwrap.shorten(line, _WORDS_LETTERS, placeholder=" ...") for line in one.words if line]
        words = ["<br>".join(name_label(line, _WORDS_WIDTH) for line in lines)]
        figure.layout[axes_of(number)["xaxis"].replace("x", "xaxis")].ticktext = words
    return figure


def axes_of(number: int) -> dict[str, str]:
    """Return the names of the axes of a panel, counted from 1."""
    place = "" if number == 1 else str(number)
    return {"xaxis": f"x{place}", "yaxis": f"y{place}"}


def aspect_of(picture: Pixels) -> float:
    """Return the height of a picture in its widths."""
    return float(picture.shape[0] / picture.shape[1])


def middles(count: int) -> list[float]:
    """Return the middles of frames that stand beside each other."""
    return [place * (1 + GAP) + 0.5 for place in range(count)]


def add_frames(figure: go.Figure, sources: Sequence[str], times_s: Sequence[float], aspect: float, number: int) -> None:
    """Draw frames, JPEG images of one aspect, beside each other in a panel, with their times below."""
    place, count = axes_of(number), len(times_s)
    for column, source in enumerate(sources):
        figure.add_layout_image(
            source=source, x=column * (1 + GAP), y=0, sizex=1, sizey=aspect, sizing="stretch", layer="below",
            xref=place["xaxis"], yref=place["yaxis"],
        )  # fmt: skip
    quiet = {"showgrid": False, "zeroline": False, "ticks": "", "showline": False, "constrain": "domain"}
    figure.layout[place["xaxis"].replace("x", "xaxis")].update(
        range=[0, count * (1 + GAP) - GAP], tickvals=middles(count),
        ticktext=[f"{time_s:.1f} s" for time_s in times_s], tickfont_size=12, **quiet,
    )  # fmt: skip
    figure.layout[place["yaxis"].replace("y", "yaxis")].update(
        range=[aspect, 0], showticklabels=False, scaleanchor=place["xaxis"], constraintoward="top", **quiet
    )


def add_borders(figure: go.Figure, count: int, aspect: float, number: int, *, right: bool) -> None:
    """Draw a border round each frame of a panel that says whether the clip is the right one."""
    place, line = axes_of(number), {"color": RIGHT if right else WRONG, "width": 3}
    for column in range(count):
        left = column * (1 + GAP)
        figure.add_shape(
            type="rect", x0=left, x1=left + 1, y0=0, y1=aspect, xref=place["xaxis"], yref=place["yaxis"], line=line
        )


def jpeg(picture: Pixels) -> str:
    """Encode a picture as the data address of a JPEG image."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


# vectors in a plane ---------------------------------------------------------------------------------------------------

MOST_POINTS = 2000
"""Points a group that t-SNE is asked to place; it takes about a minute for 5,000 of them on one core."""

PCA_DIMENSIONS = 50
"""What vectors are reduced to before t-SNE, as its authors do (section 4.2)."""

PERPLEXITY = 30.0
FEWEST_POINTS = 4
BAND_MIB = 64
SAME = 1e-6
"""Distances that differ by less than this share of the largest norm are ties: rounding alone parts them."""


@dataclass(frozen=True)
class Separation:
    """How far groups of vectors lie apart, beside what chance would give."""

    # mean share of each vector's nearest k that are of its own group; ties count as they would on average
    agreement: float
    # the same where groups are given out at random. Clips may lie below it: where each is nearest to its own mirror,
    # neighbours are of the other group
    chance: float
    silhouette: float  # mean silhouette, -1 to 1, with Euclidean distances: near 0 where groups overlap


def draw_points(groups: Sequence[str], seed: int = 0, most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Draw rows that are few enough to project, in their order: at most `most` of each group.

    Args:
        groups: name of the group of each of N vectors.
        seed: seed of the draw; groups of one size are drawn alike, so that clips stay with their mirrors where both
            groups have them in the same order.
        most: most points of a group.

    >>> draw_points(["a", "b", "a", "b", "b"], most=2).tolist()
    [0, 2, 3, 4]
    """
    labels = np.array(groups)
    rows = [np.flatnonzero(labels == group) for group in dict.fromkeys(groups)]
    kept = [
        some if len(some) <= most else np.random.default_rng(seed).choice(some, most, replace=False) for some in rows
    ]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *kept]))


def project(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Place at least 4 vectors in a plane by t-SNE, (N, D) -> (N, 2); the same bytes in each run on one machine.

    Vectors of more than 50 dimensions are first reduced to these by PCA. Points start at their first two principal
    components, so nothing is random. It works on one core, because several would add in another order each time. A
    point has about 30 neighbours (perplexity), or a third of the others where they are few.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    values = _finite(vectors)
    if len(values) < FEWEST_POINTS or values.shape[1] < 2:
        raise UsageError(
            f"{len(values)} vectors of {values.shape[1]} dimensions cannot be projected; give at least {FEWEST_POINTS} "
            "of at least 2."
        )
    if not np.ptp(values, axis=0).any():
        raise UsageError(f"All {len(values):,} vectors are the same; there is nothing to be seen in their projection.")
    perplexity = min(PERPLEXITY, (len(values) - 1) / 3)
    with threadpool_limits(1):
        if values.shape[1] > PCA_DIMENSIONS:
            fewer = min(PCA_DIMENSIONS, len(values))
            values = PCA(fewer, random_state=0).fit_transform(values)
        placed = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(values)
    return np.asarray(placed, np.float32)


def cloud(vectors: Mapping[str, NDArray[Any]], names: Mapping[str, Sequence[str]], seed: int) -> go.Figure:
    """Draw groups of vectors (n, D), each with its name, as points in a plane by t-SNE."""
    groups = [group for group, own in vectors.items() for _ in own]
    labels = [name for group in vectors for name in names[group]]
    kept = draw_points(groups, seed)
    points = project(np.concatenate([*vectors.values()])[kept])
    return vector_map(points, [groups[row] for row in kept], [labels[row] for row in kept], seed)[0]


def separation(vectors: NDArray[Any], groups: Sequence[str], neighbours: int = 10) -> Separation:
    """Measure whether groups of vectors (N, D) lie apart in the full space, in memory that does not grow with N x N."""
    values = _finite(vectors)
    names, labels, sizes = np.unique(np.array(groups), return_inverse=True, return_counts=True)
    count = len(values)
    if len(labels) != count or not 2 <= len(names) < count:
        raise UsageError(
            f"{count:,} vectors with {len(labels):,} labels of {len(names):,} groups cannot be compared; give each its "
            "label, at least two groups, and more vectors than groups."
        )
    if not 1 <= neighbours < count:
        raise UsageError(f"The nearest {neighbours} of {count:,} vectors were asked for; ask for 1 to {count - 1}.")
    chance = float((sizes * (sizes - 1)).sum() / (count * (count - 1)))
    return Separation(_agreement(values, labels, neighbours), chance, _silhouette(values, labels))


def _agreement(values: NDArray[np.float64], labels: NDArray[np.int64], neighbours: int) -> float:
    """Mean share of the nearest that are of the own group; those that are tied at the last place count in part."""
    from sklearn.metrics import pairwise_distances_chunked

    grid = SAME * np.linalg.norm(values, axis=1).max() or 1.0

    def shares(distances: NDArray[np.float64], start: int) -> NDArray[np.float64]:
        rows = np.arange(len(distances))
        steps = np.round(distances / grid)
        steps[rows, start + rows] = np.inf  # nobody is a neighbour of itself
        last = np.partition(steps, neighbours - 1, axis=1)[:, neighbours - 1 : neighbours]
        own = labels[start + rows, None] == labels
        nearer, tied = steps < last, steps == last
        places = neighbours - nearer.sum(axis=1)
        expected = places * (tied & own).sum(axis=1) / tied.sum(axis=1)
        return np.asarray(((nearer & own).sum(axis=1) + expected) / neighbours)

    bands = pairwise_distances_chunked(values, reduce_func=shares, working_memory=BAND_MIB)
    return float(np.concatenate(list(bands)).mean())


def _silhouette(values: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    from sklearn import config_context
    from sklearn.metrics import silhouette_score

    if not np.ptp(values, axis=0).any():  # else rounding would part them
        return 0.0
    with config_context(working_memory=BAND_MIB):
        return float(silhouette_score(values, labels))


def _finite(vectors: NDArray[Any]) -> NDArray[np.float64]:
    values = np.asarray(vectors, np.float64)
    if values.ndim != 2:
        raise UsageError(f"Vectors of the shape {values.shape} cannot be compared; give a table with one a row.")
    if not np.isfinite(values).all():
        raise UsageError(f"Vector {int(np.argwhere(~np.isfinite(values))[0, 0])} has a component that is no number.")
    return values
