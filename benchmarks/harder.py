"""What the settings of harder planted worlds do to words that are read, and to frames: nothing is trained.

    python -m benchmarks.harder misread|trace [--seeds 10 11 12] [--clips 1500]

`misread`: the share of the stretches of training clips of `scene_text` in which the word is read right, and of the
clips in which it is right in at least one of the twelve and in all.

`trace`: how often the word on a sign is told by a frame of a test clip with three signs, as that of the nearest mean of
training frames, without and with traced signs. Chance is one in eight.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.planted import RULE
from evenreel.encoders import load_encoder
from evenreel.planted import BiasName, Harder, PlantedCorpus, PlantSettings, plan_corpus, video_features
from evenreel.planted.features import STRETCHES, frame_times, reading
from evenreel.planted.plan import Split as SplitName
from evenreel.types import Encoder

SIGNS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=list(TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--clips", type=int, default=1_500, help="of all splits together")
    asked = parser.parse_args()
    return TABLES[asked.setting](asked.seeds, asked.clips)


def planned(bias: BiasName, seed: int, clips: int, harder: Harder, signs: int = 1) -> PlantedCorpus:
    """A corpus in which nothing is planted but the words on signs."""
    strength = 1.0 if bias == "scene_text" else 0.0
    return plan_corpus(bias, strength, clips, seed, PlantSettings(signs=signs, harder=harder))


def misread(seeds: Sequence[int], clips: int) -> int:
    show(["misread", "seed", "right", "ever", "always"])
    for share in (0.1, 0.3):
        for seed in seeds:
            shown = planned("scene_text", seed, clips, Harder(misread=share)).split("train")
            signs = [(clip, clip.scene.signs[0]) for clip in shown]
            right = np.array(
                [[reading(clip, sign, n) == sign.text for n in range(STRETCHES)] for clip, sign in signs], float
            )
            show([share, seed, percent(right), percent(right.max(axis=1)), percent(right.min(axis=1))])
    return 0


def trace(seeds: Sequence[int], clips: int) -> int:
    encoder = load_encoder("builtin")
    show(["seed", "plain", "traced"])
    for seed in seeds:
        plans = (planned("scene_text", seed, clips, Harder(traced_signs=on), SIGNS) for on in (False, True))
        show([seed, *(percent(told_words(plan, encoder)) for plan in plans)])
    return 0


TABLES: dict[str, Callable[[Sequence[int], int], int]] = {each.__name__: each for each in (misread, trace)}


def told_words(plan: PlantedCorpus, encoder: Encoder) -> NDArray[np.float64]:
    """(F,) 1 where the nearest mean of training frames is that of the word on a test frame's sign, else 0."""
    learnt, truth = frames_and_words(plan, "train", encoder)
    names = sorted(set(truth))
    means = unit(np.stack([learnt[truth == name].mean(axis=0) for name in names]) - learnt.mean(axis=0))
    frames, words = frames_and_words(plan, "test", encoder)
    nearest = (unit(frames - learnt.mean(axis=0)) @ means.T).argmax(axis=1)
    return (np.array(names)[nearest] == words).astype(float)


def frames_and_words(
    plan: PlantedCorpus, split: SplitName, encoder: Encoder
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """(F, D) frames of a split, and the word that is up in each."""
    clips = plan.split(split)
    videos = video_features(clips, encoder, RULE)
    return unit(videos.frames[videos.frame_mask].astype(np.float64)), np.array(list(words_up(plan, split)))


def words_up(plan: PlantedCorpus, split: SplitName) -> Iterator[str]:
    """The true word on the sign that is up at each sampled frame."""
    for clip in plan.split(split):
        for time_s in frame_times(clip.scene, RULE):
            yield next(sign.text for sign in clip.scene.signs if sign.is_up(float(time_s)))


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors of length 1; zeros stay."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def percent(hits: NDArray[np.float64]) -> str:
    return f"{100 * hits.mean():.1f}"


def show(cells: Sequence[object]) -> None:
    print("".join(f"{cell!s:>11}" for cell in cells), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
