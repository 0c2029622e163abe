"""Which clips of a result are folded as takes of one another, on rendered clips of known kinship?

    python -m benchmarks.same_takes DIR [--scenes 40] [--seed 1] [--model builtin]

DIR gets the clips and a library of them; what is there already is used again. Each scene is rendered, and written again
with stronger compression, at half the size, without its first quarter, and with a tenth of the picture cut off at every
side; these are the same clip. Others have its background, with another colour, another shape or another motion of what
it shows; these are different clips of the same scene. A further take has all of it and other chances (where trees
stand, how the camera shakes); it is told by itself.

Printed are, for several largest distances, the share of same clips that fold (recall) and the share of those that fold
that are the same (precision), each scene's original against its own 4 same and 3 different clips and against the
nearest of the other scenes; then the same at the distance that evenreel measures in the library itself, with intervals
of 95 % by bootstrap over scenes. The scenes of seed 0 chose `NEIGHBOURS`; those of another seed are to be reported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.over_seeds import markdown
from evenreel.config import IndexSettings
from evenreel.library import index_folders, open_library
from evenreel.library.search.alike import NEIGHBOURS, ClipStretch, distance, measure_farthest
from evenreel.library.search.snapshot import Snapshot
from evenreel.media.encode import clip_bytes
from evenreel.planted import Scene, SceneRanges, draw_clip, sample_scene
from evenreel.planted.vocabulary import activities, colours, shapes
from evenreel.types import FloatArray, Pixels

SAME = ("compressed", "smaller", "trimmed", "cropped")
OTHERS = ("other colour", "other shape", "other motion")
TAKE, ORIGINAL, NEAREST = "further take", "original", "another scene"
KEPT = 0.9
"""Share of each side that a crop keeps."""
SHARES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.9)
"""Shares of moments that follow each other which are nearer than takes may be."""
RESAMPLES = 2_000

Distances = dict[str, NDArray[np.float64]]
"""Kind of clip -> (scenes,) its distance to the original."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="builtin")
    asked = parser.parse_args()
    clips, library = asked.folder / "clips", asked.folder / "library"
    write_clips(clips, asked.scenes, asked.seed)
    words_apart = IndexSettings(model=asked.model, read_text=False, speech=None, keep_stills=False)
    index_folders([clips], library, words_apart)
    with open_library(library) as opened, opened.snapshot() as s:
        measured = measure(s, asked.scenes)
    print(report(measured))
    return 0


@dataclass(frozen=True)
class Measured:
    """Distances of every kind, the largest that evenreel lets fold, and those of moments that follow each other."""

    apart: Distances
    farthest: float
    steps: FloatArray


