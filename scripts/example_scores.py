"""Make the scores of two made-up systems, the examples of docs/measure.md and the README.

    evenreel corpus import msrvtt-1ka MSRVTT_JSFUSION_test.csv --out corpus
    python -m scripts.example_scores corpus

Clips are random vectors and captions are their clips with noise: mostly the same noise for both systems. Some
clips are hubs that every caption likes a little.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from evenreel import load_corpus
from evenreel.evaluation import save_scores
from evenreel.types import FloatArray, Scores

DIMENSION = 64


def _unit(vectors: FloatArray) -> FloatArray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main(folder: Path, out: Path = Path()) -> None:
    """Write `baseline.npz` and `new.npz`."""
    corpus = load_corpus(folder)
    captions, clips = corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()
    rng = np.random.default_rng(0)
    videos, noise, other = rng.normal(size=(3, len(clips), DIMENSION))
    hubs = 0.06 * rng.normal(size=len(clips))
    place = {clip: row for row, clip in enumerate(clips)}
    own = [place[clip] for clip in corpus.captions["clip_id"]]
    for name, texts in {"baseline": videos + 2.6 * noise, "new": videos + 2.5 * noise + 0.7 * other}.items():
        values = _unit(texts)[own] @ _unit(videos).T + hubs
        save_scores(Scores(values.astype(np.float32), captions, clips), out / f"{name}.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
