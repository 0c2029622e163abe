"""CLAP checkpoints of some hundred kilobytes, with transformers' own classes: random, or made to tell tones apart.

The last layer of both projections is set by least squares, so that a sentence and the tone that it names get the same
direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

RATE = 48_000
TONES = {"a low hum": 200.0, "a steady tone": 1_000.0, "a high beep": 3_000.0, "soft noise": 0.0}
"""Sentences, and the pitch in Hz of the tones that they name."""
WORDS = sorted({word for sentence in TONES for word in sentence.split()} | {"nothing", "dog", "rain", "of", "the"})


def tone(pitch: float, length_s: float, rate: int = RATE, seed: int = 0) -> NDArray[np.float32]:
    """(N,): a tone with a little noise; a pitch of 0 is noise alone."""
    rng, times = np.random.default_rng(seed), np.arange(round(length_s * rate)) / rate
    wave = 0.4 * np.sin(2 * np.pi * pitch * times) if pitch else np.zeros(len(times))
    return (wave + 0.02 * rng.standard_normal(len(times))).astype(np.float32)


def write_clap(folder: Path, *, fusion: bool = False, seed: int = 0, listens: bool = False, window_s: int = 10) -> Path:
    """Write a checkpoint; one that `listens` has text and sound agree for `TONES`."""
    from transformers import ClapConfig, ClapFeatureExtractor, ClapModel, ClapProcessor

    torch.manual_seed(seed)
    tokenizer = _tokenizer()
    text = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "max_position_embeddings": 34, "projection_dim": 16,
    }  # fmt: skip
    audio = {
        "patch_embeds_hidden_size": 16, "depths": [1, 1], "num_attention_heads": [2, 2], "num_hidden_layers": 2,
        "hidden_size": 32, "projection_dim": 16, "enable_fusion": fusion, "window_size": 4,
        "patch_embed_input_channels": 1, "num_classes": 4,
    }  # fmt: skip
    config = ClapConfig(text_config=text, audio_config=audio, projection_dim=16)
    model = ClapModel(config).eval()
    extractor = ClapFeatureExtractor(
        feature_size=64,
        sampling_rate=RATE,
        max_length_s=window_s,
        truncation="fusion" if fusion else "rand_trunc",
        padding="repeatpad",
    )
    if listens:
        _agree(model, extractor, tokenizer, TONES)
    model.save_pretrained(folder)
    ClapProcessor(feature_extractor=extractor, tokenizer=tokenizer).save_pretrained(folder)
    return folder


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *WORDS]
    inner = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
        mask_token="<mask>", model_max_length=32,
    )  # fmt: skip


def _agree(model: Any, extractor: Any, tokenizer: Any, tones: Mapping[str, float]) -> None:
    """Set the last layer of each projection so that sentences and their tones get the same direction."""
    wanted = torch.eye(16)[: len(tones)] * 4
    heard, aims = [], []
    for place, pitch in enumerate(tones.values()):
        for seed in range(4):
            heard_s = float(extractor.nb_max_samples / RATE)
            made = extractor(
                [tone(pitch * (1 + 0.01 * seed), heard_s, seed=seed)], sampling_rate=RATE, return_tensors="pt"
            )
            with torch.no_grad():
                pooled = model.audio_model(made["input_features"], is_longer=torch.zeros(1, 1, dtype=torch.bool))
                heard.append(model.audio_projection.linear1(pooled.pooler_output).relu()[0])
            aims.append(wanted[place])
    _fit(model.audio_projection.linear2, torch.stack(heard), torch.stack(aims))
    made = tokenizer(list(tones), padding=True, return_tensors="pt")
    with torch.no_grad():
        pooled = model.text_model(**{name: made[name] for name in ("input_ids", "attention_mask")}).pooler_output
        read = model.text_projection.linear1(pooled).relu()
    _fit(model.text_projection.linear2, read, wanted)


def _fit(layer: Any, given: torch.Tensor, wanted: torch.Tensor) -> None:
    rows = torch.cat([given, torch.ones(len(given), 1)], 1).double()
    solved = torch.linalg.lstsq(rows, wanted.double(), driver="gelsd").solution.float()
    with torch.no_grad():
        layer.weight.copy_(solved[:-1].T)
        layer.bias.copy_(solved[-1])
