"""Real checkpoints of a few kilobytes, made on the spot: random weights, but the true model and tokenizer classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

SIDE = 32
WORDS = ["a", "the", "red", "blue", "ball", "dog", "runs", "over", "bridge", "train", "park", "rolls", "on"]
SENTENCES = [f"a {one} {two} the {three}" for one in WORDS for two in WORDS for three in WORDS]

TOWER: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = {**TOWER, "image_size": SIDE, "patch_size": 8}


def tiny_clip(folder: Path, *, seed: int = 0) -> Path:
    """A CLIP checkpoint with a byte-pair tokenizer that knows whole words of `WORDS`, and letters."""
    from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary, merges = _byte_pairs()
    start, end = len(vocabulary) - 2, len(vocabulary) - 1
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77)
    text = {
        **TOWER,
        "vocab_size": len(vocabulary),
        "max_position_embeddings": 77,
        "bos_token_id": start,
        "eos_token_id": end,
        "pad_token_id": end,
    }
    torch.manual_seed(seed)
    config = CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16, initializer_factor=2.0)
    save(CLIPModel(config), tokenizer, folder)
    save_processor(folder, "CLIPImageProcessor", {"size": {"shortest_edge": SIDE}, "crop_size": SIDE, "resample": 3})
    return folder


def tiny_siglip(folder: Path, *, seed: int = 0) -> Path:
    """A SigLIP checkpoint with a sentencepiece tokenizer trained on `SENTENCES`."""
    import sentencepiece
    from transformers import SiglipConfig, SiglipModel, SiglipTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_prefix=str(folder / "spiece"),
        vocab_size=60,
        pad_id=-1,
        bos_id=-1,
        eos_id=1,
        unk_id=2,
        hard_vocab_limit=False,
        add_dummy_prefix=False,
        minloglevel=2,
    )
    (folder / "spiece.vocab").unlink()
    tokenizer = SiglipTokenizer(str(folder / "spiece.model"), model_max_length=64, model_input_names=["input_ids"])
    text = {
        **TOWER,
        "vocab_size": 64,
        "max_position_embeddings": 64,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "pad_token_id": 1,
    }
    torch.manual_seed(seed)
    save(SiglipModel(SiglipConfig(text_config=text, vision_config=VISION)), tokenizer, folder)
    save_processor(folder, "SiglipImageProcessor", {"size": {"height": SIDE, "width": SIDE}, "resample": 2})
    return folder


def tiny_siglip2(folder: Path, *, seed: int = 0) -> Path:
    """A SigLIP 2 checkpoint of fixed resolution: SigLIP's towers with Gemma's kind of tokenizer, lower-casing."""
    from transformers import Siglip2Tokenizer

    tiny_siglip(folder, seed=seed)
    (folder / "spiece.model").unlink()
    letters = [*"abcdefghijklmnopqrstuvwxyz!.,'", "\u2581"]
    vocabulary = {piece: number for number, piece in enumerate(["<pad>", "<eos>", "<bos>", "<unk>", *letters])}
    tokenizer = Siglip2Tokenizer(vocabulary, [], padding_side="right", model_input_names=["input_ids"])
    tokenizer.save_pretrained(folder)
    return folder


def _byte_pairs() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges: every byte, every byte at a word's end, and each word built up from the left."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    pieces = letters + [f"{letter}</w>" for letter in letters]
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        parts = [*word[:-1], f"{word[-1]}</w>"]
        while len(parts) > 1:
            if (parts[0], parts[1]) not in merges:
                merges.append((parts[0], parts[1]))
            parts = [parts[0] + parts[1], *parts[2:]]
    pieces += [left + right for left, right in merges] + ["<|startoftext|>", "<|endoftext|>"]
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}, merges


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save a model and its tokenizer."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_processor(folder: Path, kind: str, settings: dict[str, Any]) -> None:
    """Save the settings of an image processor under the name of its class."""
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": kind, **settings}))
