from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file

from evenreel.encoders import load_encoder
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels
from tests.encoders.makers import CAPTIONS, CLOSE, noise, unit
from tests.tiny_families import gemma_tokenizer

VIT: dict[str, Any] = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
TEXT: dict[str, Any] = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
HALVES = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"}
TIMM = {"timm_model_pretrained": False, "timm_proj": None, "image_size": 64}
SIGLIP_TEXT: dict[str, Any] = {
    "context_length": 64, "vocab_size": 64, "hf_tokenizer_name": "timm/ViT-B-16-SigLIP2",
    "tokenizer_kwargs": {"clean": "canonicalize"}, "width": 32, "heads": 2, "layers": 2, "no_causal_mask": True,
    "proj_bias": True, "pool_type": "last", "norm_kwargs": {"eps": 1e-6}, "act_kwargs": {"approximate": "tanh"},
}  # fmt: skip
PE_VISION = {**TIMM, "timm_model_name": "vit_pe_core_tiny_patch16_384", "timm_pool": "map", "image_size": 384}
MOBILE_VISION = {**TIMM, "timm_model_name": "fastvit_mci0", "timm_pool": "avg"}
MOBILE_PICTURES = {"mean": [0.0] * 3, "std": [1.0] * 3, "interpolation": "bilinear", "resize_mode": "shortest"}


def as_described(pictures: dict[str, Any], vision: dict[str, Any], text: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model_cfg": {"vision_cfg": vision, "text_cfg": text, **more}, "preprocess_cfg": pictures}


MODELS: dict[str, dict[str, Any]] = {  # as open_clip describes them, with fewer and narrower layers
    "DFN": as_described({}, VIT, TEXT, embed_dim=16, quick_gelu=True),
    "SigLIP 2": as_described(HALVES, VIT, SIGLIP_TEXT, embed_dim=32, init_logit_bias=-10, custom_text=True),
    "PE-Core": as_described(
        {**HALVES, "interpolation": "bilinear"},
        PE_VISION,
        {**TEXT, "context_length": 32},
        embed_dim=32,
        custom_text=True,
    ),
    "MobileCLIP2": as_described(
        MOBILE_PICTURES, MOBILE_VISION, {**TEXT, "no_causal_mask": True}, embed_dim=32, custom_text=True
    ),
}


def described(folder: Path, name: str) -> Path:
    """A folder with the settings and tokenizer of a model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "open_clip_config.json").write_text(json.dumps(MODELS[name]))
    if name == "SigLIP 2":
        gemma_tokenizer("GemmaTokenizer").save_pretrained(folder)
    return folder


def built(folder: Path, name: str) -> Path:
    """A folder with random weights so large that different inputs get different vectors."""
    import open_clip
    from safetensors.torch import save_file as save_tensors

    described(folder, name)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_image=False)
    made = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, 1.5 * weight[0].numel() ** -0.5, generator=made)
    tensors = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    save_tensors(tensors, folder / "open_clip_model.safetensors")
    return folder


class OpenClip:
    """open_clip as its page uses it, one picture and one caption at a time."""

    def __init__(self, folder: Path) -> None:
        import open_clip

        self.model, _, self.transform = open_clip.create_model_and_transforms(f"local-dir:{folder}")
        self.model.eval()
        self.tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")

    @torch.no_grad()
    def picture(self, pixels: Pixels) -> FloatArray:
        picture = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        return unit(self.model.encode_image(self.transform(picture)[None])[0])

    @torch.no_grad()
    def sentence(self, caption: str) -> FloatArray:
        return unit(self.model.encode_text(self.tokenizer([caption]))[0])


@pytest.fixture(scope="module", params=sorted(MODELS))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[TowerEncoder, OpenClip]:
    pytest.importorskip("open_clip", reason="the extra open-clip is not installed")
    folder = built(tmp_path_factory.mktemp("open_clip") / "model", str(request.param))
    return load_encoder(str(folder), device="cpu"), OpenClip(folder)


def test_pictures_of_odd_sizes_equal_those_of_open_clip(both: tuple[TowerEncoder, OpenClip]) -> None:
    encoder, oracle = both
    pictures = [noise(*shape) for shape in [(37, 53), (61, 40), (16, 90), (7, 3)]]
    pictures.append(pictures[0][::-1])  # channels in another order
    for pixels in pictures:
        assert encoder.encode_windows(pixels[None, None])[0] @ oracle.picture(pixels) > CLOSE, pixels.shape
    straight, swapped = encoder.encode_windows(np.stack([pictures[0], pictures[-1]])[:, None])
    assert straight @ swapped < 0.999


def test_captions_equal_those_of_open_clip(both: tuple[TowerEncoder, OpenClip]) -> None:
    encoder, oracle = both
    together = encoder.encode_text(CAPTIONS)
    for row, caption in enumerate(CAPTIONS):
        assert together.sentence[row] @ oracle.sentence(caption) > CLOSE, caption
        alone = encoder.encode_text([caption])
        mask, words = together.word_mask[row], together.words[row]
        np.testing.assert_allclose(words[mask], alone.words[0, alone.word_mask[0]], atol=2e-5)
        assert not words[~mask].any()
    assert together.sentence[0] @ together.sentence[1] < 0.99
    capital, lower = encoder.encode_text(["A Red Car", "a red car"]).sentence
    assert capital.tobytes() == lower.tobytes()
    assert encoder.truncated(["a", "ball " * 100]) == [False, True]
    assert together.words.shape[2] == encoder.dimension == together.sentence.shape[1]


def weighted(folder: Path) -> Path:
    """Weights with the axes that the settings name, which no model could be made of."""
    sizes = {"a": (16, 32), "b": (49408, 1), "c": (77, 64)}
    tensors = {f"{name}.{number}": np.zeros(shape, np.float32) for name, shape in sizes.items() for number in range(9)}
    save_file(tensors, folder / "open_clip_model.safetensors")
    return folder


def change(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    settings = json.loads((folder / "open_clip_config.json").read_text())
    edit(settings["model_cfg"])
    (folder / "open_clip_config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda model: model["text_cfg"].update(hf_model_name="org/evil"), "a text tower of the hub .*org/evil"),
        (lambda model: model["vision_cfg"].update(timm_model_name="hf-hub:org/evil"), "a picture tower of the hub"),
        (lambda model: model.update(multimodal_cfg={}), "a caption decoder"),
        (lambda model: model["text_cfg"].update(layers=10**9), "layers is 1000000000, and it has .* tensors"),
        (lambda model: model.update(text_cfg="small"), "describes no text tower"),
        (lambda model: model["text_cfg"].update(hf_tokenizer_name="org/other"), "not complete: its tokenizer missing"),
    ],
)
def test_settings_that_lead_out_of_the_folder_or_fit_no_weights_are_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], Any], sentence: str
) -> None:
    folder = weighted(described(tmp_path, "DFN"))
    change(folder, edit)
    with pytest.raises(EncoderError, match=sentence):
        load_encoder(str(folder))


def test_a_pickle_is_no_weights(tmp_path: Path) -> None:
    folder = described(tmp_path, "DFN")
    (folder / "open_clip_pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(EncoderError, match=r"has no open_clip_model\.safetensors; open_clip's older pickles are not"):
        load_encoder(str(folder))


@pytest.mark.skipif(importlib.util.find_spec("open_clip") is not None, reason="open_clip is installed")
def test_without_open_clip_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="is one of open_clip, and open_clip is not installed; see docs/encoders.md"):
        load_encoder(str(weighted(described(tmp_path, "DFN"))))