def write_clips(folder: Path, scenes: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for number in range(scenes):
        scene = sample_scene(rng, SceneRanges(duration_s=(5.0, 9.0)))
        for kind, payload in _kin(scene, rng):
            path = folder / f"{number:03}.{kind}.mp4"
            if not path.exists():
                path.write_bytes(payload())


def _kin(scene: Scene, rng: np.random.Generator) -> Iterator[tuple[str, Callable[[], bytes]]]:
    frames, subject, rest = list(draw_clip(scene)), scene.entities[0], scene.entities[1:]
    other = {
        "colour": replace(subject, colour=_another(rng, colours(), subject.colour)),
        "shape": replace(subject, shape=_another(rng, shapes(), subject.shape)),
    }
    changed = {
        TAKE: replace(scene, seed=scene.seed + 1),
        "other motion": replace(scene, activity=_another(rng, activities(), scene.activity), seed=scene.seed + 2),
        "other colour": replace(scene, entities=(other["colour"], *rest), seed=scene.seed + 3),
        "other shape": replace(scene, entities=(other["shape"], *rest), seed=scene.seed + 4),
    }
    yield ORIGINAL, lambda: clip_bytes(frames, scene.fps)
    yield "compressed", lambda: clip_bytes(frames, scene.fps, {"crf": "36", "preset": "veryfast"})
    yield "smaller", lambda: clip_bytes(_sized(frames, 0.5, 1.0), scene.fps, {"crf": "28"})
    yield "trimmed", lambda: clip_bytes(frames[len(frames) // 4 :], scene.fps, {"crf": "23"})
    yield "cropped", lambda: clip_bytes(_sized(frames, 1.0, KEPT), scene.fps, {"crf": "23"})
    for kind, one in changed.items():
        yield kind, partial(_written, one)


def _written(scene: Scene) -> bytes:
    return clip_bytes(draw_clip(scene), scene.fps)


def _another(rng: np.random.Generator, names: Iterable[str], known: str) -> str:
    return str(rng.choice([name for name in names if name != known]))


def _sized(frames: Iterable[Pixels], size: float, kept: float) -> Iterator[Pixels]:
    for pixels in frames:
        picture = Image.fromarray(pixels)
        width, height = picture.size
        x, y = width * (1 - kept) / 2, height * (1 - kept) / 2
        target = round(width * size / 2) * 2, round(height * size / 2) * 2
        yield np.asarray(picture.resize(target, Image.Resampling.BILINEAR, (x, y, width - x, height - y)))


def measure(s: Snapshot, scenes: int) -> Measured:
    """Compare each original with its kin, and with the originals of the other scenes."""
    assert s.vectors is not None  # the library has vision
    clips: dict[str, ClipStretch] = {}
    for name, clip_id in s.connection.execute("SELECT name, clip_id FROM files WHERE state = 'indexed'"):
        (place,) = s.places([clip_id])
        found = s.vectors.read(int(s.first_rows[place]), int(s.counts[place])).astype(np.float32)
        clips[name] = ClipStretch(found / np.linalg.norm(found, axis=1, keepdims=True), None)
    originals = [clips[f"{number:03}.{ORIGINAL}.mp4"] for number in range(scenes)]
    apart = {
        kind: np.array([distance(one, clips[f"{at:03}.{kind}.mp4"]) for at, one in enumerate(originals)])
        for kind in (*SAME, TAKE, *OTHERS)
    }
    nearest = [min(distance(one, other) for other in originals if other is not one) for one in originals]
    steps = np.concatenate([1 - np.sum(clip.vectors[1:] * clip.vectors[:-1], axis=1) for clip in clips.values()])
    farthest = measure_farthest(s)
    assert farthest is not None
    return Measured({**apart, NEAREST: np.array(nearest)}, farthest.takes, steps)


def report(measured: Measured) -> str:
    every = np.arange(len(measured.apart[NEAREST]))
    curve = []
    for share in SHARES:
        at = float(np.quantile(measured.steps, share))
        recall, precision = rates(measured.apart, at, every)
        f1 = 2 * recall * precision / max(1e-9, recall + precision)
        curve.append([f"{share:.2f}", f"{at:.4f}", f"{recall:.1%}", f"{precision:.1%}", f"{f1:.3f}"])
    rows = []
    for kind, apart in measured.apart.items():
        low, middle, high = np.quantile(apart, (0.05, 0.5, 0.95))
        folds = f"{np.mean(apart <= measured.farthest):.1%}"
        rows.append([kind, f"{low:.4f}", f"{middle:.4f}", f"{high:.4f}", folds])
    rng = np.random.default_rng(0)
    drawn = np.array(
        [rates(measured.apart, measured.farthest, rng.choice(every, len(every))) for _ in range(RESAMPLES)]
    )
    recall, precision = rates(measured.apart, measured.farthest, every)
    (r_low, p_low), (r_high, p_high) = np.quantile(drawn, (0.025, 0.975), axis=0)
    return "\n\n".join(
        (
            markdown("| nearer than | distance | recall | precision | F1 |", curve),
            markdown("| compared with the original | 5 % | median | 95 % | folded |", rows),
            f"Measured in the library (a share of {NEIGHBOURS} of its moments): {measured.farthest:.4f}; "
            f"recall {recall:.1%} [{r_low:.1%}, {r_high:.1%}], precision {precision:.1%} [{p_low:.1%}, {p_high:.1%}].",
        )
    )


def rates(apart: Distances, farthest: float, scenes: NDArray[np.int64]) -> tuple[float, float]:
    """Recall and precision of folding up to a distance, over some scenes."""
    same = np.concatenate([apart[kind][scenes] for kind in SAME]) <= farthest
    other = np.concatenate([apart[kind][scenes] for kind in (*OTHERS, NEAREST)]) <= farthest
    return float(same.mean()), float(same.sum() / max(1, same.sum() + other.sum()))


if __name__ == "__main__":
    sys.exit(main())
