"""Rendered clips, encoded by the built-in model, of which the scripts beside it make libraries.

There are two halves with clips of their own, one to choose on and one to report. Each has pictures of a coloured shape
in a place (`alone`, three clips of each of the 512), and of such a shape beside which another one may stand (`beside`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from evenreel.encoders import load_encoder
from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import create_schema, set_meta, transaction
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import ExactVectors, update_null_scores
from evenreel.planted import Entity, Renderer, Scene, sample_scene, vocabulary
from evenreel.types import Encoder, FloatArray, TextEmbedding

os.environ.setdefault("OMP_NUM_THREADS", "1")

Half = Literal["choose", "report"]
HALVES: tuple[Half, ...] = ("choose", "report")
Kind = Literal["alone", "beside"]

COLOURS, SHAPES, PLACES = tuple(vocabulary.colours()), vocabulary.shapes(), tuple(vocabulary.backgrounds())
EACH = 3
"""Clips of each colour, shape and place, alone."""
BESIDE = 1_200
"""Clips of a shape that another may stand beside."""
ACCOMPANIED = 0.6
"""Share of these in which another one does."""

WHERE = {
    "forest": "in a forest",
    "beach": "on a beach",
    "desert": "in a desert",
    "mountains": "in the mountains",
    "city": "in a city at night",
    "meadow": "in a meadow",
    "sea": "under the sea",
    "room": "in a room",
}


@dataclass(frozen=True, eq=False)
class ScenePool:
    """C rendered clips, a frame a second.

    Attributes:
        vectors: (R, D) frames.
        first_rows: (C,) first row of each clip.
        counts: (C,) its rows.
        shown: (C, 3) its colour, shape and place.
        beside: (C, 2) colour and shape of what stands beside, -1 for nothing.
    """

    vectors: NDArray[np.float16]
    first_rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    shown: NDArray[np.int64]
    beside: NDArray[np.int64]

    def frames(self, clip: int) -> FloatArray:
        """Vectors of a clip, (T, D)."""
        first = self.first_rows[clip]
        return self.vectors[first : first + self.counts[clip]].astype(np.float32)


def thing(colour: int, shape: int) -> str:
    word = f"{COLOURS[colour]} {SHAPES[shape]}"
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def where(place: int) -> str:
    return WHERE[PLACES[place]]


def scene_in_words(shown: Sequence[int]) -> str:
    colour, shape, place = map(int, shown)
    return f"{thing(colour, shape)} {where(place)}"


def frames_of(scene: Scene, encoder: Encoder) -> NDArray[np.float16]:
    """Render a scene, a frame a second, and encode it: (T, D)."""
    renderer = Renderer(scene)
    times_s = np.arange(0, scene.duration_s - 1e-6, 1.0)
    pictures = np.stack([np.asarray(renderer.picture(float(time_s)).convert("RGB")) for time_s in times_s])
    return encoder.encode_windows(pictures.transpose(0, 3, 1, 2)[:, None]).astype(np.float16)


def pool_of(kind: Kind, half: Half) -> ScenePool:
    """Clips of a kind and half, kept in the user's cache folder."""
    encoder = load_encoder("builtin", device="cpu")
    kept = user_cache_path("evenreel") / "benchmarks" / f"asking-{encoder.weights_hash[:16]}-{kind}-{half}.npz"
    if not kept.exists():
        pool = _rendered(kind, np.random.default_rng([2030, HALVES.index(half), len(kind)]), encoder)
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **vars(pool))
    with np.load(kept) as held:
        return ScenePool(**{name: held[name] for name in ("vectors", "first_rows", "counts", "shown", "beside")})


def _rendered(kind: Kind, rng: np.random.Generator, encoder: Encoder) -> ScenePool:
    triples = [(c, s, p) for c in range(len(COLOURS)) for s in range(len(SHAPES)) for p in range(len(PLACES))]
    shown = triples * EACH if kind == "alone" else [triples[at] for at in rng.integers(len(triples), size=BESIDE)]
    vectors, beside = [], []
    for colour, shape, place in shown:
        scene = sample_scene(rng)
        subject = replace(scene.subject, colour=COLOURS[colour], shape=SHAPES[shape])
        other = _another(colour, shape, rng) if kind == "beside" and rng.random() < ACCOMPANIED else (-1, -1)
        entities = [subject, *([] if other[0] < 0 else [_standing(subject, other, rng)])]
        vectors.append(frames_of(replace(scene, entities=tuple(entities), background=PLACES[place], signs=()), encoder))
        beside.append(other)
    counts = np.array([len(one) for one in vectors])
    return ScenePool(np.concatenate(vectors), np.cumsum(counts) - counts, counts, np.array(shown), np.array(beside))


