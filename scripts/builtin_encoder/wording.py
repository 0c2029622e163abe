"""Training captions, which name a part of a scene, and the tokenizer that cuts them."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray
from transformers import CLIPTokenizer

from evenreel.planted import Scene, caption, vocabulary
from scripts.builtin_encoder.frames import NAMED, VISIBLE, nonsense_word


def training_caption(scene: Scene, rng: np.random.Generator) -> tuple[str, NDArray[np.bool_]]:
    """A caption of a part of a scene, and which of `VISIBLE` it names; sometimes words that name nothing."""
    junk = " ".join(nonsense_word(rng) for _ in range(int(rng.integers(1, 3))))
    draw = rng.random()
    if draw < 0.05:
        return junk, np.zeros(len(VISIBLE), dtype=bool)
    names = _names(scene, rng)
    text = caption(scene, rng, names)
    if draw < 0.15:
        text = f"{junk} {text}" if rng.random() < 0.5 else f"{text} {junk}"
    return text, np.array([name in names for name in VISIBLE])


def _names(scene: Scene, rng: np.random.Generator) -> set[str]:
    names = {name for name, share in (("colour", 0.7), ("shape", 0.75), ("background", 0.6)) if rng.random() < share}
    scale = vocabulary.activities()[scene.activity].scale
    if rng.random() < 0.1 and scale == vocabulary.Track(1.0, 1.0):
        names.add("size")
    if not names:
        names.add("shape")
    if rng.random() < 0.2:
        names.add("activity")
    return names


def build_tokenizer() -> CLIPTokenizer:
    """A byte-level BPE in CLIP's form: each word of the grammar is one token, any other falls into pieces."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    bpe.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=4_000, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False
    )
    bpe.train_from_iterator(_grammar_words(), trainer)
    merges = [tuple(pair) for pair in json.loads(bpe.to_str())["model"]["merges"]]
    tokens = [*alphabet, *(f"{letter}</w>" for letter in alphabet)]
    tokens += list(dict.fromkeys("".join(pair) for pair in merges))
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    ids = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    return CLIPTokenizer(vocab=ids, merges=merges, model_max_length=64)


def _grammar_words() -> list[str]:
    phrases = [*vocabulary.sentences(), *vocabulary.unnamed_shapes(), "an", "something", "video", "film", "footage"]
    for attribute, values in NAMED.items():
        phrases += [word for value in values for word in vocabulary.words_for(attribute, value)]
    for activity in vocabulary.activities().values():
        phrases += [*activity.does, *activity.doing]
    words = " ".join(phrases).replace("{", " ").replace("}", " ").replace(",", " ").replace("-", " ").split()
    return sorted(set(words))
