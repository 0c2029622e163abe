"""Figures 1 and 6 of BiMa (arXiv 2506.03589): what clips look like to a model, and the elements that it attends to.

The paper does not say what its heat is of. Here there are two kinds, with patches as the towers of the features see
them (`evenreel.encoders.towers`). The heat of a caption is the score that the model gives it with a clip that shows
one patch and nothing else; it goes through all that a matcher does, so that it can be drawn for any. The heat of an
element is the cosine of patches and its phrases.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import UsageError
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import VideoBatch, pretrained_mean_of, to_device, video_batch
from evenreel.matchers.bima.matcher import Bima
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.engine import Cells, finding
from evenreel.papers.shown import (
    GAP,
    TITLE_LETTERS,
    add_borders,
    add_frames,
    alike,
    answer,
    asked,
    aspect_of,
    axes_of,
    chosen,
    jpeg,
    middles,
    shares_first,
    shown_notices,
)
from evenreel.papers.study import StudySettings, paragraph, paragraphs
from evenreel.papers.workspace import CorpusPart, Looking, Model, Workspace, texts_of
from evenreel.progress import Progress
from evenreel.report.figures import COLOURS, axes, faded, name_label, panels, plain
from evenreel.report.result import AuditFigure, AuditResult, AuditTable
from evenreel.similarity.tiles import device_of, evaluating
from evenreel.types import FloatArray, Pixels, ScoreBlocks, VideoFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go

FRAMES, HOTTEST, ATTENDED = 4, 3, 10
"""Of a clip: frames that are shown, elements under heat, elements in a map of attention."""
WIDTH_PX = 224
SCORE = "how well the caption fits each patch"


# the study ------------------------------------------------------------------------------------------------------------


def maps(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figures 1 and 6 of BiMa: heat on frames for captions, and the attention of frames to scene elements."""
    models, looking = alike(material.encoders()), material.pictures()
    rankings = {model.name: model.part.scores(model.matcher) for model in models}
    views = _views(models, rankings, settings)
    ranks: dict[str, list[int]] = {model.name: [] for model in models}
    rows: list[Cells] = []
    figures: list[AuditFigure] = []
    for caption, clip in views:
        for model in models:
            part, said = model.part, answer(model, rankings[model.name], caption)
            column = said.first[0] if clip is None else part.videos.ids.index(clip)
            found, text = look(model, caption, column, looking), part.corpus.captions["text"][caption]
            right = column == said.own
            elements = () if found.attention is None else found.attention.elements[:HOTTEST]
            is_right = "right" if right else "wrong"
            rows.append(
                {
                    "system": model.name, "caption": text, "clip shown": part.videos.ids[column], "it is": is_right,
                    "elements": "; ".join(" + ".join(one.phrases) for one in elements) or None,
                    "rank of the right clip": said.rank,
                }
            )  # fmt: skip
            title = f"{model.name}: {text!r}, clip {part.videos.ids[column]}"
            strip = partial(heat_strip, found, right=right)
            figures.append(AuditFigure(f"{title} ({is_right})", strip, paragraph("bima", "Strips of frames")))
            if found.attention is not None:
                figures.append(AuditFigure(f"{title}: attention", partial(attention_map, found.attention)))
            ranks[model.name].append(said.rank)
            progress(len(rows) / (len(views) * len(models)))
    picked = not settings.queries and not settings.clips and len(models) > 1
    told, effect = shares_first(ranks)
    return finding(
        told,
        effect,
        (AuditTable.of("What is shown", rows),),
        tuple(figures),
        shown_notices(chosen=picked),
        paragraphs("bima", "Heat"),
    )


def _views(
    models: Sequence[Model], rankings: Mapping[str, ScoreBlocks], settings: StudySettings
) -> list[tuple[int, str | None]]:
    """Rows of captions with the clip that is shown (None: what each system finds first): what the user asks for."""
    rows = asked(models[0].part.corpus, settings.queries)
    if not settings.clips:
        return [(row, None) for row in rows or chosen(models, rankings)]
    own = {clip: row for row, clip in reversed(list(enumerate(models[0].part.corpus.captions["clip_id"])))}
    if strange := [one for one in settings.clips if one not in own]:
        raise UsageError(f"The split has no clip {strange[0]!r} with a caption and features; --clip takes ids.")
    return [(row, clip) for clip in settings.clips for row in rows or [own[clip]]]


# what a model sees ----------------------------------------------------------------------------------------------------


class Heat(NamedTuple):
    """How hot the patches of n frames are, (n, rows, columns), in any unit, for a caption or a scene element."""

    label: str
    maps: FloatArray


class SelectedElement(NamedTuple):
    """One scene element that frames attend to: its phrases, and its share of all attention, 0 to 1."""

    phrases: tuple[str, ...]
    share: float


