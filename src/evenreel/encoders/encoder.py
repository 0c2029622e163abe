"""The `Encoder` protocol over loaded towers: batches, memory that runs out, unit rows, nothing that is no number."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch

from evenreel.encoders.batches import HalvingBatches
from evenreel.encoders.checkpoint import NO_TOKENS, of_model
from evenreel.encoders.patches import patch_features, patch_grid
from evenreel.encoders.resizing import prepare
from evenreel.encoders.rows import check_pixels, clean_captions, unit_rows
from evenreel.encoders.tower_loading import TextFirstTowers, load_towers
from evenreel.encoders.towers import Towers
from evenreel.errors import UsageError
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

log = logging.getLogger("evenreel")

Made = TypeVar("Made")

# A GPU that is gone raises AcceleratorError, which torch has since 2.8.
_DEVICE_TROUBLE = (torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError))
_NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"
"""What torch says where the memory of the CPU does not suffice."""


class TowerEncoder:
    """An `evenreel.types.Encoder` over loaded towers.

    Not for two threads at once: it changes its batch size, and its device, when memory runs out.
    """

    def __init__(
        self, towers: Towers | TextFirstTowers, encoder_id: str, weights_hash: str, batch_size: int = 32
    ) -> None:
        self._towers = towers
        self._encoder_id = encoder_id
        self._weights_hash = weights_hash
        self._batches = HalvingBatches(batch_size)

    @property
    def encoder_id(self) -> str:
        """Name to load the encoder by: `builtin`, a hub id with its commit, or a folder."""
        return self._encoder_id

    @property
    def weights_hash(self) -> str:
        """Hex digest over weights, tokenizer and settings."""
        return self._weights_hash

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        return self._towers.dimension

    @property
    def device(self) -> str:
        """Device that it calculates on at present."""
        return str(self._towers.device)

    @property
    def precision(self) -> str:
        """Precision that it calculates in at present: `float32`, `bfloat16` or `float16`."""
        return self._towers.precision

    @property
    def batch_size(self) -> int:
        """Number of frames or captions per batch at present."""
        return self._batches.size

    @property
    def window(self) -> WindowRule:
        """Number of frames that one vector is made of, and over how many seconds they are spread."""
        return self._towers.window

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Encode windows (N, T, 3, H, W) of uint8 RGB frames of any size to (N, D) float32, rows of unit length.

        T is `window.frames`, or 1 for a picture, which is taken for a still video.
        """
        check_pixels(pixels, "(N, T, 3, H, W)")
        frames = self.window.frames
        if pixels.shape[1] not in (1, frames):
            raise UsageError(
                f"The model takes windows of {frames} frames, or single pictures, and these have {pixels.shape[1]}; "
                "where a clip has fewer frames than a window, sample some of them again."
            )

        def features(rows: slice) -> FloatArray:
            return _unit_rows(self._towers.whole.window_features(_tensor(pixels[rows])), "frame")

        parts = self._in_batches(len(pixels), features, frames)
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *parts])

    def encode_patches(self, pixels: Pixels, *, whole: bool = False) -> FloatArray:
        """Encode each patch of (N, 3, H, W) uint8 RGB frames: (N, rows, columns, D) float32 of unit length.

        They lie in the space of captions and of frames, see `evenreel.encoders.patches`.
        """
        check_pixels(pixels, "(N, 3, H, W)")

        def patches(rows: slice) -> FloatArray:
            preprocessing = self._towers.checkpoint.preprocessing
            given = _tensor(pixels[rows]).to(self._towers.device)
            inputs = prepare(given, preprocessing.uncropped if whole else preprocessing)
            features = patch_features(self._towers.whole, inputs)
            return _unit_rows(features.flatten(0, 2), "patch").reshape(features.shape)

        none = np.zeros((0, *patch_grid(self._towers.whole), self.dimension), np.float32)
        return np.concatenate([none, *self._in_batches(len(pixels), patches)])

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the part of a picture that the tower sees, in pixels."""
        return self._towers.checkpoint.preprocessing.seen_box(height, width)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Encode captions to words (Q, W, D) and unit sentences (Q, D); words of padding are zero.

        A caption longer than the tower takes is cut; `truncated` tells which.
        """
        clean = clean_captions(captions)
        if not clean:
            none = np.zeros((0, 0, self.dimension), np.float32)
            return TextEmbedding(none, np.zeros((0, 0), np.bool_), none.reshape(0, self.dimension))
        with of_model(self._towers.checkpoint.folder, NO_TOKENS):
            tokens = self._towers.tokens(clean)
        mask = tokens["attention_mask"].bool().numpy()
        parts = self._in_batches(len(clean), lambda rows: self._text_batch(tokens, rows))
        words = np.concatenate([words for words, _ in parts])
        mask = mask[:, mask.shape[1] - words.shape[1] :]  # an instruction before a caption is none of its words
        words[~mask] = 0.0
        return TextEmbedding(words, mask, np.concatenate([sentence for _, sentence in parts]))

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether it is longer than the text tower takes, so that its end is not read."""
        clean = clean_captions(captions)
        with of_model(self._towers.checkpoint.folder, NO_TOKENS):
            counts = self._towers.token_counts(clean) if clean else []
        return [count > self._towers.longest_caption for count in counts]

    def _text_batch(self, tokens: dict[str, torch.Tensor], rows: slice) -> tuple[FloatArray, FloatArray]:
        mask = tokens["attention_mask"][rows] if self._towers.masks_padding else None
        words, sentence = self._towers.text_features(tokens["input_ids"][rows], mask)
        return words.float().cpu().numpy(), _unit_rows(sentence, "caption")

    def _in_batches(self, count: int, work: Callable[[slice], Made], size: int = 1) -> list[Made]:
        """Do the work on slices of 0 ... count, whose items are of some size, see `HalvingBatches`.

        Where one item is too large for the GPU, or the GPU is lost, it goes on with the CPU.
        """

        def retreating(rows: slice) -> Made:
            try:
                with torch.inference_mode():
                    return work(rows)
            except _DEVICE_TROUBLE as error:
                if self.device == "cpu" or (isinstance(error, torch.OutOfMemoryError) and self._batches.size > 1):
                    raise MemoryError(str(error)) from error
                self._retreat(error)
            except RuntimeError as error:
                if _NO_MEMORY not in str(error):
                    raise
                raise MemoryError(str(error)) from error
            return retreating(rows)

        return self._batches.run(count, retreating, size)

    def _retreat(self, error: Exception) -> None:
        """Go on with the CPU."""
        log.warning("the device %s fails (%s), going on with the CPU", self.device, type(error).__name__)
        # Read anew: out of a lost GPU nothing can be copied.
        precision = "float32" if self._towers.precision == "float16" else self._towers.precision
        self._towers = load_towers(self._towers.checkpoint, torch.device("cpu"), precision)


def _tensor(pixels: Pixels) -> torch.Tensor:
    return torch.from_numpy(np.require(pixels, requirements=["C", "W"]))


def _unit_rows(features: torch.Tensor, what: str) -> FloatArray:
    return unit_rows(features.float().cpu().numpy(), what)
