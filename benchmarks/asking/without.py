"""Whether 'A without X' is better than the sentence as it stands, on rendered clips and on NegBench's forms.

    python -m benchmarks.asking.without [--half report] [--queries 300]

Right are clips that show A and not X. `thing`: A and X are shapes, of which a clip shows one or two. `place`: A is a
coloured shape, X a place. Ranked by how far the best frame is above nonsense, as a search by the built-in model does:

- the sentence in five forms, among them those of NegBench's negated captions (Alhamoud et al., 'Vision-Language Models
  Do Not Understand Negation', CVPR 2025): 'A. There is no X', 'There is no X. A', 'A but not X';
- A alone, as if X had not been said;
- what the library does (`evenreel.library.search.asking`): the vector of X, weighted, taken from that of A;
- the part of A along X taken out; a penalty on what X reaches; clips left out in which X beats 95 % of nonsense.

`choice` is NegBench's question of several answers: of 'A but not X', 'X but not A', 'A and X' and 'neither A nor X'
the right one is to be chosen for a clip that shows the shape A, alone, and not X. `parts` adds what each part of a
sentence reaches, less what each denied one does, above a threshold that was chosen on the other half.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.asking.pool import (
    HALVES,
    PLACES,
    SHAPES,
    Half,
    Kind,
    ScenePool,
    average_precision,
    interval,
    pool_of,
    thing,
    where,
)
from evenreel.encoders import load_encoder
from evenreel.library.search.asking import SHARE
from evenreel.library.search.seen import unit
from evenreel.library.store.vectors import FITS, null_queries
from evenreel.types import Encoder, FloatArray

FORMS = ("{a} without {x}", "{a} but not {x}", "{a} and no {x}", "{a}. There is no {x}.", "There is no {x}. {a}.")
SHARES = (0.1, 0.2, 0.3, 0.5, 0.8)
FIRST = 10
CHOICES = ("{a} but not {x}", "{x} but not {a}", "{a} and {x}", "neither {a} nor {x}")
SIGNS = ((1, -1), (-1, 1), (1, 1), (-1, -1))
"""Which of A and X each choice affirms (1) and denies (-1)."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """Clips, the model, and the scores of nonsense on them."""

    pool: ScenePool
    encoder: Encoder
    means: np.ndarray
    deviations: np.ndarray
    null_best: np.ndarray

    def text(self, sentence: str) -> FloatArray:
        """Encode a sentence (D,)."""
        return unit(self.encoder.encode_text([sentence]).sentence[0])

    def z(self, vector: FloatArray) -> np.ndarray:
        """How far each clip's best frame is above nonsense, (C,)."""
        return (_best(self.pool, vector[None])[0] - self.means) / self.deviations


def _best(pool: ScenePool, vectors: FloatArray) -> np.ndarray:
    return np.maximum.reduceat(vectors @ pool.vectors.astype(np.float32).T, pool.first_rows, axis=1)


def ranked(kind: Kind, half: Half, encoder: Encoder) -> Ranked:
    pool = pool_of(kind, half)
    scores = _best(pool, encoder.encode_text(list(null_queries())).sentence)
    means, deviations = scores.mean(axis=0), scores.std(axis=0)
    return Ranked(pool, encoder, means, deviations, np.sort(((scores - means) / deviations).max(axis=1)))


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be seen and what is not, in words, and which clips show each, (C,)."""

    wanted: str
    unwanted: str
    shows_wanted: np.ndarray
    shows_unwanted: np.ndarray


def shapes_of(pool: ScenePool, shape: int) -> np.ndarray:
    """Which clips show a shape, (C,)."""
    return (pool.shown[:, 1] == shape) | (pool.beside[:, 1] == shape)


def drawn(pool: ScenePool, rng: np.random.Generator, *, place: bool) -> Asked:
    """A question with clips that show both, and such that show A alone."""
    if place:
        colour, shape, at = map(int, pool.shown[int(rng.integers(len(pool.counts)))])
        wanted = (pool.shown[:, 0] == colour) & (pool.shown[:, 1] == shape)
        return Asked(thing(colour, shape), where(at), wanted, pool.shown[:, 2] == at)
    one = int(rng.integers(len(SHAPES)))
    other = int((one + 1 + rng.integers(len(SHAPES) - 1)) % len(SHAPES))
    return Asked(f"a {SHAPES[one]}", f"a {SHAPES[other]}", shapes_of(pool, one), shapes_of(pool, other))


def ways(clips: Ranked, asked: Asked) -> Iterator[tuple[str, np.ndarray]]:
    """Each way with the clips' points, (C,)."""
    a, x = clips.text(asked.wanted), clips.text(asked.unwanted)
    for form in FORMS:
        yield f"'{form}'", clips.z(clips.text(form.format(a=asked.wanted, x=asked.unwanted)))
    yield "A alone", clips.z(a)
    yield "offered", clips.z(unit(a - SHARE * x))
    for share in SHARES:
        yield f"q(A) - {share} q(X)", clips.z(unit(a - share * x))
    yield "without the part along X", clips.z(unit(a - (a @ x) * x))
    yield "penalty of 0.2", clips.z(a) - 0.2 * np.maximum(0, clips.z(x))
    least = clips.null_best[int(np.ceil(FITS * len(clips.null_best))) - 1]
    yield "left out where X fits", clips.z(a) - 100.0 * (clips.z(x) > least)


