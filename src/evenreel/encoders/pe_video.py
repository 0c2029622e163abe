"""PE-Video in transformers: the part of PE-AV that sees, and features that its class does not offer.

In transformers 5.23 `get_text_features` and `get_video_features` of `PeVideoModel` are defined inside its `__init__`,
where nothing finds them, and the methods of `PeAudioVideoModel` call others that are not there. What `forward` does
with each side is done here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MethodType
from typing import Any

from torch import Tensor

from evenreel.errors import EncoderError

_PARTS = (("text_model.", "text_model."), ("video_model.", ""))


def check_timm(folder: Path) -> None:
    """Refuse a model whose picture tower cannot be built here."""
    for package in ("timm", "torchvision"):
        if find_spec(package) is None:
            raise EncoderError(
                f"The picture tower of the model in {folder} is one of timm, and {package} is not installed; see "
                "docs/encoders.md."
            )


def seeing_part(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of the PE-Video within those of a PE-AV, which keeps one text tower for all its parts."""
    return {
        inner + name[len(outer) :]: tensor
        for outer, inner in _PARTS
        for name, tensor in weights.items()
        if name.startswith(outer)
    }


def offer_features(model: Any) -> None:
    """Give a `PeVideoModel` the two methods that the other families have."""
    model.get_text_features = MethodType(_text_features, model)
    model.get_video_features = MethodType(_video_features, model)


def _text_features(model: Any, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
    """Output of the text tower; the sentence, in `pooler_output`, is its first token, as `forward` has it."""
    output = model.text_model(input_ids=input_ids, attention_mask=attention_mask)
    output.pooler_output = model.text_video_head(output.last_hidden_state[:, 0])
    return output


def _video_features(model: Any, pixel_values_videos: Tensor) -> Any:
    """Output of the video tower; the window, in `pooler_output`, lies in the space of sentences."""
    output = model.video_encoder(pixel_values_videos=pixel_values_videos)
    output.pooler_output = model.video_head(output.pooler_output)
    return output
