"""CLIP's text tower on torch alone (Radford et al. 2021, arXiv 2103.00020, section 2.4).

A search by words needs no more of a model, and importing transformers' takes twice the processor time of importing
torch. The features are those of transformers, bit for bit (tests/encoders/test_clip_text.py). Where a checkpoint says
anything that is not known here, `open_clip_text` gives nothing, and transformers reads the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.encoders.checkpoint import Checkpoint
from evenreel.encoders.clip_tokens import ClipTokens, open_clip_tokens

_EMBEDDINGS, _LAYERS = "text_model.embeddings", "text_model.encoder.layers"
_LAST_NORM, _HEAD = "text_model.final_layer_norm", "text_projection"
_EARLY_END = 2
"""What early configurations call the end mark, whose id was 49,407: there it is the highest id of a caption."""


def _quick_gelu(values: Tensor) -> Tensor:
    return values * torch.sigmoid(1.702 * values)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"quick_gelu": _quick_gelu, "gelu": F.gelu}


@dataclass(frozen=True)
class ClipTextShape:
    """Sizes of a text tower, as `text_config` of a checkpoint names them."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    vocab_size: int
    eos_token_id: int
    layer_norm_eps: float
    hidden_act: str

    def shapes(self, dimension: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight by name, with a head that gives features of length `dimension`."""
        width, inner = self.hidden_size, self.intermediate_size
        found: dict[str, tuple[int, ...]] = {
            f"{_EMBEDDINGS}.token_embedding.weight": (self.vocab_size, width),
            f"{_EMBEDDINGS}.position_embedding.weight": (self.max_position_embeddings, width),
            f"{_LAST_NORM}.weight": (width,),
            f"{_LAST_NORM}.bias": (width,),
            f"{_HEAD}.weight": (dimension, width),
        }
        sizes = {f"self_attn.{name}": (width, width) for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
        sizes |= {"mlp.fc1": (inner, width), "mlp.fc2": (width, inner)}
        for number in range(self.num_hidden_layers):
            layer = f"{_LAYERS}.{number}"
            found |= {f"{layer}.{part}.weight": size for part, size in sizes.items()}
            found |= {f"{layer}.{part}.bias": size[:1] for part, size in sizes.items()}
            for norm in ("layer_norm1", "layer_norm2"):
                found |= {f"{layer}.{norm}.{part}": (width,) for part in ("weight", "bias")}
        return found


@dataclass(frozen=True, eq=False)
class ClipTextTower:
    """CLIP's text tower with its tokenizer, on a device.

    Attributes:
        shape: sizes of the tower.
        weights: tensors by their names in checkpoints.
        tokenizer: tokenizer of captions.
    """

    shape: ClipTextShape
    weights: Mapping[str, Tensor]
    tokenizer: ClipTokens

    @property
    def dimension(self) -> int:
        """D, the length of a feature."""
        return len(self.weights[f"{_HEAD}.weight"])

    def tokens(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """Tokenise captions: ids and mask, (Q, W), cut to what the tower takes."""
        ids, mask = self.tokenizer(captions, self.shape.max_position_embeddings)
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}

    def features(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encode token ids (N, W) and mask, 0 = padding: words (N, W, D) and sentence (N, D), of any length."""
        device = self.weights[f"{_HEAD}.weight"].device
        ids, mask = ids.to(device), mask.to(device)
        states = F.embedding(ids, self.weights[f"{_EMBEDDINGS}.token_embedding.weight"])
        states = states + self.weights[f"{_EMBEDDINGS}.position_embedding.weight"][: ids.shape[1]]
        # Without padding the kernels' own causal mask is used: with one that is made here the bits would differ.
        seen = None if bool(mask.all()) else _causal(mask)
        for number in range(self.shape.num_hidden_layers):
            states = self._layer(f"{_LAYERS}.{number}", states, seen)
        states = self._norm(_LAST_NORM, states)
        of_end = ids if self.shape.eos_token_id == _EARLY_END else (ids == self.shape.eos_token_id).int()
        ends = states[torch.arange(len(states), device=device), of_end.argmax(dim=-1)]
        return self._linear(_HEAD, states), self._linear(_HEAD, ends)

    def _layer(self, name: str, states: Tensor, seen: Tensor | None) -> Tensor:
        """One layer, (N, W, H) -> (N, W, H): attention, then two linear maps, each normalised before and added."""
        normed = self._norm(f"{name}.layer_norm1", states)
        heads = (*normed.shape[:2], self.shape.num_attention_heads, -1)
        queries, keys, values = (
            self._linear(f"{name}.self_attn.{part}_proj", normed).view(heads).transpose(1, 2) for part in "qkv"
        )
        causal = seen is None and normed.shape[1] > 1
        scale = queries.shape[-1] ** -0.5
        attended = F.scaled_dot_product_attention(queries, keys, values, seen, is_causal=causal, scale=scale)
        states = states + self._linear(f"{name}.self_attn.out_proj", attended.transpose(1, 2).reshape(states.shape))
        inner = self._linear(f"{name}.mlp.fc1", self._norm(f"{name}.layer_norm2", states))
        return states + self._linear(f"{name}.mlp.fc2", _ACTIVATIONS[self.shape.hidden_act](inner))

    def _linear(self, name: str, values: Tensor) -> Tensor:
        return F.linear(values, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def _norm(self, name: str, values: Tensor) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.layer_norm(values, weight.shape, weight, bias, self.shape.layer_norm_eps)


def open_clip_text(checkpoint: Checkpoint, device: torch.device, precision: str) -> ClipTextTower | None:
    """Read the text tower and the tokenizer of a checkpoint."""
    shape = _shape(checkpoint.config) if checkpoint.family == "clip" else None
    dimension = checkpoint.config.get("projection_dim")
    if shape is None or not isinstance(dimension, int):
        return None
    weights = _weights(checkpoint.weights, shape.shapes(dimension))
    tokenizer = open_clip_tokens(checkpoint.folder)
    if weights is None or tokenizer is None:
        return None
    kind = getattr(torch, precision)
    there = {name: tensor.to(device=device, dtype=kind) for name, tensor in weights.items()}
    return ClipTextTower(shape, there, tokenizer)


def _shape(config: Mapping[str, Any]) -> ClipTextShape | None:
    given = config.get("text_config")
    if not isinstance(given, dict) or config.get("text_config_dict") is not None or "is_causal" in given:
        return None
    names = [name for name in ClipTextShape.__dataclass_fields__ if name not in ("layer_norm_eps", "hidden_act")]
    if not all(_is_count(given.get(name)) for name in names) or given.get("hidden_act") not in _ACTIVATIONS:
        return None
    if not isinstance(given.get("layer_norm_eps"), float) or given["hidden_size"] % given["num_attention_heads"]:
        return None
    return ClipTextShape(**{name: given[name] for name in ClipTextShape.__dataclass_fields__})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _weights(files: Sequence[Path], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor] | None:
    """The tower's tensors alone; None where one is missing or has another shape."""
    from safetensors import safe_open

    found: dict[str, Tensor] = {}
    for path in files:
        with safe_open(path, framework="pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys() if name in shapes}  # noqa: SIM118
    return found if {name: tuple(tensor.shape) for name, tensor in found.items()} == dict(shapes) else None


def _causal(mask: Tensor) -> Tensor:
    """(N, W) mask -> (N, 1, W, W) True where a token (third axis) looks at another, none of which is padding."""
    width = mask.shape[1]
    before = torch.ones(width, width, dtype=torch.bool, device=mask.device).tril()
    return before & mask.bool()[:, None, None]
