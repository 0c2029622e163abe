"""Backgrounds and subjects of frames masked and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from evenreel.edits.settings import RemovalSettings
from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import MediaError, UsageError
from evenreel.language.tokens import Tagger
from evenreel.language.wording import content_phrases
from evenreel.types import Corpus, FloatArray, Pixels

# Masking of things in frames: patches that show a thing are painted over, or as many elsewhere as a control.
#
# The colour is the mean of the rest of the frame. Blurring would keep the colour of the thing, and the mean of the
# whole frame a part of it. A flat patch with sharp edges looks unnatural in itself, so an effect is only to be read
# beside that of the control.

PatchMask = NDArray[np.bool_]
"""(T, rows, columns) of patches of whole frames, see `TowerEncoder.encode_patches`; True = painted over."""


_FRAMES = 64
"""A frame's patches take up to 2 MB."""


@dataclass(frozen=True)
class MaskSettings:
    """Settings of choosing the patches of frames that show a thing.

    Attributes:
        share: largest share of a clip's patches that is painted over: the best fitting ones, in any of its frames.
        others: phrases for what stays; a patch that one of these fits at least as well stays too. Fit is a cosine less
            its mean over the clip, since some phrases fit everything better than others do.
    """

    share: float = 0.25
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UsageError(f"The share of patches to paint over is {self.share}; it is above 0 and at most 1.")


def remove(
    pixels: Pixels, encoder: LoadedEncoder, phrases: Sequence[str], settings: MaskSettings | None = None
) -> Pixels:
    """Paint over the patches of a clip's frames that show what some phrases name, as an encoder finds them.

    Args:
        pixels: (T, 3, H, W) uint8 RGB, frames of one clip.
        encoder: encoder whose towers find the patches.
        phrases: phrases such as `a brown dog`; the one that fits a patch best counts.
        settings: share of the patches, and phrases of what stays.

    Returns:
        (T, 3, H, W) uint8 frames with painted patches.
    """
    return paint_over(pixels, patches_of(pixels, encoder, phrases, settings))


