"""Registry of the planted biases by name: how each draws its clips, and which things it pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Literal, NamedTuple

import numpy as np

from evenreel.planted.domain import draw as draw_domain
from evenreel.planted.length import ACTIVITIES, LENGTHS
from evenreel.planted.length import draw as draw_length
from evenreel.planted.scene_text import draw as draw_scene_text
from evenreel.planted.shots import RandomStreams, Shot, World
from evenreel.planted.source import draw as draw_source
from evenreel.planted.textual import draw as draw_textual
from evenreel.planted.visual import draw as draw_visual
from evenreel.planted.vocabulary import annotators, backgrounds, shapes

BiasName = Literal["visual", "textual", "length", "source", "domain", "scene_text"]


def _shapes_and_backgrounds() -> tuple[tuple[str, ...], tuple[str, ...]]:
    return shapes(), tuple(backgrounds())


def _shapes_and_annotators() -> tuple[tuple[str, ...], tuple[str, ...]]:
    return shapes(), tuple(annotators())


def _activities_and_lengths() -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ACTIVITIES, LENGTHS


def _nothing() -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (), ()


class Bias(NamedTuple):
    """Registry entry of a planted bias.

    Attributes:
        draw: function that draws the clips of one unit (a clip, pair or group).
        paired: function that returns the names that the bias pairs, each of the first with one of the second.
        in_test: whether the bias holds in the test split too.
    """

    draw: Callable[[RandomStreams, World], tuple[Shot, ...]]
    paired: Callable[[], tuple[tuple[str, ...], tuple[str, ...]]] = _nothing
    in_test: bool = False


BIASES: dict[BiasName, Bias] = {
    "visual": Bias(draw_visual, _shapes_and_backgrounds),
    "textual": Bias(draw_textual, _shapes_and_annotators),
    "length": Bias(draw_length, _activities_and_lengths),
    "source": Bias(draw_source),
    "domain": Bias(draw_domain),
    "scene_text": Bias(draw_scene_text, in_test=True),
}
"""`in_test` biases hold in the test split too, see `evenreel.planted.scene_text`."""


def bias_text(bias: BiasName) -> str:
    """Return the description of a bias that `planted.json` has."""
    texts: dict[str, str] = json.loads(files("evenreel.planted").joinpath("biases.json").read_text(encoding="utf-8"))
    return texts[bias]


def partners(bias: BiasName, seed: int) -> dict[str, str]:
    """Pair the names of a bias at random: each first name (such as a shape) with a second one (such as a background).

    Second names are used as evenly as possible.

    >>> sorted(set(partners("length", 0).values()))
    ['long', 'short']
    """
    first, second = BIASES[bias].paired()
    deck = [second[n % len(second)] for n in range(len(first))]
    order = np.random.default_rng([seed, len(first)]).permutation(len(first))
    return {name: deck[place] for name, place in zip(first, order, strict=True)}
