"""How often a clip that 'fits' or 'may fit' is right, on rendered videos whose truth is known.

    python benchmarks/states.py [--clips 60] [--seed 0]

Renders clips of one coloured shape in a place each, indexes them with the built-in model, and asks for every
combination of colour, shape and place, for those there are and those there are not, for parts of it, and for everyday
things that no clip shows. Words on screen are not read: what is measured are the frames.

For each kind of query: what the answer said; how many of the clips in each state are right, and how many of the right
clips are in each state; and how many of the first ten clips, which all stood in the open before there were states,
stand there now, and how many of either are right. With 60 clips and seed 0 these are the demo's.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.config import IndexSettings, usable_cores
from evenreel.demo import VIDEO_COUNT, demo_scenes
from evenreel.library import Library, index_folders, open_library
from evenreel.planted import Scene, sample_scene, vocabulary, write_scene

FIRST = 10
STATES = ("fits", "may_fit", "nothing")
COLOURS, SHAPES, PLACES = (tuple(names()) for names in (vocabulary.colours, vocabulary.shapes, vocabulary.backgrounds))
ELSEWHERE = (
    "a hospital corridor", "two dogs running in the snow", "a man playing the guitar on a stage",
    "a woman cooking pasta in a kitchen", "children at a birthday party", "a train arriving at a station",
    "a cat sleeping on a sofa", "a football match in a stadium", "a plate of sushi on a table",
    "a surgeon in an operating room", "an elephant drinking at a river", "a crowd of people in a street at night",
    "a baby laughing", "a car driving on a highway", "a bride and groom dancing", "a person typing on a laptop",
    "a bowl of soup", "a horse jumping over a fence", "a library with many books", "a helicopter over the sea",
    "quarterly tax spreadsheet", "a dentist at work", "a violin concert", "a basketball player dunking",
    "fireworks over a bridge", "a tractor in a field", "a lecture about biology", "an escalator in a subway",
    "an airport terminal", "a teacher at a blackboard",
)  # fmt: skip
"""Everyday things that a search is made for and that nothing here shows."""


@dataclass(frozen=True)
class Asked:
    """A query and the values that a right clip has: some of colour, shape and place; None where none is right."""

    text: str
    wanted: tuple[str | None, str | None, str | None] | None

    def is_right(self, scene: Scene) -> bool:
        """Whether a clip of this scene answers."""
        shown = (scene.subject.colour, scene.subject.shape, scene.background)
        if self.wanted is None:
            return False
        return all(one in {None, other} for one, other in zip(self.wanted, shown, strict=True))


def queries() -> dict[str, list[Asked]]:
    """What is asked, by its kind."""
    return {
        "colour, shape and place": [
            Asked(f"a {colour} {shape} in the {place}", (colour, shape, place))
            for colour, shape, place in product(COLOURS, SHAPES, PLACES)
        ],
        "colour and shape": [
            Asked(f"a {colour} {shape}", (colour, shape, None)) for colour, shape in product(COLOURS, SHAPES)
        ],
        "shape": [Asked(f"a {shape}", (None, shape, None)) for shape in SHAPES],
        "everyday things": [Asked(text, None) for text in ELSEWHERE],
    }


def scenes_of(count: int, seed: int) -> dict[str, Scene]:
    """The scene of each clip by its file name."""
    if (count, seed) == (VIDEO_COUNT, 0):
        return demo_scenes()
    rng = np.random.default_rng(seed)
    return {f"clip_{number:04}.mp4": sample_scene(rng) for number in range(count)}


def render(folder: Path, scenes: Mapping[str, Scene]) -> Path:
    """A library of the scenes, without their words."""
    (folder / "videos").mkdir()
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(lambda name: write_scene(folder / "videos" / name, scenes[name]), scenes))
    index_folders([folder / "videos"], folder / "library", IndexSettings(model="builtin", read_text=False))
    return folder / "library"


@dataclass(frozen=True)
class Answers:
    """What was found for queries of one kind.

    Attributes:
        said: (Q,) state of each answer.
        states: (Q, C) state of each clip, best first.
        right: (Q, C) whether it is right.
        open: (Q,) how many stand in the open.
    """

    said: NDArray[np.str_]
    states: NDArray[np.str_]
    right: NDArray[np.bool_]
    open: NDArray[np.int64]


def ask(library: Library, asked: Sequence[Asked], scenes: Mapping[str, Scene]) -> Answers:
    """Search for everything, down to the last clip."""
    results = [library.search(one.text, k=len(scenes)) for one in asked]
    right = [
        [one.is_right(scenes[Path(hit.path).name]) for hit in result.hits]
        for one, result in zip(asked, results, strict=True)
    ]
    return Answers(
        np.array([str(result.state) for result in results]),
        np.array([[str(hit.state) for hit in result.hits] for result in results]),
        np.array(right),
        np.array([min(FIRST, result.answering) for result in results]),
    )


def report(kind: str, found: Answers) -> None:
    """Print what queries of one kind found, those that a clip answers apart from the others."""
    answered = found.right.any(axis=1)
    for name, chosen in (("answered by some clip", answered), ("answered by none", ~answered)):
        if not chosen.any():
            continue
        said, states, right = found.said[chosen], found.states[chosen], found.right[chosen]
        shares = ", ".join(f"{state} {(said == state).mean():.1%}" for state in STATES)
        print(f"{kind}, {name}: {len(said)} queries, said: {shares}")
        for state in STATES:
            here = states == state
            precise = f"{right[here].mean():.1%} of {here.sum()} right" if here.any() else "no clip"
            found_of = f"; {right[here].sum() / right.sum():.1%} of the right ones" if right.any() else ""
            print(f"    {state:<8} {precise}{found_of}")
        first = np.arange(right.shape[1]) < FIRST
        now = np.arange(right.shape[1]) < found.open[chosen][:, None]
        for label, shown in (("before", np.broadcast_to(first, right.shape)), ("now", now)):
            precise = f"{right[shown].mean():.1%} right" if shown.any() else "none"
            print(f"    in the open {label}: {shown.sum() / len(right):.1f} of the first {FIRST} a query, {precise}")


def main() -> None:
    """Render, ask, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=VIDEO_COUNT)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    scenes = scenes_of(options.clips, options.seed)
    with tempfile.TemporaryDirectory() as folder, open_library(render(Path(folder), scenes)) as library:
        for kind, asked in queries().items():
            report(kind, ask(library, asked, scenes))


if __name__ == "__main__":
    main()
