"""Removal of the background, of the things that captions name, or of the motion from clips.

An encoder has to find where a thing is, patch by patch (`evenreel.edits.masking`), so what is removed is a guess. A
control paints over as many patches elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from zlib import crc32

from evenreel.edits.masking import MaskSettings, paint_over, patches_of, shifted, without_motion
from evenreel.edits.settings import RemovalSettings
from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import MediaError, UsageError
from evenreel.language.tokens import Tagger
from evenreel.language.wording import content_phrases
from evenreel.types import Corpus, FloatArray, Pixels


class Removal:
    """Edit that removes the background, things or the motion from clips (`evenreel.edits.edited_clips.ClipEdit`).

    Args:
        encoder: encoder whose towers find the patches to remove; None for motion, which needs none.
        things: phrases for the things that a clip's captions name, by clip id, see `caption_entities`.
        settings: what is removed, and how much.

    Raises:
        UsageError: an encoder is missing.
    """

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
