"""Tiny checkpoints of embedders with instructions: random weights through the real classes of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tiny_checkpoints import TOWER, save, save_processor
from tests.tiny_families import stirred

_CHARACTERS = [*"abcdefghijklmnopqrstuvwxyz!.,':|0ADRTBOG"]
QWEN_MARKS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)


def tiny_embedding_gemma(folder: Path, *, sound: bool = False) -> Path:
    """EmbeddingGemma 2 with patches of 4 pixels, 3 x 3 of which are a token; optionally with its tower for sound."""
    from transformers import EmbeddingGemma2Config, EmbeddingGemma2Model, GemmaTokenizer

    folder.mkdir(parents=True)
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "\u2581", *_CHARACTERS, "<|image>", "<|image|>", "<image|>"]
    names = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}
    tokenizer = GemmaTokenizer(
        {piece: number for number, piece in enumerate(pieces)},
        [],
        add_bos_token=True,
        add_eos_token=True,
        extra_special_tokens=names,
    )
    sizes = {**TOWER, "num_key_value_heads": 2, "head_dim": 16}
    text = {
        **sizes,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 1024,
        "sliding_window": 4,
        "sliding_window_pattern": 2,
        "global_head_dim": 16,
        "hidden_size_per_layer_input": 8,
        "embedding_dim": 24,
    }
    vision = {**sizes, "model_type": "gemma4_vision", "patch_size": 4, "position_embedding_size": 640}
    heard = {"model_type": "gemma4_audio", **sizes, "output_proj_dims": 32, "subsampling_conv_channels": [4, 4]}
    config = EmbeddingGemma2Config(
        text_config=text,
        vision_config=vision,
        audio_config=heard if sound else None,
        image_token_id=pieces.index("<|image|>"),
        **{f"{name}_token_id": len(pieces) + number for number, name in enumerate(("video", "audio"))},
    )
    save(stirred(EmbeddingGemma2Model(config)), tokenizer, folder)
    pictures = {"image_processor_type": "Gemma4ImageProcessor", "patch_size": 4, "max_soft_tokens": 70, "resample": 3}
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": pictures}))
    return folder


def tiny_qwen_embedding(folder: Path, *, longest: int = 1024) -> Path:
    """Qwen3-VL-Embedding, in the class and under the names that the hub's checkpoints have."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer, Qwen3VLConfig, Qwen3VLForConditionalGeneration

    folder.mkdir(parents=True)
    pieces = [*sorted(ByteLevel.alphabet()), *QWEN_MARKS]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Qwen2Tokenizer(vocabulary, [], extra_special_tokens=list(QWEN_MARKS[1:]))
    text = {
        **TOWER,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": len(pieces),
        "max_position_embeddings": longest,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 2, 2]},
    }
    vision: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "depth": 2,
        "num_heads": 2,
        "out_hidden_size": 32,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0],
    }
    ids = {f"{name}_token_id": vocabulary[f"<|{name}_pad|>"] for name in ("image", "video")}
    ids |= {f"vision_{name}_token_id": vocabulary[f"<|vision_{name}|>"] for name in ("start", "end")}
    config = Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **ids)
    save(stirred(Qwen3VLForConditionalGeneration(config)), tokenizer, folder)
    of_the_hub = {"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "merge_size": 2, "patch_size": 16}
    halves = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    save_processor(folder, "Qwen2VLImageProcessorFast", {**of_the_hub, **halves, "temporal_patch_size": 2})
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "lasttoken"}')
    return folder