class Attention(NamedTuple):
    """How much each frame of a clip attends to the scene elements of the clip.

    Attributes:
        elements: E of them, the most attended first.
        times_s: (T,) times of the frames in the clip.
        weights: (T, E) share of each frame's attention, 0 to 1.
    """

    elements: tuple[SelectedElement, ...]
    times_s: NDArray[np.float64]
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class ElementLook:
    """What a model sees of a clip beside a caption: frames, their heat and the scene elements they attend to.

    Attributes:
        pictures: n frames, the part that the towers see, (h, w, 3) of one size.
        times_s: times of these frames in the clip.
        heats: heat of the caption's score first, then of scene elements.
        attention: attention of all frames to the clip's scene elements; None for a model that has no such attention.
    """

    pictures: tuple[Pixels, ...]
    times_s: tuple[float, ...]
    heats: tuple[Heat, ...]
    attention: Attention | None


def look(model: Model, row: int, column: int, looking: Looking) -> ElementLook:
    """Compute what a model sees of one clip beside one caption: heat of the caption's score, and of scene elements.

    Args:
        model: model with features of the captions and clips. Any matcher has the heat of its score; scene elements and
            attention to them come of the matcher `bima` alone, an adapted one included.
        row: index of the caption in the model's features.
        column: index of the clip in the model's features.
        looking: reader of the clips' frames, and the towers that the features were made with.
    """
    videos = model.part.videos
    video = to_device(video_batch(videos, slice(column, column + 1)), device_of(model.matcher))
    places = np.flatnonzero(videos.frame_mask[column])
    count = min(FRAMES, len(places))  # the middles of equal runs of frames
    places = places[((np.arange(count) + 0.5) * len(places) / count).astype(np.int64)]
    times_s = tuple(videos.times_s[column][places].tolist())
    frames = looking.frames(videos.ids[column], times_s)
    planes = (np.ascontiguousarray(frame.transpose(2, 0, 1)[None]) for frame in frames)
    patches = np.concatenate([looking.encoder.encode_patches(one) for one in planes])
    alone = patches_as_clips(patches, model.part, column)
    scores = matcher_scores(model.matcher, texts_of(model.part.texts, (model.part.texts.ids[row],)), alone)
    heats = [Heat(SCORE, scores.block(slice(0, 1), slice(0, len(alone.ids))).reshape(patches.shape[:3]))]
    attention = attention_of(model.matcher, video, videos.times_s[column])
    for element in () if attention is None else attention.elements[:HOTTEST]:
        label = f"{element.share:.0%}: {' + '.join(element.phrases)}"
        heats.append(Heat(label, patches @ direction(element, looking.encoder)))
    return ElementLook(seen_parts(frames, looking.encoder), times_s, tuple(heats), attention)


def patches_as_clips(patches: FloatArray, part: CorpusPart, column: int) -> VideoFeatures:
    """Turn each patch of a clip's frames into a clip of one frame, with all else that its clip has.

    Args:
        patches: (n, rows, columns, D) vectors of the patches of n frames.
        part: features of the clips, of which this is one.
        column: place of the clip among them.
    """
    videos, count = part.videos, patches[..., 0].size
    mean = pretrained_mean_of(video_batch(videos, slice(column, column + 1))).numpy()
    return VideoFeatures(
        tuple(str(number) for number in range(count)),
        patches.reshape(count, 1, -1),
        np.ones((count, 1), np.bool_),
        np.zeros((count, 1)),
        None if videos.on_screen is None else videos.on_screen.mapped(lambda array: array[[column] * count]),
        mean.repeat(count, axis=0),
    )


def attention_of(matcher: Matcher, video: VideoBatch, times_s: NDArray[np.float64]) -> Attention | None:
    """Return what the frames of one clip attend to, most attended elements first; None for a model without elements.

    Args:
        matcher: a `Bima`, perhaps in an adapter; any other has no scene elements.
        video: the clip alone, a batch of one.
        times_s: (T,) moments of its frames in seconds.
    """
    if isinstance(matcher, Adapted):
        with torch.no_grad(), evaluating(matcher):
            video = matcher.adapt_video(video)
        return attention_of(matcher.matcher, video, times_s)
    if not isinstance(matcher, Bima) or matcher.scene is None:
        return None
    with torch.no_grad(), evaluating(matcher):
        found = matcher.attention(video)
    real = video.frame_mask[0].cpu().numpy()[: len(times_s)]
    weights = found.weights[0].cpu().numpy()[: len(real)][real]
    shares = weights.mean(axis=0)
    most = np.argsort(-shares, kind="stable")[:ATTENDED]
    named = ((matcher.settings.activities, found.activity_places), (matcher.settings.entities, found.entity_places))
    kinds = [(phrases, places[0].tolist()) for phrases, places in named if places.shape[1]]
    elements = (
        SelectedElement(tuple(phrases[places[one]] for phrases, places in kinds), float(shares[one]))
        for one in most.tolist()
    )
    return Attention(tuple(elements), times_s[: len(real)][real], weights[:, most])


