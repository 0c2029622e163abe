"""Makes small models of speech in both forms: Whisper of random weights, and a graph that hears what it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

LANGUAGES = ("en", "de", "fr", "pt")
_SPECIAL = ("<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES))
_TASKS = ("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>")


def write_whisper(folder: Path) -> Path:
    """Write a Whisper model of random weights in CTranslate2's form: one layer of 16 numbers, bytes as tokens."""
    import torch
    from ctranslate2.converters.transformers import WhisperLoader
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    times = [f"<|{number * 0.02:.2f}|>" for number in range(1501)]
    special = [*_SPECIAL, *_TASKS, *times]
    tokens = [*letters, *special]

    tokenizer = Tokenizer(models.BPE({token: place for place, token in enumerate(letters)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = [tokenizer.token_to_id(token) for token in tokens]
    assert ids == list(range(len(tokens))), "the words of the model are not those of its tokenizer"

    torch.manual_seed(0)
    sizes = {f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in _SIZES.items()}
    end, start = (tokens.index(token) for token in _SPECIAL[:2])
    config = WhisperConfig(
        vocab_size=len(tokens), d_model=16, num_mel_bins=80, eos_token_id=end, pad_token_id=end, bos_token_id=end,
        decoder_start_token_id=start, suppress_tokens=[], begin_suppress_tokens=[], init_std=0.5, **sizes,
    )  # fmt: skip
    spec = WhisperLoader().get_model_spec(WhisperForConditionalGeneration(config).eval())
    spec.config.suppress_ids, spec.config.suppress_ids_begin = [], []
    spec.config.lang_ids = [tokens.index(f"<|{code}|>") for code in LANGUAGES]
    spec.config.alignment_heads = [[0, 0], [0, 1]]
    spec.register_vocabulary(tokens)
    spec.validate()
    spec.save(str(folder))
    return folder


_SIZES = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}

FRAME_S = 0.08
"""What one step of the graph below stands for."""


def write_onnx(folder: Path, spoken: Mapping[int, str], *, vocabulary: tuple[str, ...]) -> Path:
    """Write a model of onnx-asr's type `nemo-conformer-ctc` that hears the given tokens at the given steps.

    Of a shorter sound it hears those of the steps that there are. Each token is heard with a chance of one half.
    """
    from onnx import TensorProto, helper, numpy_helper, save

    words = [*vocabulary, "<blk>"]
    table = np.full((1, 1000, len(words)), -9.0, np.float32)
    table[0, :, -1] = 0.0
    for step, token in spoken.items():
        table[0, step, -1] = -9.0
        table[0, step, words.index(token)] = np.log(0.5)
    constants = {"table": table} | {name: np.array([value], np.int64) for name, value in _NUMBERS.items()}
    nodes = [
        helper.make_node("Sub", ["length", "one"], ["before"]),
        helper.make_node("Div", ["before", "eight"], ["steps"]),
        helper.make_node("Add", ["steps", "one"], ["end"]),
        helper.make_node("Slice", ["table", "zero", "end", "one"], ["logprobs"]),
    ]
    graph = helper.make_graph(
        nodes,
        "told",
        [
            helper.make_tensor_value_info("audio_signal", TensorProto.FLOAT, [None, 80, None]),
            helper.make_tensor_value_info("length", TensorProto.INT64, [None]),
        ],
        [helper.make_tensor_value_info("logprobs", TensorProto.FLOAT, [None, None, len(words)])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    folder.mkdir(parents=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx")
    lines = [f"{word} {place}" for place, word in enumerate(words)]
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "nemo-conformer-ctc"}))
    return folder


_NUMBERS = {"zero": 0, "one": 1, "eight": 8}