def retrieval(clips: Ranked, queries: int, *, place: bool) -> Iterator[str]:
    rng = np.random.default_rng(41)
    found: dict[str, list[float]] = {}
    wrong: dict[str, list[float]] = {}
    for _ in range(queries):
        asked = drawn(clips.pool, rng, place=place)
        right = asked.shows_wanted & ~asked.shows_unwanted
        bad = asked.shows_wanted & asked.shows_unwanted
        if right.any() and bad.any():
            for name, points in ways(clips, asked):
                found.setdefault(name, []).append(average_precision(points, right))
                first = np.argsort(-points, kind="stable")[:FIRST]
                wrong.setdefault(name, []).append(float(bad[first].mean()))
    kind = "place" if place else "thing"
    for name, values in found.items():
        shown = f"of the first ten show X {np.mean(wrong[name]):.3f}"
        yield f"{kind}, {name}: average precision {interval(values)}, {shown}"
    ours = np.array(found["offered"])
    best_form = max((f"'{form}'" for form in FORMS), key=lambda name: float(np.mean(found[name])))
    yield f"{kind}, offered less the best sentence ({best_form}): {interval(ours - np.array(found[best_form]))}"
    yield f"{kind}, offered less A alone: {interval(ours - np.array(found['A alone']))}"


def choices(clips: Ranked, chosen_on: Ranked) -> Iterator[str]:
    threshold = max(np.linspace(-2, 8, 41), key=lambda level: float(np.mean(_parts(chosen_on, float(level)))))
    yield f"choice, sentences as they stand: {interval(_sentences(clips))} (chance 0.25)"
    yield f"choice, parts: {interval(_parts(clips, float(threshold)))} (threshold {threshold:.2f})"


def _pairs(clips: Ranked) -> Iterator[tuple[int, int, np.ndarray]]:
    """Each two shapes, with the clips that show the first one alone."""
    for one in range(len(SHAPES)):
        for other in range(len(SHAPES)):
            alone = (clips.pool.shown[:, 1] == one) & (clips.pool.beside[:, 1] < 0)
            if one != other and alone.any():
                yield one, other, np.flatnonzero(alone)


def _sentences(clips: Ranked) -> list[float]:
    right = list[float]()
    for one, other, alone in _pairs(clips):
        texts = [form.format(a=f"a {SHAPES[one]}", x=f"a {SHAPES[other]}") for form in CHOICES]
        points = np.stack([clips.z(clips.text(text))[alone] for text in texts])
        right += (points.argmax(axis=0) == 0).astype(float).tolist()
    return right


def _parts(clips: Ranked, threshold: float) -> list[float]:
    levels = [clips.z(clips.text(f"a {shape}")) - threshold for shape in SHAPES]
    right = list[float]()
    for one, other, alone in _pairs(clips):
        points = np.stack([a * levels[one][alone] + x * levels[other][alone] for a, x in SIGNS])
        right += (points.argmax(axis=0) == 0).astype(float).tolist()
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--queries", type=int, default=300)
    given = parser.parse_args()
    encoder = load_encoder("builtin", device="cpu")
    print(f"share of q(X) that is offered: {SHARE}; {len(PLACES)} places, {len(SHAPES)} shapes")
    beside = ranked("beside", given.half, encoder)
    for lines in (
        retrieval(beside, given.queries, place=False),
        retrieval(ranked("alone", given.half, encoder), given.queries, place=True),
        choices(beside, ranked("beside", "choose", encoder)),
    ):
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
