"""A clip as a model sees it: its frames, how well a caption fits their patches, the elements that frames attend to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from evenreel.encoders.loading import LoadedEncoder
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import VideoBatch, pretrained_mean_of, to_device, video_batch
from evenreel.matchers.bima import Bima
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.engine.material import CorpusPart, Looking, Model, texts_of
from evenreel.similarity.tiles import device_of, evaluating
from evenreel.types import FloatArray, Pixels, VideoFeatures

FRAMES, HOTTEST, ATTENDED = 4, 3, 10
"""Of a clip: frames that are shown, elements under heat, elements in a map of attention."""
WIDTH_PX = 224
SCORE = "how well the caption fits each patch"


@dataclass(frozen=True, eq=False)
class Heat:
    """Maps of how hot the patches of some frames are, for a caption or a scene element.

    Attributes:
        label: name of what is hot: the caption's score, or a scene element.
        maps: (n, rows, columns) of the n frames, in any unit, the hotter the more.
    """

    label: str
    maps: FloatArray


@dataclass(frozen=True)
class SelectedElement:
    """One scene element that frames attend to: its phrases, and its share of all attention, 0 to 1."""

    phrases: tuple[str, ...]
    share: float

    @property
    def label(self) -> str:
        """Return the share and the phrases, for a heading."""
        return f"{self.share:.0%}: {' + '.join(self.phrases)}"


@dataclass(frozen=True, eq=False)
class Attention:
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
    shown = np.flatnonzero(videos.frame_mask[column])
    shown = shown[_spread(len(shown))]
    times_s = tuple(videos.times_s[column][shown].tolist())
    frames = looking.frames(videos.ids[column], times_s)
    patches = np.concatenate([looking.encoder.encode_patches(_planes(frame)) for frame in frames])
    alone = patches_as_clips(patches, model.part, column)
    scores = matcher_scores(model.matcher, texts_of(model.part.texts, (model.part.texts.ids[row],)), alone)
    heats = [Heat(SCORE, scores.block(slice(0, 1), slice(0, len(alone.ids))).reshape(patches.shape[:3]))]
    attention = attention_of(model.matcher, video, videos.times_s[column])
    for element in () if attention is None else attention.elements[:HOTTEST]:
        heats.append(Heat(element.label, patches @ direction(element, looking.encoder)))
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


def _spread(count: int) -> NDArray[np.int64]:
    """The middles of equal runs of frames, at most `FRAMES`.

    >>> _spread(12).tolist(), _spread(3).tolist()
    ([1, 4, 7, 10], [0, 1, 2])
    """
    shown = min(FRAMES, count)
    places: NDArray[np.int64] = ((np.arange(shown) + 0.5) * count / shown).astype(np.int64)
    return places


def _planes(frame: Pixels) -> Pixels:
    """(H, W, 3) -> (1, 3, H, W)."""
    return np.ascontiguousarray(frame.transpose(2, 0, 1)[None])
