"""A small corpus of real clips and mirrors of two codecs, rates, shapes and lengths; one mirror is damaged."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from evenreel.corpus import make_corpus
from evenreel.planted import write_clip
from evenreel.types import Corpus
from tests.media_files import Film, numbered_picture, write_film

REAL_SIZE, MADE_SIZE = (96, 64), (96, 48)
REAL_FPS, MADE_FPS = 20, 10
REAL_FRAMES, MADE_FRAMES = (40, 50, 60), (16, 18)


def write_mirrors(folder: Path) -> Corpus:
    """Clips `r0` to `r2` are real, `g0` and `g1` mirror two of them; `bad` mirrors r0 too; `part` is a piece of r2."""
    for number, count in enumerate(REAL_FRAMES):
        pictures = [numbered_picture(place, *REAL_SIZE) for place in range(count)]
        write_clip(folder / f"r{number}.mp4", pictures, REAL_FPS)
    for number, count in enumerate(MADE_FRAMES):
        times = [place * 100 for place in range(count)]
        write_film(folder / f"g{number}.mkv", Film(times, codec="mpeg4", size=MADE_SIZE))
    (folder / "bad.mp4").write_text("not a video")
    rows = [
        ("r0", "r0.mp4", "camera", None, None, None),
        ("r1", "r1.mp4", "camera", None, None, None),
        ("r2", "r2.mp4", "camera", None, None, None),
        ("g0", "g0.mkv", "sora", "r0", None, None),
        ("g1", "g1.mkv", "sora", "r1", None, None),
        ("bad", "bad.mp4", "sora", "r0", None, None),
        ("part", "r2.mp4", "camera", None, 1.0, 2.0),
    ]
    clips = pl.DataFrame(rows, ["clip_id", "path", "source", "pair_id", "start_s", "end_s"], orient="row")
    captions = pl.DataFrame(
        {"caption_id": ["0", "1", "2", "3"], "clip_id": ["r0", "r1", "r2", "r0"], "text": ["a", "b", "c", "d"]}
    )
    return make_corpus(clips, captions)
