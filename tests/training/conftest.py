"""A tiny CLIP and a corpus of a few short videos, one of which is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import make_corpus, save_corpus
from evenreel.planted import write_clip
from tests.tiny_checkpoints import WORDS, tiny_clip

CLIPS = 10
BROKEN = "v3"


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_clip(tmp_path_factory.mktemp("model") / "clip")


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six clips to learn from, of which one cannot be read, and four to select on; two captions each."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(5)
    for number in range(CLIPS):
        shade = random.integers(0, 256, (1, 6, 8, 3), dtype=np.uint8).repeat(8, axis=1).repeat(8, axis=2)
        moving = [np.roll(shade[0], 4 * step, axis=1) for step in range(4 + number % 3)]
        write_clip(folder / f"v{number}.mp4", moving, fps=4)
    (folder / f"{BROKEN}.mp4").write_bytes(b"this is no video")
    names = [f"v{number}" for number in range(CLIPS)]
    clips = pl.DataFrame(
        {
            "clip_id": names,
            "path": [f"{name}.mp4" for name in names],
            "split": ["train"] * 6 + ["val"] * 4,
            "start_s": [0.5 if name == "v1" else None for name in names],
        }
    )
    texts = [f"{WORDS[2 + number % 9]} {WORDS[3 + number % 7]} {' '.join(WORDS[: number % 5])}" for number in range(20)]
    captions = pl.DataFrame(
        {
            "caption_id": [f"c{number}" for number in range(20)],
            "clip_id": [names[number // 2] for number in range(20)],
            "text": texts,
        }
    )
    save_corpus(make_corpus(clips, captions), folder)
    return folder
