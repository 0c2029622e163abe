"""Towers out of a checked folder: with the classes of transformers or of open_clip, or CLIP's text tower alone."""

from __future__ import annotations

import contextlib
import io
import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from evenreel.encoders.checkpoint import Checkpoint, of_model
from evenreel.encoders.clip_text import ClipTextTower, open_clip_text
from evenreel.encoders.contexts import garbage_left, quiet
from evenreel.encoders.embedders import Embedder
from evenreel.encoders.families import FAMILIES, OPEN_CLIP
from evenreel.encoders.onnx.captions import lower_case
from evenreel.encoders.open_clip_towers import OpenClipTowers, load_open_clip
from evenreel.encoders.pe_video import check_timm, offer_features, seeing_part
from evenreel.encoders.preprocessing import BlockPreprocessing, PatchPreprocessing
from evenreel.encoders.towers import Towers, check_trunk, known_tokens
from evenreel.errors import EncoderError
from evenreel.types import WindowRule


@dataclass(frozen=True)
class TextFirstTowers:
    """A CLIP with only its text tower loaded until a frame is to be encoded; it reads captions as `Towers` do.

    Attributes:
        checkpoint: checkpoint with the rest.
        text: text tower with its tokenizer.
        device, precision: device and precision of both towers.
    """

    checkpoint: Checkpoint
    text: ClipTextTower
    device: torch.device
    precision: str
    masks_padding = True
    window = WindowRule()

    @cached_property
    def whole(self) -> Towers:
        """Return both towers, read when they are first needed."""
        with garbage_left():
            return load_towers(self.checkpoint, self.device, self.precision)

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        return self.text.dimension

    @property
    def longest_caption(self) -> int:
        """W, the most tokens that the text tower takes, its own marks included."""
        return self.text.shape.max_position_embeddings

    def text_features(self, ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode token ids (N, W) and mask to words (N, W, D) and sentence (N, D), of any length."""
        return self.text.features(ids, torch.ones_like(ids) if mask is None else mask)

    def tokens(self, captions: Sequence[str]) -> dict[str, torch.Tensor]:
        """Tokenise captions: ids and mask, (Q, W), padded and cut."""
        return known_tokens(self.text.tokens(captions), self.text.shape.vocab_size, self.checkpoint)

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of captions before they are cut."""
        return self.text.tokenizer.counts(captions)


def open_text_first(checkpoint: Checkpoint, device: torch.device, precision: str) -> TextFirstTowers | None:
    """Load CLIP's text tower alone; None where transformers has to load it, see `evenreel.encoders.clip_text`."""
    text = open_clip_text(checkpoint, device, precision)
    return None if text is None else TextFirstTowers(checkpoint, text, device, precision)


def load_towers(checkpoint: Checkpoint, device: torch.device, precision: str) -> Towers:
    """Load towers with their tokenizer from a checkpoint; nothing but the checked files of its folder is opened."""
    of_open_clip = checkpoint.family == OPEN_CLIP.title
    with quiet(), of_model(checkpoint.folder, "cannot be loaded"):
        try:
            if of_open_clip:
                model, tokenizer = load_open_clip(checkpoint, precision)
            else:
                model = _load_model(checkpoint, precision)
                tokenizer = _load_tokenizer(checkpoint, model.config)
        except ImportError as error:
            needed = str(error).strip().splitlines()[0]
            raise EncoderError(f"The model in {checkpoint.folder} needs a package that is missing: {needed}") from error
    if of_open_clip:
        kind: type[Towers] = OpenClipTowers
    else:
        kind = Embedder if FAMILIES[checkpoint.family].instructions else Towers
    towers = kind(checkpoint, model.to(device).eval().requires_grad_(False), tokenizer, device, precision)
    if towers.family.picture_length:
        towers.check_lengths(operator.attrgetter(towers.family.picture_length)(model.config))
    return towers


def _load_model(checkpoint: Checkpoint, precision: str) -> Any:
    import transformers
    from safetensors.torch import load_file

    family = FAMILIES[checkpoint.family]
    if family.model == "PeVideoModel":
        check_timm(checkpoint.folder)
    config = getattr(transformers, f"{family.classes}Config").from_dict(dict(checkpoint.config))
    model_class = getattr(transformers, family.model or f"{family.classes}Model")
    _check_pictures(checkpoint, config)
    weights = {name: tensor for path in checkpoint.weights for name, tensor in load_file(path).items()}
    if checkpoint.family == "pe_audio_video":
        config, weights = config.video_config, seeing_part(weights)
    elif checkpoint.family == "embedding_gemma2":
        config.audio_config = None  # its sound is not read
    said = io.StringIO() if family.model == "PeVideoModel" else sys.stdout  # it prints what its docstrings lack
    with contextlib.redirect_stdout(said):
        model, report = model_class.from_pretrained(
            None,  # without a name transformers looks for nothing, neither on disk nor in the network
            config=config,
            state_dict=weights,
            dtype=getattr(torch, precision),
            attn_implementation="sdpa" if model_class._supports_sdpa else "eager",
            output_loading_info=True,
        )
    if missing := sorted(report["missing_keys"]):
        raise EncoderError(
            f"The weights in {checkpoint.folder} lack {len(missing)} tensors of the model, {missing[0]} among them."
        )
    if family.model == "PeVideoModel":
        check_trunk(model.video_encoder.embedder.vision_model.timm_model, checkpoint)
        offer_features(model)
    return model


def _check_pictures(checkpoint: Checkpoint, config: Any) -> None:
    """Refuse a processor that makes other pictures than the tower takes."""
    preprocessing = checkpoint.preprocessing
    if isinstance(preprocessing, PatchPreprocessing):
        vision = config.vision_config
        made, taken = f"patches of {preprocessing.patch_side}", f"patches of {vision.patch_size}"
        if isinstance(preprocessing, BlockPreprocessing):
            block = getattr(vision, "pooling_kernel_size", None) or vision.spatial_merge_size
            made, taken = f"{made} in blocks of {preprocessing.block}", f"{taken} in blocks of {block}"
        fits = made == taken
    elif FAMILIES[checkpoint.family].any_size:
        return
    else:
        side = config.vision_config.image_size
        height, width = (side, side) if isinstance(side, int) else side
        made, taken = f"pictures of {preprocessing.output_size}", f"{height} x {width}"
        fits = preprocessing.output_size == (height, width)
    if not fits:
        raise EncoderError(
            f"The processor in {checkpoint.folder} makes {made}, its tower takes {taken}; the files do not belong "
            "together."
        )


def _load_tokenizer(checkpoint: Checkpoint, config: Any) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        checkpoint.folder, config=config, local_files_only=True, trust_remote_code=False
    )
    rules = getattr(tokenizer, "backend_tokenizer", None)
    if FAMILIES[checkpoint.family].lower_cases and rules is not None:
        lower_case(rules)
    return tokenizer
