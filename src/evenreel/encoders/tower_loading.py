"""Towers out of a checked folder through the Auto classes of transformers, or open_clip's own, and the encoder on them."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from evenreel.encoders.checkpoint import Checkpoint, of_model
from evenreel.encoders.contexts import quiet
from evenreel.encoders.embedders import Embedder
from evenreel.encoders.encoder import BatchedEncoder, TokenArray, check_pixels, lower_case, unit_rows
from evenreel.encoders.families import OPEN_CLIP
from evenreel.encoders.open_clip_towers import OpenClipTowers, load_open_clip
from evenreel.encoders.patches import patch_features, patch_grid
from evenreel.encoders.towers import Towers
from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels, WindowRule

log = logging.getLogger("evenreel")

Made = TypeVar("Made")

# A GPU that is gone raises AcceleratorError, which torch has since 2.8.
_DEVICE_TROUBLE = (torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError))
_NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"
"""What torch says where the memory of the CPU does not suffice."""


def load_towers(checkpoint: Checkpoint, device: torch.device, precision: str) -> Towers:
    """Load towers with their tokenizer from a checkpoint; nothing but the checked files of its folder is opened."""
    kind: type[Towers] = Embedder if checkpoint.family.instructions else Towers
    with quiet(), of_model(checkpoint.folder, "cannot be loaded"):
        try:
            if checkpoint.family is OPEN_CLIP:
                kind, (model, tokenizer, processor) = OpenClipTowers, load_open_clip(checkpoint, precision)
            else:
                model = _load_model(checkpoint, precision)
                tokenizer, processor = _load_processors(checkpoint, model.config)
        except ImportError as error:
            needed = str(error).strip().splitlines()[0]
            raise EncoderError(f"The model in {checkpoint.folder} needs a package that is missing: {needed}") from error
    model = model.to(device).eval().requires_grad_(False)
    towers = kind(checkpoint, model, tokenizer, processor, device, precision)
    if towers.family.picture_length:
        towers.check_lengths(operator.attrgetter(towers.family.picture_length)(model.config))
    return towers


def _load_model(checkpoint: Checkpoint, precision: str) -> Any:
    from safetensors.torch import load_file
    from transformers import CONFIG_MAPPING, MODEL_MAPPING

    config = CONFIG_MAPPING[checkpoint.kind].from_dict(dict(checkpoint.config))
    if checkpoint.preprocessing and not checkpoint.family.any_size:
        side, made = config.vision_config.image_size, checkpoint.preprocessing.output_size
        height, width = (side, side) if isinstance(side, int) else side
        if made != (height, width):
            raise EncoderError(
                f"The processor in {checkpoint.folder} makes pictures of {made}, its tower takes {height} x {width}; "
                "the files do not belong together."
            )
    if getattr(config, "audio_config", None):
        config.audio_config = None  # an embedder's sound is not read
    model, report = MODEL_MAPPING[type(config)].from_pretrained(
        None,  # without a name transformers looks for nothing, neither on disk nor in the network
        config=config,
        state_dict={name: tensor for path in checkpoint.weights for name, tensor in load_file(path).items()},
        dtype=getattr(torch, precision),
        output_loading_info=True,
    )
    if missing := sorted(report["missing_keys"]):
        raise EncoderError(
            f"The weights in {checkpoint.folder} lack {len(missing)} tensors of the model, {missing[0]} among them."
        )
    return model


def _load_processors(checkpoint: Checkpoint, config: Any) -> tuple[Any, Any]:
    from transformers import AutoImageProcessor, AutoTokenizer

    alone: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder, config=config, **alone)
    rules = getattr(tokenizer, "backend_tokenizer", None)
    if checkpoint.family.lower_cases and rules is not None:
        lower_case(rules)
    if checkpoint.preprocessing is not None:
        return tokenizer, None
    return tokenizer, AutoImageProcessor.from_pretrained(checkpoint.folder, config=config, backend="pil", **alone)


class TowerEncoder(BatchedEncoder):
    """An `evenreel.types.Encoder` over loaded towers.

    Not for two threads at once: it changes its batch size, and its device, when memory runs out.
    """

    def __init__(self, towers: Towers, encoder_id: str, weights_hash: str, batch_size: int = 32) -> None:
        super().__init__(towers.checkpoint.folder, encoder_id, weights_hash, batch_size)
        self._towers = towers

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

    @cached_property
    def window(self) -> WindowRule:  # type: ignore[override]
        """Number of frames that one vector is made of, and over how many seconds they are spread."""
        return self._towers.window

    def encode_patches(self, pixels: Pixels, *, whole: bool = False) -> FloatArray:
        """Encode each patch of (N, 3, H, W) uint8 RGB frames: (N, rows, columns, D) float32 of unit length.

        They lie in the space of captions and of frames, see `evenreel.encoders.patches`.

        Args:
            pixels: frames.
            whole: squeeze whole frames into the size of the tower, instead of cutting them as its processor does.
        """
        check_pixels(pixels, "(N, 3, H, W)")
        grid, how = patch_grid(self._towers.checkpoint.kind, self._towers.model), self._towers.preprocessing
        prepare = (how.uncropped if whole else how).prepare

        def patches(rows: slice) -> FloatArray:
            inputs = self._towers.placed({"": torch.from_numpy(prepare(pixels[rows]))})[""]
            features = patch_features(self._towers.checkpoint.kind, self._towers.model, inputs)
            return _unit_rows(features.flatten(0, 2), "patch").reshape(features.shape)

        return np.concatenate([np.zeros((0, *grid, self.dimension), np.float32), *self._in_batches(len(pixels), patches)])

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the part of a picture that the tower sees, in pixels."""
        return self._towers.preprocessing.seen_box(height, width)

    def _window_features(self, pixels: Pixels) -> FloatArray:
        return _array(self._towers.window_features(pixels))

    def _text_features(self, ids: TokenArray, mask: TokenArray) -> tuple[FloatArray, FloatArray | None]:
        given = torch.from_numpy(mask) if self._towers.masks_padding else None
        words, sentence = self._towers.text_features(torch.from_numpy(ids), given)
        return _array(sentence), _array(words)

    def _tokens(self, captions: Sequence[str]) -> tuple[TokenArray, TokenArray]:
        found = self._towers.tokens(captions)
        return found["input_ids"].numpy(), found["attention_mask"].numpy()

    def _cut(self, captions: Sequence[str]) -> list[bool]:
        return [count > self._towers.longest_caption for count in self._towers.token_counts(captions)]

    def _in_batches(self, count: int, work: Callable[[slice], Made], item: int = 1) -> list[Made]:
        """Do the work in batches; where one item is too large for the GPU, or the GPU is lost, on the CPU."""

        def retreating(rows: slice) -> Made:
            try:
                with torch.inference_mode():
                    return work(rows)
            except _DEVICE_TROUBLE as error:
                if self.device == "cpu" or (isinstance(error, torch.OutOfMemoryError) and self.batch_size > 1):
                    raise MemoryError(str(error)) from error
                log.warning("the device %s fails (%s), going on with the CPU", self.device, type(error).__name__)
            except RuntimeError as error:
                if _NO_MEMORY not in str(error):
                    raise
                raise MemoryError(str(error)) from error
            # Read anew: out of a lost GPU nothing can be copied.
            precision = "float32" if self._towers.precision == "float16" else self._towers.precision
            self._towers = load_towers(self._towers.checkpoint, torch.device("cpu"), precision)
            return retreating(rows)

        return super()._in_batches(count, retreating, item)


def _array(features: torch.Tensor) -> FloatArray:
    return features.float().cpu().numpy()


def _unit_rows(features: torch.Tensor, what: str) -> FloatArray:
    return unit_rows(_array(features), what)
