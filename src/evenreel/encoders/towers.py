"""Models in safetensors form, by the Auto classes of transformers or open_clip's own, and the encoder over them."""

from __future__ import annotations

import contextlib
import logging
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from evenreel.encoders.checkpoint import OPEN_CLIP, Checkpoint, Family, Instructions, Preprocessing
from evenreel.encoders.encoder import (
    BatchedEncoder,
    Made,
    TokenArray,
    check_pixels,
    lower_case,
    of_model,
    quiet,
    unit_rows,
)
from evenreel.errors import EncoderError, UsageError
from evenreel.types import FloatArray, Pixels, WindowRule

log = logging.getLogger("evenreel")

WINDOW_SPAN_S, WINDOW_STRIDE_S = 8.0, 4.0
"""Seconds over which the frames of a window are spread, and between windows; no checkpoint says anything of them."""
_FROM_FOLDER: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
# A GPU that is gone raises AcceleratorError, which torch has since 2.8.
_DEVICE_TROUBLE = (torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError))
_NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"  # as torch says it of the CPU


@dataclass(frozen=True)
class Towers:
    """A loaded model: both towers, tokenizer, and the maker's processor of pictures where it prepares them."""

    checkpoint: Checkpoint
    model: Any
    tokenizer: Any
    processor: Any
    device: torch.device
    precision: str

    @property
    def family(self) -> Family:
        return self.checkpoint.family

    @property
    def preprocessing(self) -> Preprocessing:
        if self.checkpoint.preprocessing is None:
            raise EncoderError(f"{self.family.title} prepares pictures in its own way; name a CLIP or a SigLIP.")
        return self.checkpoint.preprocessing

    @property
    def dimension(self) -> int:
        return int(getattr(self._word_head, "out_features", self.model.config.text_config.hidden_size))

    @property
    def longest_caption(self) -> int:
        """The most tokens that the text tower takes, its own marks included."""
        positions = int(self.model.config.text_config.max_position_embeddings) - self.family.first_position
        return min(positions, self.family.longest or positions)

    @property
    def _word_head(self) -> Any | None:
        return operator.attrgetter(self.family.word_head)(self.model) if self.family.word_head else None

    @property
    def masks_padding(self) -> bool:
        """Whether the text tower gets a mask of padding; SigLIP was trained without."""
        return "attention_mask" in self.tokenizer.model_input_names

    @property
    def window(self) -> WindowRule:
        if not self.family.frames:
            return WindowRule()
        return WindowRule(self.model.config.vision_config.num_frames, WINDOW_SPAN_S, WINDOW_STRIDE_S)

    def window_features(self, pixels: Pixels) -> Tensor:
        """Encode (N, T, 3, H, W) uint8 to (N, D), of any length; a single frame is taken for a still video."""
        if not self.family.frames:
            with of_model(self.checkpoint.folder, "has a processor that fails on a picture"):
                prepared = self.prepared(pixels[:, 0])
            features = self.prepared_features(prepared)
        else:
            inputs = torch.from_numpy(self.preprocessing.prepare(pixels.reshape(-1, *pixels.shape[2:])))
            videos = inputs.view(*pixels.shape[:2], *inputs.shape[1:]).expand(-1, self.window.frames, -1, -1, -1)
            given = self.placed({self.family.frames: videos})
            features = self.model.get_video_features(**given).pooler_output.flatten(1)
        self.check_lengths(features.shape[-1])
        return features

    def prepared(self, pixels: Pixels) -> Mapping[str, Tensor]:
        """Prepare pictures (N, 3, H, W) uint8, by the names of the model's inputs."""
        if self.processor is None:
            return {"pixel_values": torch.from_numpy(self.preprocessing.prepare(pixels))}
        return dict(self.processor(images=_pictures(pixels), return_tensors="pt"))

    def prepared_features(self, inputs: Mapping[str, Tensor]) -> Tensor:
        features: Tensor = self.model.get_image_features(**self.placed(inputs)).pooler_output
        return features

    def placed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        kinds = {True: next(self.model.parameters()).dtype, False: None}
        return {name: one.to(self.device, kinds[one.is_floating_point()]) for name, one in inputs.items()}

    def check_lengths(self, of_pictures: int) -> None:
        if of_pictures != self.dimension:
            raise EncoderError(
                f"The model in {self.checkpoint.folder} gives captions vectors of {self.dimension} numbers and "
                f"pictures vectors of {of_pictures}, so they cannot be compared; use one whose towers were trained "
                "together."
            )

    def text_features(self, ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encode token ids (N, W) to words (N, W, D) and sentence (N, D), of any length."""
        mask = None if mask is None else mask.to(self.device)
        output = self.model.get_text_features(input_ids=ids.to(self.device), attention_mask=mask)
        words, head = output.last_hidden_state[:, : ids.shape[1]], self._word_head  # VideoPrism's mark comes after them
        return words if head is None else head(words), output.pooler_output

    def tokens(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Tokenise captions: ids and mask, (Q, W), padded on the right and cut as this family was trained."""
        found = self.tokenizer(
            list(captions),
            padding="max_length" if self.family.padded else "longest",
            padding_side="right",
            truncation=True,
            max_length=self.longest_caption,
            return_attention_mask=True,
            return_tensors="pt",
        )
        tokens = {name: found[name] for name in ("input_ids", "attention_mask")}
        if self.family.averages_words:  # a caption without words is read off its first place, not divided by none
            tokens["attention_mask"][:, 0] = 1
        return self._known(tokens, self.model.config.text_config.vocab_size)

    def _known(self, tokens: dict[str, Tensor], words: int) -> dict[str, Tensor]:
        if tokens["input_ids"].max() >= words:  # over which a GPU would be lost
            raise EncoderError(
                f"The tokenizer and the weights in {self.checkpoint.folder} do not belong together: it makes tokens "
                "that the model does not have."
            )
        return tokens

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of captions before they are cut."""
        ids = self.tokenizer(list(captions), truncation=False, verbose=False)["input_ids"]
        return [len(row) for row in ids]


class Embedder(Towers):
    """An embedder with instructions: one tower reads captions and sees pictures, each within words of its maker.

    sentence-transformers reads such models too, but with processors that need torchvision.
    """

    masks_padding = True

    @property
    def _words(self) -> Instructions:
        assert self.family.instructions is not None
        return self.family.instructions

    @property
    def dimension(self) -> int:
        text = self.model.config.text_config
        return int(getattr(text, "embedding_dim", text.hidden_size))

    def prepared(self, pixels: Pixels) -> Mapping[str, Tensor]:
        """Prepare pictures of one size, and the tokens of their instruction with one for each part of a picture."""
        found = dict(self.processor(images=_pictures(pixels), return_tensors="pt", **self._words.options))
        in_grid = "image_grid_thw" in found
        if in_grid:
            parts = int(found["image_grid_thw"][0].prod()) // self.processor.merge_size**2
        else:
            parts = int(found.pop("num_soft_tokens_per_image")[0])
        marked = self._words.begin + self._words.token * parts + self._words.end
        ids = torch.tensor(self.tokenizer(self._words.picture.format(marked))["input_ids"]).expand(len(pixels), -1)
        of_picture = (ids == self.model.config.image_token_id).int()
        if of_picture[0].sum() != parts:
            raise EncoderError(
                f"The tokenizer and the settings in {self.checkpoint.folder} do not belong together: "
                f"{self._words.token} is not the token of pictures there."
            )
        tokens = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        return {**tokens, **found, **({"mm_token_type_ids": of_picture} if in_grid else {})}

    def prepared_features(self, inputs: Mapping[str, Tensor]) -> Tensor:
        given = self.placed(inputs)
        return self._pooled(self.model(**given).last_hidden_state, given["attention_mask"])

    def text_features(self, ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encode token ids (N, W) to the words after the instruction (N, W - I, D), and the sentence (N, D)."""
        mask = torch.ones_like(ids) if mask is None else mask
        given = self.placed({"input_ids": ids, "attention_mask": mask})
        states = self.model(**given).last_hidden_state
        return states[:, self._instruction_length :], self._pooled(states, given["attention_mask"])

    def tokens(self, captions: Sequence[str]) -> dict[str, Tensor]:
        return super().tokens(self._instructed(captions))

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        return super().token_counts(self._instructed(captions))

    def _instructed(self, captions: Sequence[str]) -> list[str]:
        return [self._words.caption.format(caption or self._words.empty) for caption in captions]

    @cached_property
    def _instruction_length(self) -> int:
        """I, the number of tokens before a caption: those that two captions without a common letter share."""
        first, second = self.tokenizer(self._instructed("a0"))["input_ids"]
        pairs = enumerate(zip(first, second, strict=False))
        return next((place for place, (one, other) in pairs if one != other), 0)

    def _pooled(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, W, D) and mask (N, W), padded on the right, -> (N, D)."""
        if self._words.pooling == "lasttoken":
            return states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]
        weights = mask[..., None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)


class OpenClipTowers(Towers):
    """A model of open_clip; captions are cleaned and cut, pictures prepared as open_clip does it."""

    masks_padding = False

    @property
    def _text(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.checkpoint.config["model_cfg"]["text_cfg"]
        return settings

    @property
    def dimension(self) -> int:
        return int(self.checkpoint.config["model_cfg"]["embed_dim"])

    @property
    def longest_caption(self) -> int:
        return int(self._text.get("context_length", 77))

    def prepared(self, pixels: Pixels) -> Mapping[str, Tensor]:
        return {"pixel_values": torch.stack([self.processor(picture) for picture in _pictures(pixels)])}

    def prepared_features(self, inputs: Mapping[str, Tensor]) -> Tensor:
        features: Tensor = self.model.encode_image(self.placed(inputs)["pixel_values"])
        return features

    def text_features(self, ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        tower = getattr(self.model, "text", self.model)
        states: list[Tensor] = []
        handle = tower.ln_final.register_forward_hook(lambda module, inputs, output: states.append(output))
        try:
            sentence = self.model.encode_text(ids.to(self.device))
        finally:
            handle.remove()
        head = tower.text_projection
        words = states[0] if head is None else head(states[0]) if isinstance(head, nn.Linear) else states[0] @ head
        return words, sentence

    def tokens(self, captions: Sequence[str]) -> dict[str, Tensor]:
        ids = self.tokenizer(list(captions), context_length=self.longest_caption)
        lengths = torch.tensor(self.token_counts(captions))  # padding is 0, which is a word's id too
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        return self._known({"input_ids": ids, "attention_mask": mask}, self._text.get("vocab_size", 49_408))

    def token_counts(self, captions: Sequence[str]) -> list[int]:
        inner = getattr(self.tokenizer, "tokenizer", None)
        if inner is None:
            return [len(self.tokenizer.encode(caption)) + 2 for caption in captions]
        cleaned = [self.tokenizer.clean_fn(caption) for caption in captions]
        return [len(row) for row in inner(cleaned, truncation=False, verbose=False)["input_ids"]]


def _pictures(pixels: Pixels) -> list[Image.Image]:
    return [Image.fromarray(np.ascontiguousarray(frame.transpose(1, 2, 0))) for frame in pixels]


def load_towers(checkpoint: Checkpoint, device: torch.device, precision: str) -> Towers:
    """Load towers with their tokenizer from a checkpoint; nothing but the checked files of its folder is opened."""
    kind, load = Embedder if checkpoint.family.instructions else Towers, _load_auto
    if checkpoint.family is OPEN_CLIP:
        kind, load = OpenClipTowers, _load_open_clip
    with quiet(), of_model(checkpoint.folder, "cannot be loaded"):
        try:
            model, tokenizer, processor = load(checkpoint, getattr(torch, precision))
        except ImportError as error:
            needed = str(error).strip().splitlines()[0]
            raise EncoderError(f"The model in {checkpoint.folder} needs a package that is missing: {needed}") from error
    model = model.to(device).eval().requires_grad_(False)
    towers = kind(checkpoint, model, tokenizer, processor, device, precision)
    if towers.family.picture_length:
        towers.check_lengths(operator.attrgetter(towers.family.picture_length)(model.config))
    return towers


def _load_auto(checkpoint: Checkpoint, precision: torch.dtype) -> tuple[Any, Any, Any]:
    """A model of transformers, its tokenizer, and its processor of pictures where these have any size."""
    from transformers import CONFIG_MAPPING, AutoImageProcessor, AutoTokenizer

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
    model = load_model(checkpoint, config, precision)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder, config=config, **_FROM_FOLDER)
    rules = getattr(tokenizer, "backend_tokenizer", None)
    if checkpoint.family.lower_cases and rules is not None:
        lower_case(rules)
    if checkpoint.preprocessing is not None:
        return model, tokenizer, None
    processor = AutoImageProcessor.from_pretrained(checkpoint.folder, config=config, backend="pil", **_FROM_FOLDER)
    return model, tokenizer, processor


def load_model(checkpoint: Checkpoint, config: Any, precision: torch.dtype) -> Any:
    from transformers import MODEL_MAPPING

    model, report = MODEL_MAPPING[type(config)].from_pretrained(
        None,  # without a name transformers looks for nothing, neither on disk nor in the network
        config=config,
        state_dict=_weights(checkpoint),
        dtype=precision,
        output_loading_info=True,
    )
    _check_missing(checkpoint, report["missing_keys"])
    return model


def _load_open_clip(checkpoint: Checkpoint, precision: torch.dtype) -> tuple[Any, Any, Any]:
    """A model of open_clip (extra `open-clip`), its tokenizer and its transform, from the files of its folder alone."""
    for package in ("open_clip", "timm", "torchvision"):
        if find_spec(package) is None:
            raise EncoderError(
                f"The model in {checkpoint.folder} is one of open_clip, and {package} is not installed; see "
                "docs/encoders.md."
            )
    with root_logger_left():
        import open_clip
        from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

        alone: dict[str, Any] = {"load_weights": False, "pretrained_image": False, "pretrained_text": False}
        model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{checkpoint.folder}", **alone)
    _check_missing(checkpoint, model.load_state_dict(_weights(checkpoint), strict=False).missing_keys)
    text = checkpoint.config["model_cfg"]["text_cfg"]
    options = {"context_length": text.get("context_length", 77)}
    if (clean := (text.get("tokenizer_kwargs") or {}).get("clean")) is not None:
        options["clean"] = clean
    if text.get("hf_tokenizer_name"):
        tokenizer = HFTokenizer(str(checkpoint.folder), **_FROM_FOLDER, **options)
    else:
        tokenizer = SimpleTokenizer(**options)
    return model.to(precision), tokenizer, transform


def _weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return {name: tensor for path in checkpoint.weights for name, tensor in load_file(path).items()}


def _check_missing(checkpoint: Checkpoint, names: Sequence[str]) -> None:
    if missing := [name for name in names if not name.endswith(("position_ids", "token_type_ids"))]:  # made, not learnt
        raise EncoderError(
            f"The weights in {checkpoint.folder} lack {len(missing)} tensors of the model, {min(missing)} among them."
        )


@contextlib.contextmanager
def root_logger_left() -> Iterator[None]:
    """Keep from the terminal what speaks to the root logger, which would get a handler by that: open_clip for one."""
    root, handler, before = logging.getLogger(), logging.NullHandler(), logging.root.manager.disable
    root.addHandler(handler)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
        root.removeHandler(handler)


class TowerEncoder(BatchedEncoder):
    """An `evenreel.types.Encoder` over loaded towers.

    Not for two threads at once: it changes its batch size, and its device, when memory runs out.
    """

    def __init__(self, towers: Towers, encoder_id: str, weights_hash: str, batch_size: int = 32) -> None:
        super().__init__(towers.checkpoint.folder, encoder_id, weights_hash, batch_size)
        self._towers, self.window = towers, towers.window

    @property
    def dimension(self) -> int:
        return self._towers.dimension

    @property
    def device(self) -> str:
        return str(self._towers.device)

    @property
    def precision(self) -> str:
        return self._towers.precision

    def encode_patches(self, pixels: Pixels, *, whole: bool = False) -> FloatArray:
        """Encode each patch of (N, 3, H, W) uint8 RGB frames: (N, rows, columns, D) float32 of unit length.

        They lie in the space of captions and of frames, see `patch_features`. With `whole`, frames are
        squeezed into the size of the tower, instead of cut as its processor does.
        """
        check_pixels(pixels, "(N, 3, H, W)")
        kind, model = self._towers.checkpoint.kind, self._towers.model
        grid, how = patch_grid(kind, model), self._towers.preprocessing

        def patches(rows: slice) -> FloatArray:
            inputs = torch.from_numpy((how.uncropped if whole else how).prepare(pixels[rows]))
            features = patch_features(kind, model, self._towers.placed({"": inputs})[""])
            return unit_rows(_array(features.flatten(0, 2)), "patch").reshape(features.shape)

        none = np.zeros((0, *grid, self.dimension), np.float32)
        return np.concatenate([none, *self._in_batches(len(pixels), patches)])

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
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


def usable_device(name: str, precision: str) -> torch.device:
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        device = torch.device(chosen)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"The device {name!r} cannot be used here ({str(error).splitlines()[0]}).") from error
    if device.type == "cpu" and precision == "float16":
        raise UsageError("float16 needs a GPU; use float32 or bfloat16 on the CPU.")
    return device


def patch_features(kind: str, model: Any, inputs: Tensor) -> Tensor:
    """Compute the features (N, rows, columns, D) of all patches of prepared frames (N, 3, h, w), of any length.

    The last tokens of CLIP's patches lie elsewhere than captions: only the class token was ever trained to meet them.
    MaskCLIP (Zhou et al., ECCV 2022, arXiv 2112.01071, section 3.3) takes what the last attention of a tower would read
    of each patch, its value, instead. Here this is what the attention gives if it looks at that patch alone, and what
    follows it in the tower is kept. The head of SigLIP is just that, so there a patch's feature is what the frame's
    would be. In CLIP's last layer the token that attends is added; it is left out here, for it says what the whole
    frame shows, and every patch would show that. docs/bima.md has what each of these choices finds in rendered scenes.
    """
    rows, columns = patch_grid(kind, model)
    patches = _PATCHES[kind](model, inputs)
    return patches.reshape(len(patches), rows, columns, -1)


def patch_grid(kind: str, model: Any) -> tuple[int, int]:
    """Return the rows and columns of patches that a frame is cut into."""
    if kind not in _PATCHES:
        raise UsageError(f"Patches are encoded by {' or '.join(_PATCHES)}, not by {kind}.")
    side = model.config.vision_config.image_size // model.config.vision_config.patch_size
    return side, side


def _clip_patches(model: Any, pixels: Tensor) -> Tensor:
    """(N, P, D): the value of each patch through the rest of the last layer."""
    vision = model.vision_model
    layer = vision.encoder.layers[-1]
    given: list[Tensor] = []
    handle = layer.layer_norm1.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    try:
        vision(pixel_values=pixels)
    finally:
        handle.remove()
    attended = layer.self_attn.out_proj(layer.self_attn.v_proj(layer.layer_norm1(given[0][:, 1:])))
    pooled = attended + layer.mlp(layer.layer_norm2(attended))
    features: Tensor = model.visual_projection(vision.post_layernorm(pooled))
    return features


def _siglip_patches(model: Any, pixels: Tensor) -> Tensor:
    """(N, P, D): the head is given one patch at a time, so that its attention has nothing else to look at."""
    tokens = model.vision_model(pixel_values=pixels).last_hidden_state
    alone = tokens.flatten(0, 1)[:, None]
    features: Tensor = model.vision_model.head(alone).unflatten(0, tokens.shape[:2])
    return features


_PATCHES: dict[str, Callable[[Any, Tensor], Tensor]] = {"clip": _clip_patches, "siglip": _siglip_patches}
