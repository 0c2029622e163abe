"""Scene elements of clips: the phrases of a dictionary that an encoder finds nearest to each of them (BiMa, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import FeaturesError, UsageError
from evenreel.language.scene_dictionary import SceneDictionary
from evenreel.types import Encoder, FloatArray, VideoFeatures

Share = Callable[[float], None]
Places = NDArray[np.int32]

_BATCH = 128
_AT_ONCE_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class EmbeddedDictionary:
    """A dictionary as the text tower of an encoder reads it.

    Attributes:
        dictionary: the phrases.
        entities: (N_e, D) float32, rows of unit length.
        activities: (N_a, D), likewise.
        encoder_id: whose text tower.
        weights_hash: of that encoder; features of another cannot be compared with it.
    """

    dictionary: SceneDictionary
    entities: FloatArray
    activities: FloatArray
    encoder_id: str
    weights_hash: str

    def __post_init__(self) -> None:
        rows = (len(self.entities), len(self.activities))
        phrases = (len(self.dictionary.entities), len(self.dictionary.activities))
        if rows != phrases or self.entities.shape[1:] != self.activities.shape[1:]:
            raise FeaturesError(
                f"The embeddings of {self.encoder_id} are of {rows[0]:,} entities and {rows[1]:,} activities, and the "
                f"dictionary has {phrases[0]:,} and {phrases[1]:,}; embed the dictionary again."
            )


@dataclass(frozen=True, eq=False)
class TopElements:
    """The phrases nearest to each clip, in descending score; equal scores in the order of the dictionary.

    Attributes:
        clip_ids: V ids.
        entities: (V, k) int32, places in the dictionary; k is what was asked for, or the size of the dictionary.
        entity_scores: (V, k) float32 cosines.
        activities: likewise, of their own k.
        activity_scores: likewise.
    """

    clip_ids: tuple[str, ...]
    entities: Places
    entity_scores: FloatArray
    activities: Places
    activity_scores: FloatArray


def embed(dictionary: SceneDictionary, encoder: Encoder, progress: Share = lambda share: None) -> EmbeddedDictionary:
    """Each phrase by itself through the text tower, its sentence feature kept.

    Args:
        dictionary: the phrases.
        encoder: a frozen one, the same that the clips' features are of.
        progress: called with the share that is done.

    Raises:
        FeaturesError: the encoder gave numbers that are none.
    """
    phrases = (*dictionary.entities, *dictionary.activities)
    rows: list[FloatArray] = []
    for start in range(0, len(phrases), _BATCH):
        batch = phrases[start : start + _BATCH]
        rows.append(np.asarray(encoder.encode_text(batch).sentence, np.float32))
        progress((start + len(batch)) / len(phrases))
    vectors = _unit(np.concatenate(rows), phrases)
    cut = len(dictionary.entities)
    return EmbeddedDictionary(dictionary, vectors[:cut], vectors[cut:], encoder.encoder_id, encoder.weights_hash)


def top_elements(
    videos: VideoFeatures, embedded: EmbeddedDictionary, count: int, progress: Share = lambda share: None
) -> TopElements:
    """The phrases nearest to each clip: by the cosine of the mean of its frames with each phrase.

    Args:
        videos: V clips, with frames by the encoder that embedded the dictionary.
        embedded: the dictionary.
        count: kappa, how many phrases of each kind; the paper takes 20.
        progress: called with the share that is done.

    Raises:
        FeaturesError: the frames have another dimension, or those of a clip cancel out.
        UsageError: `count` is less than 1.
    """
    means = np.empty((len(videos.ids), videos.frames.shape[2]), np.float32)
    step = max(1, _AT_ONCE_BYTES // max(1, 4 * videos.frames.shape[1] * videos.frames.shape[2]))
    for start in range(0, len(means), step):
        part = slice(start, start + step)
        mask = videos.frame_mask[part, :, None]
        means[part] = (videos.frames[part].astype(np.float32) * mask).sum(axis=1) / mask.sum(axis=1)
    return top_of_means(means, embedded, count, videos.ids, progress)


def top_of_means(
    means: FloatArray,
    embedded: EmbeddedDictionary,
    count: int,
    clip_ids: tuple[str, ...] = (),
    progress: Share = lambda share: None,
) -> TopElements:
    """As `top_elements`, of means (V, D) of frames; without ids, clips are called by their row."""
    names = clip_ids or tuple(map(str, range(len(means))))
    if count < 1:
        raise UsageError(f"The number of scene elements is {count}; it must be 1 or more.")
    if means.shape[1] != embedded.entities.shape[1]:
        raise FeaturesError(
            f"The clips have features of {means.shape[1]:,} numbers and the dictionary of "
            f"{embedded.entities.shape[1]:,}; take features and dictionary by one encoder."
        )
    unit = _unit(means, names)
    entities, entity_scores = _nearest(unit, embedded.entities, count, lambda share: progress(share / 2))
    activities, activity_scores = _nearest(unit, embedded.activities, count, lambda share: progress((1 + share) / 2))
    return TopElements(names, entities, entity_scores, activities, activity_scores)


def _nearest(rows: FloatArray, phrases: FloatArray, count: int, progress: Share) -> tuple[Places, FloatArray]:
    """Places and cosines of the nearest phrases, some rows at a time."""
    kept = min(count, len(phrases))
    places, scores = np.empty((len(rows), kept), np.int32), np.empty((len(rows), kept), np.float32)
    step = max(1, _AT_ONCE_BYTES // max(1, 16 * len(phrases)))  # a score and its place in the order of scores
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        cosines = rows[part] @ phrases.T
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :kept]
        places[part], scores[part] = order, np.take_along_axis(cosines, order, axis=1)
        progress(min(1.0, (start + step) / len(rows)))
    return places, scores


def _unit(rows: NDArray[Any], names: tuple[str, ...]) -> FloatArray:
    """Rows of unit length.

    Raises:
        FeaturesError: a row has no direction.
    """
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if len(bad := np.flatnonzero(~(norms[:, 0] > 0) | ~np.isfinite(norms[:, 0]))):
        raise FeaturesError(
            f"The features of {names[bad[0]][:80]!r} have no direction (a length of {norms[bad[0], 0]:g}); leave it "
            "out, or compute them again."
        )
    return np.asarray(rows / norms, np.float32)
