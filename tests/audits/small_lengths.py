"""A corpus of classes whose lengths in training have nothing to do with those in test, and rankings of it."""

from __future__ import annotations

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus
from evenreel.types import Corpus, Scores

VERBS, NOUNS, TRAINED, TESTED = 8, 6, 6, 5
CLASSES = VERBS * NOUNS


def training_clips(seed: int = 0) -> tuple[Corpus, np.ndarray]:
    """The training clips, and the mean length of each class."""
    generator = np.random.default_rng(seed)
    typical = np.exp(generator.normal(5, 0.7, CLASSES))
    lengths = np.maximum(1, np.rint(np.repeat(typical, TRAINED) * generator.uniform(0.7, 1.3, CLASSES * TRAINED)))
    return corpus_of("train", lengths, TRAINED), lengths.reshape(CLASSES, TRAINED).mean(axis=1)


def ranked_clips(seed: int = 1) -> tuple[Corpus, np.ndarray]:
    """The test clips and their lengths."""
    generator = np.random.default_rng(seed)
    lengths = np.rint(np.exp(generator.normal(5, 0.7, CLASSES * TESTED))) + 1
    return corpus_of("test", lengths, TESTED), lengths


def corpus_of(split: str, lengths: np.ndarray, each: int) -> Corpus:
    """`each` clips of every class with a caption, all of one split."""
    numbers = np.repeat(np.arange(CLASSES), each).tolist()
    ids = [f"{split}{row}" for row in range(len(lengths))]
    classes = {"verb_classes": [[one // NOUNS] for one in numbers], "noun_classes": [[one % NOUNS] for one in numbers]}
    count = len(ids)
    clips = {"clip_id": ids, "frame_count": lengths.astype(np.int64), "fps": [60.0] * count, "split": [split] * count}
    captions = {"caption_id": [f"c{one}" for one in ids], "clip_id": ids, "text": [f"do {one}" for one in numbers]}
    return make_corpus(pl.DataFrame(clips | classes), pl.DataFrame(captions | classes))


def ranking(lean: float, longer: float = 0.0, seed: int = 2) -> Scores:
    """Verb and noun with noise; `lean` draws to the length of training, `longer` to long clips."""
    _, means = training_clips()
    corpus, lengths = ranked_clips()
    number = np.repeat(np.arange(CLASSES), TESTED)
    alike = 0.5 * (number[:, None] // NOUNS == number // NOUNS) + 0.5 * (number[:, None] % NOUNS == number % NOUNS)
    noise = 0.3 * np.random.default_rng(seed).normal(size=alike.shape)
    far = np.abs(np.log(lengths)[None] - np.log(means[number])[:, None])
    ids = corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()
    return Scores(alike + noise - lean * far + longer * np.log(lengths), *ids)
