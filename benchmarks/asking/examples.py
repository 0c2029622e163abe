"""What examples do for a search: clips marked right and wrong, and a picture with words.

    python -m benchmarks.asking.examples [--half report] [--queries 300]

Rendered clips of a coloured shape in a place, three of each of the 512, are ranked by their best frame, as a search by
the built-in model does. `--half choose` prints the grids that the weights were chosen from.

- Marks: two of colour, shape and place are looked for. A `vague` query names one of the two, a `precise` one both. Of
  its first 24 clips the first three right and the first three wrong ones are marked; queries without a right one are
  left out. Recall is the share of the right clips among as many clips as these are, marked ones left out of both.
- A picture with words: a frame of a clip and the words of another place ('in a forest'); right are the clips of that
  coloured shape in that place.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.asking.pool import (
    COLOURS,
    HALVES,
    PLACES,
    SHAPES,
    ScenePool,
    average_precision,
    interval,
    pool_of,
    scene_in_words,
    where,
)
from evenreel.encoders import load_encoder
from evenreel.library.search.asking import PICTURE_WEIGHT, RocchioWeights
from evenreel.library.search.seen import unit
from evenreel.types import Encoder, FloatArray

LOOKED_AT, MARKED = 24, 3
BETAS, GAMMAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0), (0.0, 0.15, 0.25, 0.5)
TEXTBOOK = RocchioWeights(1.0, 0.75, 0.15)
TWO = ((0, 1), (0, 2), (1, 2))


@dataclass(frozen=True, eq=False)
class RankedPool:
    """Rendered clips and the model that ranks them."""

    pool: ScenePool
    encoder: Encoder

    def similarities(self, vector: FloatArray) -> np.ndarray:
        """Similarity of every frame to a vector, (R,)."""
        return self.pool.vectors.astype(np.float32) @ vector

    def best(self, similarities: np.ndarray) -> np.ndarray:
        """Best of each clip, (C,)."""
        return np.maximum.reduceat(similarities, self.pool.first_rows)

    def text(self, sentence: str) -> FloatArray:
        """Encode a sentence (D,)."""
        return unit(self.encoder.encode_text([sentence]).sentence[0])

    def clip(self, clip: int) -> FloatArray:
        """A clip as an example (D,): the mean of its frames, as the library gives it."""
        return unit(self.pool.frames(clip).mean(axis=0))


def words(shown: Sequence[int], named: Sequence[int]) -> str:
    colour, shape, place = map(int, shown)
    thing = f"a {SHAPES[shape]}" if 1 in named else "something"
    thing = thing.replace("a ", f"a {COLOURS[colour]} ") if 0 in named and 1 in named else thing
    thing = f"something {COLOURS[colour]}" if 0 in named and 1 not in named else thing
    return f"{thing} {where(place)}" if 2 in named else thing


def recalls(ranked: RankedPool, rng: np.random.Generator, *, vague: bool) -> dict[tuple[float, float], float] | None:
    """Recall of a drawn query by weights of what is right and wrong; None where nothing right can be marked."""
    shown = ranked.pool.shown
    clip, wanted = shown[int(rng.integers(len(shown)))], TWO[int(rng.integers(len(TWO)))]
    named = (wanted[int(rng.integers(2))],) if vague else wanted
    right = np.all([shown[:, at] == clip[at] for at in wanted], axis=0)
    before = ranked.similarities(ranked.text(words(clip, named)))
    first = np.argsort(-ranked.best(before), kind="stable")[:LOOKED_AT]
    good, bad = first[right[first]][:MARKED], first[~right[first]][:MARKED]
    if not len(good):
        return None
    toward, away = (
        ranked.similarities(np.mean([ranked.clip(int(one)) for one in some], axis=0)) if len(some) else 0 * before
        for some in (good, bad)
    )
    rest = right.copy()
    rest[[*good, *bad]] = False

    def recall(similarities: np.ndarray) -> float:
        scores = ranked.best(similarities)
        scores[[*good, *bad]] = -np.inf
        return float(rest[np.argsort(-scores, kind="stable")[: rest.sum()]].mean())

    return {(beta, gamma): recall(before + beta * toward - gamma * away) for beta, gamma in product(BETAS, GAMMAS)}


def marks(ranked: RankedPool, queries: int, *, choose: bool) -> Iterator[str]:
    for kind in ("vague", "precise"):
        rng, found = np.random.default_rng(31), []
        for _ in range(queries):
            found += [one] if (one := recalls(ranked, rng, vague=kind == "vague")) else []
        ours = RocchioWeights()
        for name, weights in (
            ("before", (0.0, 0.0)),
            ("marked", (ours.beta, ours.gamma)),
            ("textbook weights", (TEXTBOOK.beta, TEXTBOOK.gamma)),
        ):
            yield f"{kind}, {len(found)} queries, {name}: recall {interval([one[weights] for one in found])}"
        change = [one[ours.beta, ours.gamma] - one[0.0, 0.0] for one in found]
        yield f"{kind}, change: {interval(change)}"
        if choose:
            for beta in BETAS:
                row = " ".join(f"{np.mean([one[beta, gamma] for one in found]):.3f}" for gamma in GAMMAS)
                yield f"  beta {beta}: {row} (gamma {', '.join(map(str, GAMMAS))})"


def pictures(ranked: RankedPool, queries: int, *, choose: bool) -> Iterator[str]:
    rng, shown = np.random.default_rng(32), ranked.pool.shown
    weights = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7) if choose else (PICTURE_WEIGHT,)
    found: dict[str, list[float]] = {}
    for _ in range(queries):
        clip = int(rng.integers(len(shown)))
        place = int((shown[clip, 2] + 1 + rng.integers(len(PLACES) - 1)) % len(PLACES))
        right = (shown[:, 0] == shown[clip, 0]) & (shown[:, 1] == shown[clip, 1]) & (shown[:, 2] == place)
        frames = ranked.pool.frames(clip)
        picture, text = unit(frames[len(frames) // 2]), ranked.text(where(place))
        whole = ranked.text(scene_in_words((*shown[clip, :2], place)))
        asked = {"picture alone": picture, "words alone": text, "all of it in words": whole}
        asked |= {f"both, picture {weight}": weight * picture + (1 - weight) * text for weight in weights}
        for name, vector in asked.items():
            scores = ranked.best(ranked.similarities(vector))
            scores[clip] = -np.inf
            found.setdefault(name, []).append(average_precision(scores, right))
    for name, values in found.items():
        yield f"{name}: average precision {interval(values)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--queries", type=int, default=300)
    given = parser.parse_args()
    ranked = RankedPool(pool_of("alone", given.half), load_encoder("builtin", device="cpu"))
    for lines in (marks, pictures):
        for line in lines(ranked, given.queries, choose=given.half == "choose"):
            print(line, flush=True)


if __name__ == "__main__":
    main()
