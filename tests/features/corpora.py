"""A small corpus of real files, with clips that are parts of one of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from evenreel.corpus import make_corpus
from evenreel.types import Corpus
from tests.library.videos import write_video

CAPTIONS = ["a red square moves", "a blue square", "a red square moves", "something else happens here today"]


def write_corpus(folder: Path) -> Corpus:
    """Clips `a` and `b` are whole files, `c` and `d` parts of a third."""
    for number, name in enumerate(["one", "two", "three"]):
        write_video(folder / f"{name}.mp4", number, seconds=4.0)
    clips = pl.DataFrame(
        {
            "clip_id": ["a", "b", "c", "d"],
            "path": ["one.mp4", "two.mp4", "three.mp4", "three.mp4"],
            "start_s": [None, None, 0.0, 1.0],
            "end_s": [None, None, 2.0, 30.0],
        }
    )
    return corpus_of(clips, CAPTIONS)


def corpus_of(clips: pl.DataFrame, captions: list[str]) -> Corpus:
    """The captions go to the clips in turn."""
    ids = clips["clip_id"].to_list()
    owners = [ids[number % len(ids)] for number in range(len(captions))]
    names = [str(number) for number in range(len(captions))]
    return make_corpus(clips, pl.DataFrame({"caption_id": names, "clip_id": owners, "text": captions}))
