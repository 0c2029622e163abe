"""A loaded model: two towers and a tokenizer of transformers, read from checked files only."""

from __future__ import annotations

import contextlib
import io
import logging
import operator
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from evenreel.encoders.checkpoint import Checkpoint
from evenreel.encoders.clip_text import ClipTextTower, open_clip_text
from evenreel.encoders.families import FAMILIES, OPEN_CLIP, Family
from evenreel.encoders.garbage import garbage_left
from evenreel.encoders.onnx.captions import lower_case
from evenreel.encoders.pe_video import check_timm, offer_features, seeing_part
from evenreel.encoders.preprocessing import BlockPreprocessing, PatchPreprocessing
from evenreel.encoders.resizing import prepare
from evenreel.errors import EncoderError, UsageError
from evenreel.types import WindowRule

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class Towers:
    """A loaded model: both towers, tokenizer and preprocessing."""

    checkpoint: Checkpoint
    model: Any
    tokenizer: Any
    device: torch.device
    precision: str

    @property
    def whole(self) -> Towers:
        """Return the towers themselves, as `TextFirstTowers.whole` does."""
        return self

    @property
    def family(self) -> Family:
        """Return the kind of model that it is."""
        return FAMILIES[self.checkpoint.family]

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        head = self._word_head
        return int(getattr(head, "out_features", self.model.config.text_config.hidden_size))

    @property
    def longest_caption(self) -> int:
        """W, the most tokens that the text tower takes, its own marks included."""
        positions = int(self.model.config.text_config.max_position_embeddings) - self.family.first_position
        return min(positions, self.family.longest or positions)

    @property
    def _word_head(self) -> Any | None:
        return operator.attrgetter(self.family.word_head)(self.model) if self.family.word_head else None

    @property
    def masks_padding(self) -> bool:
        """True if the text tower gets a mask of padding; SigLIP was trained without."""
        return "attention_mask" in self.tokenizer.model_input_names

    @property
    def window(self) -> WindowRule:
        """Return the rule of windows, with the number of frames that the configuration states."""
        windows = self.family.windows
        if windows is None or not windows.frames_at:
            return WindowRule() if windows is None else windows.rule
        return replace(windows.rule, frames=operator.attrgetter(windows.frames_at)(self.model.config))

    def window_features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Encode (N, T, 3, H, W) uint8 to (N, D), of any length; a single frame is taken for a still video."""
        inputs = prepare(pixels.flatten(0, 1).to(self.device), self.checkpoint.preprocessing)
        if self.family.windows is None:
            features = self.prepared_features(inputs)
        else:
            videos = inputs.view(*pixels.shape[:2], *inputs.shape[1:]).to(self.model.dtype)
            videos = videos.expand(-1, self.window.frames, -1, -1, -1)
            features = self.model.get_video_features(**{self.family.windows.pixels: videos}).pooler_output.flatten(1)
        self.check_lengths(features.shape[-1])
        return features

    def check_lengths(self, of_pictures: int) -> None:
        """Refuse a model whose vectors of pictures are of this length, and those of captions of another.

        Raises:
            EncoderError: they are.
        """
        if of_pictures != self.dimension:
            raise EncoderError(
                f"The model in {self.checkpoint.folder} gives captions vectors of {self.dimension} numbers and "
                f"pictures vectors of {of_pictures}, so they cannot be compared; use one whose towers were trained "
                "together."
            )

    def prepared_features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Encode (N, 3, h, w), as `prepare` makes them, to (N, D), of any length."""
        given = {"pixel_values": inputs.to(self.model.dtype)}
        if isinstance(self.checkpoint.preprocessing, PatchPreprocessing):
            given = in_patches(given["pixel_values"], self.checkpoint.preprocessing.patch_side)
        features: torch.Tensor = self.model.get_image_features(**given).pooler_output
        return features

    def text_features(self, ids: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode token ids (N, W) to words (N, W, D) and sentence (N, D), of any length."""
        mask = None if mask is None else mask.to(self.device)
        output = self.model.get_text_features(input_ids=ids.to(self.device), attention_mask=mask)
        words, head = output.last_hidden_state[:, : ids.shape[1]], self._word_head  # VideoPrism's mark comes after them
        return words if head is None else head(words), output.pooler_output

    def tokens(self, captions: Sequence[str]) -> dict[str, torch.Tensor]:
        """Tokenise captions: ids and mask, (Q, W), padded and cut as this family was trained."""
        tokens = dict(
            self.tokenizer(
                list(captions),
                padding="max_length" if self.family.padded else "longest",
                truncation=True,
                max_length=self.longest_caption,
                return_attention_mask=True,
                return_tensors="pt",
            )
        )
        if self.family.averages_words:  # a caption without words is read off its first place, not divided by none
            tokens["attention_mask"][:, 0] = 1
        return self._checked(tokens)

    def _checked(self, tokens: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return _known(tokens, self._vocabulary, self.checkpoint)

    @property
    def _vocabulary(self) -> int:
        return int(self.model.config.text_config.vocab_size)

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of captions before they are cut."""
        ids = self.tokenizer(list(captions), truncation=False, verbose=False)["input_ids"]
        return [len(row) for row in ids]


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
        """Return both towers, read when they are first needed.

        Raises:
            EncoderError: they do not fit the configuration or each other.
        """
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
        """Tokenise captions: ids and mask, (Q, W), padded and cut.

        Raises:
            EncoderError: the tokenizer makes tokens that the tower does not have.
        """
        return _known(self.text.tokens(captions), self.text.shape.vocab_size, self.checkpoint)

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of captions before they are cut."""
        return self.text.tokenizer.counts(captions)


def in_patches(inputs: torch.Tensor, side: int) -> dict[str, torch.Tensor]:
    """Cut prepared pictures of one size, (N, 3, h, w), into square patches as SigLIP 2 of native resolution takes them.

    Returns:
        `pixel_values` (N, P, side * side * 3), the channels of a pixel beside each other; `spatial_shapes` (N, 2), rows
        and columns of patches; `pixel_attention_mask` (N, P), of ones.
    """
    shape = [length // side for length in inputs.shape[-2:]]
    patches = inputs.unfold(2, side, side).unfold(3, side, side)  # (N, 3, rows, columns, side, side)
    flat = patches.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
    return {
        "pixel_values": flat,
        "spatial_shapes": torch.tensor([shape], device=flat.device).expand(len(flat), 2),
        "pixel_attention_mask": torch.ones(flat.shape[:2], dtype=torch.int32, device=flat.device),
    }


def _known(tokens: dict[str, torch.Tensor], words: int, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Tokens, all of which the model has; on a GPU one beyond would not raise but end the whole CUDA context."""
    if tokens["input_ids"].max() >= words:
        raise EncoderError(
            f"The tokenizer and the weights in {checkpoint.folder} do not belong together: it makes tokens that the "
            "model does not have."
        )
    return tokens


def usable_device(name: str, precision: str) -> torch.device:
    """Return the device of a name, after a check that it can be used.

    Raises:
        UsageError: there is no such device here, or it cannot calculate with this precision.
    """
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        device = torch.device(chosen)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"The device {name!r} cannot be used here ({str(error).splitlines()[0]}).") from error
    if device.type == "cpu" and precision == "float16":
        raise UsageError("float16 needs a GPU; use float32 or bfloat16 on the CPU.")
    return device