def without_motion(pixels: Pixels) -> Pixels:
    """Replace every frame of a clip (T, 3, H, W) by the middle one."""
    return np.repeat(pixels[(len(pixels) - 1) // 2 :][:1], len(pixels), axis=0)


def patches_of(
    pixels: Pixels, encoder: LoadedEncoder, phrases: Sequence[str], settings: MaskSettings | None = None
) -> PatchMask:
    """Find the patches (T, rows, columns) of a clip's frames that show what some phrases name.

    Args:
        pixels: (T, 3, H, W) uint8 RGB, frames of one clip.
        encoder: encoder whose towers find the patches.
        phrases: phrases such as `a brown dog`; the one that fits a patch best counts.
        settings: share of the patches, and phrases of what stays.
    """
    if not phrases:
        raise UsageError("Name at least one thing to take out of the frames.")
    settings = settings or MaskSettings()
    fit = patch_cosines(pixels, encoder, (*phrases, *settings.others))
    wanted, others = fit[..., : len(phrases)], fit[..., len(phrases) :]
    if not settings.others:
        return best_patches(wanted.max(axis=-1), settings.share)
    margin = above_mean(wanted) - above_mean(others)
    return best_patches(margin, settings.share) & (margin > 0)


def patch_cosines(pixels: Pixels, encoder: LoadedEncoder, phrases: Sequence[str]) -> FloatArray:
    """Compute the cosines (T, rows, columns, K) of the patches of T frames (T, 3, H, W) with K phrases."""
    vectors = encoder.encode_text(phrases).sentence
    bands = (pixels[start : start + _FRAMES] for start in range(0, len(pixels), _FRAMES))
    return np.concatenate([encoder.encode_patches(band, whole=True) @ vectors.T for band in bands])


def above_mean(cosines: FloatArray) -> FloatArray:
    """Compute how well each patch fits the best of K phrases: cosines less each phrase's mean over the clip."""
    nearest: FloatArray = (cosines - cosines.mean(axis=(0, 1, 2))).max(axis=-1)
    return nearest


def best_patches(fit: FloatArray, share: float) -> PatchMask:
    """Select the share of a clip's patches that fit best, at least one; of equal ones the first.

    >>> best_patches(np.array([[[0.1, 0.9], [0.5, 0.5]]], np.float32), share=0.5).tolist()
    [[[False, True], [True, False]]]
    """
    count = max(1, round(share * fit.size))
    mask = np.zeros(fit.size, np.bool_)
    mask[np.argsort(-fit.ravel(), kind="stable")[:count]] = True
    return mask.reshape(fit.shape)


def shifted(mask: PatchMask, seed: int) -> PatchMask:
    """Shift a mask of patches to a random other place, as a control: as many patches of every frame, in the same shape.

    All frames are shifted alike, and patches that leave on one side come in on the other. Patches drawn one by one
    would be scattered over the frame, and a hole in one piece harms less, or more, than as many small ones.
    """
    rows, columns = mask.shape[1:]
    if rows * columns == 1:
        return mask
    down, across = divmod(int(np.random.default_rng(seed).integers(1, rows * columns)), columns)
    return np.roll(mask, (down, across), axis=(1, 2))


def paint_over(pixels: Pixels, mask: PatchMask) -> Pixels:
    """Paint patches of frames in the mean colour of the rest of each; of the whole frame where no rest is.

    Args:
        pixels: (T, 3, H, W) uint8 frames.
        mask: (T, rows, columns) True for patches to paint; together patches cover the frames.

    Returns:
        (T, 3, H, W) uint8.
    """
    if pixels.ndim != 4 or len(pixels) != len(mask):
        raise UsageError(f"{len(pixels)} frames (T, 3, H, W) need as many masks of their patches, not {len(mask)}.")
    (height, width), (rows, columns) = pixels.shape[2:], mask.shape[1:]
    down, across = _patch_at(height, rows), _patch_at(width, columns)
    painted = pixels.copy()
    for frame, patches in zip(painted, mask, strict=True):
        gone = patches[down[:, None], across]
        left = frame if gone.all() else frame[:, ~gone]
        frame[:, gone] = np.rint(left.reshape(3, -1).mean(axis=1)).astype(np.uint8)[:, None]
    return painted


def _patch_at(pixels: int, patches: int) -> NDArray[np.int64]:
    """Return, along one side, the patch that the middle of each pixel lies in."""
    return (2 * np.arange(pixels) + 1) * patches // (2 * pixels)


# Removal of the background, of the things that captions name, or of the motion from clips.
#
# An encoder has to find where a thing is, patch by patch (`evenreel.edits.removal`), so what is removed is a guess. A
# control paints over as many patches elsewhere.


class Removal:
    """Edit that removes the background, things or the motion from clips (`evenreel.edits.clips.ClipEdit`)."""

    def __init__(
        self, encoder: LoadedEncoder | None, things: Mapping[str, Sequence[str]], settings: RemovalSettings
    ) -> None:
        if encoder is None and settings.removed != "motion":
            raise UsageError(f"To take the {settings.removed} out of clips an encoder has to find it; give one.")
        self._encoder, self._things, self._settings = encoder, things, settings

    @property
    def described(self) -> dict[str, Any]:
        """Return what identifies the edit and is the same for all clips, ready for JSON."""
        weights = None if self._encoder is None else self._encoder.weights_hash
        return {**asdict(self._settings), "weights": weights}

    def described_of(self, clip_id: str) -> list[str]:
        """Return what identifies the edit of one clip beyond `described`, such as its phrases."""
        return [*self._things.get(clip_id, ())]

    def __call__(self, clip_id: str, pixels: Pixels) -> Pixels:
        """Remove one thing from a clip's frames (T, 3, H, W)."""
        settings, encoder = self._settings, self._encoder
        if encoder is None or settings.removed == "motion":
            return pixels if settings.control else without_motion(pixels)
        wanted, others = tuple(self._things.get(clip_id, ())), settings.places
        if settings.removed == "background":
            wanted, others = others, wanted
        if not wanted:
            raise MediaError("failed", "its captions name no thing that could be taken out")
        mask = patches_of(pixels, encoder, wanted, MaskSettings(settings.share, others))
        if settings.control:
            mask = shifted(mask, crc32(f"{settings.seed} {clip_id}".encode()))
        return paint_over(pixels, mask)

    def edit_sound(self, clip_id: str, sound: FloatArray) -> FloatArray:
        """Return the sound (N,) of a clip, which stays as it is."""
        return sound


def caption_entities(corpus: Corpus, tagger: Tagger) -> dict[str, tuple[str, ...]]:
    """Return the entities that the captions of each clip name, by clip id, without articles, each once."""
    texts = corpus.captions["text"].to_list()
    found: dict[str, dict[str, None]] = {}
    for clip, tokens in zip(corpus.captions["clip_id"], tagger.tag(texts), strict=True):
        named = found.setdefault(clip, {})
        named |= {one.text: None for one in content_phrases(tokens) if one.kind == "entity"}
    return {clip: tuple(named) for clip, named in found.items()}
