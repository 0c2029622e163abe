"""Tiny checkpoints of random weights of the kinds beside CLIP and SigLIP, through the real classes of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.tiny_checkpoints import SIDE, TOWER, VISION, WORDS, save, save_processor, tiny_clip, tiny_siglip

_CHINESE = ["红", "球", "狗", "跑", "过", "桥"]
_LETTERS = [*"abcdefghijklmnopqrstuvwxyz!.,'"]
_SQUARE = {"size": {"height": SIDE, "width": SIDE}}
_CUT = {"size": {"shortest_edge": SIDE}, "crop_size": SIDE, "resample": 3}


def tiny_siglip2_naflex(folder: Path) -> Path:
    """SigLIP 2 of native resolution: pictures in at most 20 patches of 8 pixels."""
    from transformers import Siglip2Config, Siglip2Model

    folder.mkdir(parents=True)
    text = {**TOWER, "vocab_size": 64, "max_position_embeddings": 64, "pad_token_id": 0}
    vision = {**TOWER, "patch_size": 8, "num_patches": 16}
    save(
        stirred(Siglip2Model(Siglip2Config(text_config=text, vision_config=vision))),
        gemma_tokenizer("Siglip2Tokenizer"),
        folder,
    )
    save_processor(folder, "Siglip2ImageProcessor", {"patch_size": 8, "max_num_patches": 20, "resample": 2})
    return folder


def tiny_siglip2_with_capitals(folder: Path) -> Path:
    """SigLIP 2 of fixed resolution as the hub has it: it calls itself `siglip` and names a tokenizer with capitals."""
    tiny_siglip(folder)
    (folder / "spiece.model").unlink()
    gemma_tokenizer("GemmaTokenizer").save_pretrained(folder)
    return folder


def gemma_tokenizer(name: str) -> Any:
    """A tokenizer of single letters and capitals, of a class in transformers, with the settings of SigLIP 2."""
    import transformers

    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "\u2581", *_LETTERS, *"ARCB"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return getattr(transformers, name)(
        vocabulary,
        [],
        padding_side="right",
        model_input_names=["input_ids"],
        add_bos_token=False,
        add_eos_token=True,
        model_max_length=64,
    )


def tiny_metaclip_2(folder: Path) -> Path:
    """MetaCLIP 2 with its multilingual tokenizer."""
    from transformers import MetaClip2Config, MetaClip2Model

    folder.mkdir(parents=True)
    tokenizer = _xlm_roberta(77)
    text = {**TOWER, "vocab_size": len(tokenizer), "max_position_embeddings": 77, "eos_token_id": 2}
    config = MetaClip2Config(text_config=text, vision_config=VISION, projection_dim=16, initializer_factor=2.0)
    save(stirred(MetaClip2Model(config)), tokenizer, folder)
    save_processor(folder, "CLIPImageProcessor", _CUT)
    return folder


def tiny_altclip(folder: Path) -> Path:
    """AltCLIP, whose text tower is a RoBERTa: positions begin after that of padding."""
    from transformers import AltCLIPConfig, AltCLIPModel

    folder.mkdir(parents=True)
    tokenizer = _xlm_roberta(30)
    text = {**TOWER, "vocab_size": len(tokenizer), "max_position_embeddings": 32, "pad_token_id": 1, "project_dim": 24}
    config = AltCLIPConfig(text_config=text, vision_config=VISION, projection_dim=16, initializer_factor=2.0)
    save(stirred(AltCLIPModel(config)), tokenizer, folder)
    save_processor(folder, "CLIPImageProcessor", _CUT)
    return folder


def tiny_chinese_clip(folder: Path) -> Path:
    """Chinese CLIP, whose text tower is a BERT."""
    from transformers import ChineseCLIPConfig, ChineseCLIPModel

    folder.mkdir(parents=True)
    tokenizer = _bert(40)
    text = {**TOWER, "vocab_size": len(tokenizer), "max_position_embeddings": 40}
    config = ChineseCLIPConfig(text_config=text, vision_config=VISION, projection_dim=16, initializer_factor=2.0)
    save(stirred(ChineseCLIPModel(config)), tokenizer, folder)
    save_processor(folder, "ChineseCLIPImageProcessor", _CUT)
    return folder


def tiny_align(folder: Path) -> Path:
    """ALIGN: an EfficientNet of two blocks and a BERT, with the steps that its processor alone has."""
    from transformers import AlignConfig, AlignModel

    folder.mkdir(parents=True)
    tokenizer = _bert(512)
    text = {**TOWER, "vocab_size": len(tokenizer), "max_position_embeddings": 512}
    vision = {
        "image_size": SIDE,
        "width_coefficient": 1.0,
        "depth_coefficient": 1.0,
        "kernel_sizes": [3, 3],
        "in_channels": [32, 16],
        "out_channels": [16, 24],
        "strides": [1, 2],
        "num_block_repeats": [1, 1],
        "expand_ratios": [1, 2],
        "hidden_dim": 32,
    }
    save(stirred(AlignModel(AlignConfig(text_config=text, vision_config=vision, projection_dim=24))), tokenizer, folder)
    steps = {"rescale_factor": 2 / 255, "rescale_offset": True, "do_normalize": False, "include_top": False}
    cut = {"size": {"height": 40, "width": 40}, "crop_size": {"height": 33, "width": 33}, "do_center_crop": True}
    save_processor(folder, "EfficientNetImageProcessor", {**cut, **steps, "resample": 2})
    return folder


def tiny_tipsv2(folder: Path) -> Path:
    """TIPSv2, whose sentence is the mean of its words."""
    from transformers import Tipsv2Config, Tipsv2Model, Tipsv2Tokenizer

    folder.mkdir(parents=True)
    pieces = ["<pad>", "<unk>", "\u2581", *_LETTERS]
    tokenizer = Tipsv2Tokenizer({piece: number for number, piece in enumerate(pieces)}, [])
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2}
    text = {**TOWER, "vocab_size": len(tokenizer)}
    config = Tipsv2Config(text_config=text, vision_config={**vision, "image_size": SIDE, "patch_size": 8})
    save(stirred(Tipsv2Model(config)), tokenizer, folder)
    save_processor(folder, "Tipsv2ImageProcessor", _SQUARE)
    return folder


def tiny_videoprism(folder: Path) -> Path:
    """VideoPrism with windows of four frames."""
    from transformers import VideoPrismClipModel, VideoPrismConfig, VideoPrismTokenizer

    folder.mkdir(parents=True)
    pieces = [(mark, 0.0) for mark in ("<pad>", "</s>", "<unk>")]
    pieces += [(f"\u2581{word}", -2.0) for word in WORDS] + [
        (letter, -5.0) for letter in ["\u2581", *_LETTERS, *"ADOGB"]
    ]
    tokenizer = VideoPrismTokenizer(pieces, extra_ids=0)
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "image_size": SIDE,
        "num_frames": 4,
        "tubelet_size": [1, 8, 8],
        "num_spatial_layers": 2,
        "num_temporal_layers": 1,
        "num_auxiliary_layers": 1,
    }
    config = VideoPrismConfig(text_config={**TOWER, "vocab_size": len(tokenizer)}, vision_config=vision)
    save(stirred(VideoPrismClipModel(config)), tokenizer, folder)
    settings = {"video_processor_type": "LlavaOnevisionVideoProcessor", **_SQUARE, "resample": 3}
    (folder / "video_preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def tiny_x_clip(folder: Path) -> Path:
    """X-CLIP with windows of four frames, and a tokenizer and processor as the hub's have."""
    from transformers import XCLIPConfig, XCLIPModel

    tiny_clip(folder)
    text = json.loads((folder / "config.json").read_text())["text_config"]
    vision = {
        **VISION,
        "num_frames": 4,
        "mit_hidden_size": 16,
        "mit_intermediate_size": 32,
        "mit_num_attention_heads": 2,
    }
    config = XCLIPConfig(
        text_config={**text, "model_type": "xclip_text_model"},
        vision_config=vision,
        projection_dim=16,
        prompt_num_attention_heads=2,
    )
    stirred(XCLIPModel(config)).save_pretrained(folder)
    means = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    save_processor(folder, "VideoMAEImageProcessor", {**_CUT, **means, "resample": 2})
    return folder