def _another(colour: int, shape: int, rng: np.random.Generator) -> tuple[int, int]:
    return (
        (colour + 1 + int(rng.integers(len(COLOURS) - 1))) % len(COLOURS),
        (shape + 1 + int(rng.integers(len(SHAPES) - 1))) % len(SHAPES),
    )


def _standing(subject: Entity, other: tuple[int, int], rng: np.random.Generator) -> Entity:
    """The other one, on the other side of the picture."""
    x = (-1.3 if subject.x > 0 else 1.3) * float(rng.uniform(0.8, 1.0))
    return Entity(SHAPES[other[1]], COLOURS[other[0]], subject.size, x=x, y=float(rng.uniform(-0.6, 0.6)))


@dataclass(frozen=True, eq=False)
class Pool:
    """Rendered clips: frames (R, D), first row and number of frames (C,), colour, shape and place of each (C, 3)."""

    vectors: NDArray[np.float16]
    first_rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    shown: NDArray[np.int64]


class RememberingEncoder:
    """An encoder that encodes each text once, for the same are asked of every library."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._known = encoder, dict[str, TextEmbedding]()
        self.encoder_id, self.weights_hash, self.dimension = encoder.encoder_id, encoder.weights_hash, encoder.dimension
        self.window = encoder.window
        self.encode_windows, self.truncated = encoder.encode_windows, encoder.truncated

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """Texts by themselves, so that none depends on another's length."""
        for text in set(captions) - self._known.keys():
            self._known[text] = self._encoder.encode_text([text])
        sentence = np.concatenate([self._known[text].sentence for text in captions])
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)


def library_of(pool: Pool, clips: Sequence[int], folder: Path, encoder: Encoder) -> Searcher:
    """A library of some of the clips, in memory, as an index run leaves it."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(connection)
    vectors = ExactVectors(folder / "vectors.0.f16", encoder.dimension)
    spans = [slice(pool.first_rows[clip], pool.first_rows[clip] + pool.counts[clip]) for clip in clips]
    vectors.append(np.concatenate([pool.vectors[span] for span in spans]).astype(np.float32), at_row=0)
    connection.execute("BEGIN")
    row = 0
    for number in clips:
        name, frames = str(number), int(pool.counts[number])
        connection.execute(
            "INSERT INTO clips VALUES (?, 'mp4', 'h264', 320, 240, ?, 12, 1, 1, '[]', '')", (name, frames)
        )
        connection.execute(
            "INSERT INTO files VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, NULL, NULL, '{}')",
            (f"/{name}.mp4", "v.mp4", name),
        )
        connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (name, row, frames))
        moments = [(name, frame, float(frame), frame - 0.5, frame + 0.5) for frame in range(frames)]
        connection.executemany("INSERT INTO moments VALUES (?, ?, ?, ?, ?)", moments)
        row += frames
    rebuild_full_text(connection)
    connection.execute("COMMIT")
    with transaction(connection):
        set_meta(connection, {"weights_hash": encoder.weights_hash})
        update_null_scores(connection, vectors, encoder)
    return Searcher(connection, lambda _: vectors, lambda: encoder, folder)


DRAWS = 2_000


def interval(values: Sequence[float], seed: int = 0) -> str:
    """Write the mean of values with its 95 % interval, by drawing the values anew."""
    found = np.asarray(values, float)
    draws = np.random.default_rng(seed).integers(len(found), size=(DRAWS, len(found)))
    low, high = np.quantile(found[draws].mean(axis=1), (0.025, 0.975))
    return f"{found.mean():.3f} ({low:.3f} to {high:.3f})"


def average_precision(scores: np.ndarray, right: np.ndarray) -> float:
    """Average precision of clips (C,) ranked by falling scores."""
    ranked = right[np.argsort(-scores, kind="stable")]
    return float((ranked.cumsum() / np.arange(1, len(ranked) + 1))[ranked].mean())