def direction(element: SelectedElement, encoder: LoadedEncoder) -> FloatArray:
    """Return the unit vector (D,) in the middle between the phrases of a scene element."""
    vector = encoder.encode_text(element.phrases).sentence.sum(axis=0)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def seen_parts(frames: list[Pixels], encoder: LoadedEncoder) -> tuple[Pixels, ...]:
    """Return the part of each frame that the towers see, all in the size of the first, `WIDTH_PX` wide."""
    from PIL import Image

    height, width = frames[0].shape[:2]
    left, top, right, bottom = encoder.seen_box(height, width)
    size = WIDTH_PX, max(1, round(WIDTH_PX * (bottom - top) / (right - left)))
    boxes = (encoder.seen_box(*frame.shape[:2]) for frame in frames)
    return tuple(
        np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BICUBIC, box))
        for frame, box in zip(frames, boxes, strict=True)
    )


# how it is drawn ------------------------------------------------------------------------------------------------------

_HEAT = [[0, "rgba(255,196,0,0)"], [0.5, "rgba(255,140,0,0.45)"], [1, "rgba(190,0,30,0.8)"]]
_TITLE, _LABEL = 60, 56
"""Letters of the title of a row of frames, and of the label of an element."""


def displayed(maps: FloatArray) -> FloatArray:
    """Scale maps of heat for display: 0 up to their median, 1 at the hottest patch, in proportion between.

    >>> displayed(np.array([[[0.0, 2.0], [4.0, 5.0]]], np.float32)).tolist()
    [[[0.0, 0.0], [0.5, 1.0]]]
    """
    middle, hottest = float(np.median(maps)), float(maps.max())
    if hottest <= middle:
        return np.zeros_like(maps)
    return np.asarray(np.clip((maps - middle) / (hottest - middle), 0.0, 1.0), np.float32)


def heat_strip(look: ElementLook, *, right: bool) -> go.Figure:
    """Draw the frames of a clip, in a border that says whether it is the right one, and again under each heat."""
    import plotly.graph_objects as go

    titles = [f"the clip ({'right' if right else 'wrong'})", *(heat.label for heat in look.heats)]
    shown = [textwrap.shorten(title, _TITLE, placeholder=" ...") for title in titles]
    figure = go.Figure(layout=panels(shown, "", [""] * len(titles), columns=1))
    figure.update_layout(showlegend=False, grid={"ygap": 0.25})
    sources, aspect, count = [jpeg(one) for one in look.pictures], aspect_of(look.pictures[0]), len(look.times_s)
    for number in range(1, len(titles) + 1):
        add_frames(figure, sources, look.times_s, aspect, number)
    add_borders(figure, count, aspect, 1, right=right)
    figure.add_scatter(  # points without colour say when each frame is, and make images a chart
        x=middles(count), y=[aspect / 2] * count, mode="markers", marker_opacity=0, customdata=look.times_s,
        hovertemplate="at %{customdata:.2f} s<extra></extra>",
    )  # fmt: skip
    for number, heat in enumerate(look.heats, start=2):
        _, rows, columns = heat.maps.shape  # a cell a patch; between frames lies one without a value
        edges = [place * (1 + GAP) + column / columns for place in range(count) for column in range(columns + 1)]
        figure.add_heatmap(
            z=_beside(displayed(heat.maps)), customdata=_beside(heat.maps), x=edges, y=np.linspace(0, aspect, rows + 1),
            zmin=0, zmax=1, colorscale=_HEAT, showscale=False, hoverongaps=False,
            hovertemplate="%{customdata:.3g}<extra></extra>", **axes_of(number),
        )  # fmt: skip
    return figure


def _beside(maps: FloatArray) -> NDArray[np.float64]:
    """(n, rows, columns) -> (rows, n columns + n - 1), NaN between the frames."""
    count, rows, columns = maps.shape
    wide = np.full((rows, count, columns + 1), np.nan)
    wide[:, :, :columns] = maps.transpose(1, 0, 2)
    return wide.reshape(rows, -1)[:, :-1]


def attention_map(attention: Attention) -> go.Figure:
    """Draw attention: frames across, elements downwards; the darker, the more a frame attends to one."""
    import plotly.graph_objects as go

    figure = go.Figure(layout=axes("time in the clip, s", ""))
    places, count = np.arange(len(attention.elements)), len(attention.times_s)
    labels = [" + ".join(element.phrases) for element in attention.elements]
    figure.add_heatmap(
        z=100 * attention.weights.T, x=np.arange(count), y=places, customdata=[[plain(one)] * count for one in labels],
        colorscale=[[0, faded(COLOURS[0])], [1, "#0b3d75"]], zmin=0,
        colorbar={"title": {"text": "attention, %", "side": "right"}, "thickness": 10},
        hovertemplate="%{customdata}<br>%{z:.1f} %<extra></extra>",
    )  # fmt: skip
    words = [name_label(textwrap.shorten(one, _LABEL, placeholder=" ..."), TITLE_LETTERS) for one in labels]
    quiet = {"showgrid": False, "zeroline": False, "ticks": ""}
    figure.update_yaxes(tickvals=places, ticktext=words, autorange="reversed", tickfont_size=12, **quiet)
    times = [f"{time_s:.1f}" for time_s in attention.times_s]
    return figure.update_xaxes(tickvals=np.arange(count), ticktext=times, **quiet)