def stirred(model: Any) -> Any:
    """The model with weights so large that different inputs get different vectors, as trained ones have them."""
    made = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, 0.3, generator=made)
    return model


def _xlm_roberta(longest: int) -> Any:
    from transformers import XLMRobertaTokenizer

    marks = ["<s>", "<pad>", "</s>", "<unk>"]
    words = [f"\u2581{word}" for word in WORDS]
    pieces = [*((mark, 0.0) for mark in marks), *((word, -2.0) for word in words)]
    pieces += [("\u2581", -4.0), *((letter, -5.0) for letter in [*_LETTERS, *"ARCBTIN"]), ("<mask>", 0.0)]
    return XLMRobertaTokenizer(pieces, model_max_length=longest)


def _bert(longest: int) -> Any:
    from transformers import BertTokenizer

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *_CHINESE, *_LETTERS]
    pieces += [f"##{letter}" for letter in _LETTERS]
    unique = dict.fromkeys(pieces)
    return BertTokenizer({piece: number for number, piece in enumerate(unique)}, model_max_length=longest)


PICTURE_FAMILIES: dict[str, Callable[[Path], Path]] = {
    "siglip2": tiny_siglip2_naflex,
    "metaclip_2": tiny_metaclip_2,
    "tipsv2": tiny_tipsv2,
    "align": tiny_align,
    "altclip": tiny_altclip,
    "chinese_clip": tiny_chinese_clip,
}
