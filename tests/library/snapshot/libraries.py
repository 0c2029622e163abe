"""Small libraries on disk, of clips about random words."""

from __future__ import annotations

import random
from pathlib import Path

from evenreel.features.stills import Stills, write_stills
from evenreel.library.store.catalog import set_meta
from evenreel.library.store.confidence import update_null_scores
from evenreel.library.store.fulltext import rebuild_full_text
from tests.library.fakes import Library, on_disk

WORDS = [
    "red",
    "bus",
    "dog",
    "beach",
    "snow",
    "mountain",
    "guitar",
    "concert",
    "pancake",
    "kitchen",
    "blue",
    "boat",
    "harbour",
    "tram",
    "café",
]


def clip_id(number: int) -> str:
    return f"{number:032x}"


def make_library(folder: Path, seed: int, clips: int = 30, *, generator: bool = True) -> Path:
    """A library of clips with frames, signs, files that are gone or broken, metadata, and stills of some."""
    draw = random.Random(seed)
    made = on_disk(folder)
    made.connection.execute("PRAGMA synchronous = OFF")
    made.connection.execute("BEGIN")
    for number in draw.sample(range(1000), clips):
        add_clip(made, folder, draw, number, generator=generator)
    made.add_file("/v/broken.mp4", None, state="set_aside")
    made.connection.execute("INSERT INTO roots VALUES ('/v')")
    finish(made)
    return folder


def add_clip(made: Library, folder: Path, draw: random.Random, number: int, *, generator: bool = True) -> None:
    one, captions = clip_id(number), [" ".join(draw.choices(WORDS, k=2)) for _ in range(draw.randrange(0, 6))]
    made.add_clip(one, captions, duration_s=draw.choice([4.0, 8.0, 20.0]))
    for _ in range(draw.randrange(0, 3)):
        made.add_track(one, " ".join(draw.choices(WORDS, k=2)), draw.choice(WORDS), start_s=draw.random())
    metadata = (
        {"caption": " ".join(draw.choices(WORDS, k=3)), "score": draw.randrange(9)} if draw.random() < 0.5 else {}
    )
    if generator:
        metadata["source"] = draw.choice(["camera", "generator_a"])
    path = f"/v/{draw.choice(WORDS)}_{number}.mp4"
    made.add_file(path.encode() + b"\xff" if draw.random() < 0.1 else path, one, metadata)
    if draw.random() < 0.2:
        made.add_file(f"/v/copy of {number}.mp4", one, metadata, state=draw.choice(["indexed", "missing"]))
    if captions and draw.random() < 0.3:
        write_stills(folder / "stills", one, Stills([0.5], [draw.randbytes(40)], 40))


def finish(made: Library) -> None:
    """Derive what an index run derives, and close the library."""
    rebuild_full_text(made.connection)
    update_null_scores(made.connection, made.vectors, made.encoder)
    (rows,) = made.connection.execute("SELECT coalesce(max(first_row + count), 0) FROM vector_rows").fetchone()
    set_meta(made.connection, {"vectors_end": str(rows), "vectors_generation": "0"})
    made.connection.execute("COMMIT")
    made.connection.close()