def open_text_first(checkpoint: Checkpoint, device: torch.device, precision: str) -> TextFirstTowers | None:
    """Read the text tower alone; None where transformers has to read it, see `evenreel.encoders.clip_text`."""
    text = open_clip_text(checkpoint, device, precision)
    return None if text is None else TextFirstTowers(checkpoint, text, device, precision)


def load_towers(checkpoint: Checkpoint, device: torch.device, precision: str) -> Towers:
    """Read the weights and the tokenizer; nothing but the checked files of the folder is opened.

    Raises:
        EncoderError: they do not fit the configuration or each other.
    """
    from evenreel.encoders.embedders import Embedder
    from evenreel.encoders.open_clip_towers import OpenClipTowers, load_open_clip

    of_open_clip = checkpoint.family == OPEN_CLIP.title
    with quiet():
        try:
            if of_open_clip:
                model, tokenizer = load_open_clip(checkpoint, precision)
            else:
                model = _load_model(checkpoint, precision)
                tokenizer = _load_tokenizer(checkpoint, model.config)
        except EncoderError:
            raise
        except ImportError as error:
            needed = str(error).strip().splitlines()[0]
            raise EncoderError(f"The model in {checkpoint.folder} needs a package that is missing: {needed}") from error
        except Exception as error:
            # What a made-up configuration breaks inside transformers is not foreseeable.
            words = (str(error).splitlines() or [""])[0]
            raise EncoderError(
                f"The model in {checkpoint.folder} cannot be loaded ({type(error).__name__}: {words[:200]})."
            ) from error
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


def check_trunk(trunk: Any, checkpoint: Checkpoint) -> None:
    """Refuse a picture tower of timm that takes pictures of another size than the processor makes.

    Raises:
        EncoderError: it takes pictures of one size, and that is not it.
    """
    taken = getattr(getattr(trunk, "patch_embed", None), "img_size", None)
    if taken is not None and tuple(taken) != checkpoint.preprocessing.output_size:
        raise EncoderError(
            f"The processor in {checkpoint.folder} makes pictures of {checkpoint.preprocessing.output_size}, its tower "
            f"takes {taken[0]} x {taken[1]}; the files do not belong together."
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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what transformers says while it loads or saves from the terminal; warnings go to our own log."""
    from transformers.utils import logging as spoken

    level, bars = spoken.get_verbosity(), spoken.is_progress_bar_enabled()
    spoken.set_verbosity(logging.CRITICAL)
    spoken.disable_progress_bar()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        spoken.set_verbosity(level)
        if bars:
            spoken.enable_progress_bar()
        for warning in caught:
            log.debug("while a model was loaded: %s", warning.message)
