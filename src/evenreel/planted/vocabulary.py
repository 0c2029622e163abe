"""Vocabulary of the rendered world: shapes, colours, sizes, activities, backgrounds, signs and phrases.

The words and numbers are in the JSON files of the folder `data`; this module reads them once.
"""

from __future__ import annotations

import json
from colorsys import hls_to_rgb
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""


@dataclass(frozen=True)
class Track:
    """A number that changes over the time of a clip: linear from `start` to `end`, plus a wave."""

    start: float = 0.0  # value at the beginning of the clip
    end: float = 0.0  # value at the end of the clip
    per_s: float = 0.0  # increase per second, for motions without an end, such as turning
    swing: float = 0.0  # amplitude of the wave
    rate_hz: float = 0.0  # number of waves per second
    phase: float = 0.0  # phase of the wave at the beginning, 0 to 1
    folded: bool = False  # whether the wave is |sin|, as a ball bounces


@dataclass(frozen=True)
class Activity:
    """An activity of the subject: its phrases and its motion."""

    name: str  # key in `activities`
    does: tuple[str, ...]  # phrases in the present tense, 'moves to the left'
    doing: tuple[str, ...]  # phrases with the participle, 'moving to the left'
    # name of the activity that shows the same frames in reverse order; None where order does not matter
    opposite: str | None
    # track of the horizontal position; -1 and 1 touch the sides of the centred square that every preprocessing
    # keeps
    x: Track
    y: Track  # track of the vertical position, downwards, in the same unit
    scale: Track  # track of the factor on the radius
    turn: Track  # track of the rotation, 1 is once round


@dataclass(frozen=True)
class ThingRule:
    """Rule for one kind of thing in a background: ranges of number, vertical place and height, and colours."""

    kind: str
    count: tuple[int, int]
    size: tuple[float, float]
    y: tuple[float, float]
    colours: tuple[Colour, ...]


@dataclass(frozen=True)
class Background:
    """A background of scenes: two colour gradients that meet at the horizon, and things.

    Attributes:
        name: key in `backgrounds`.
        words: words for it in captions.
        sky, ground: colours at both ends of each gradient.
        horizon: height at which they meet; 0 is the top, 1 the bottom.
        things: rules for the things in it.
    """

    name: str
    words: tuple[str, ...]
    sky: tuple[Colour, Colour]
    ground: tuple[Colour, Colour]
    horizon: float
    things: tuple[ThingRule, ...]


@dataclass(frozen=True)
class SignStyle:
    """Colours of a sign: of its board (`paper`) and of its letters (`ink`)."""

    paper: Colour
    ink: Colour


@cache
def phrases(name: str) -> dict[str, Any]:
    """Read a file of the folder `data`, or beside it, where it is in no digest of worlds that do without it.

    The patterns of `spoken` and of `data/sign_phrases` have the slots {word} and, for captions, {caption}.
    """
    text = files("evenreel.planted").joinpath(f"{name}.json").read_text(encoding="utf-8")
    content: dict[str, Any] = _frozen(json.loads(text))
    return content


def _data(name: str) -> dict[str, Any]:
    return phrases(f"data/{name}")


@cache
def colours() -> dict[str, Colour]:
    """Return the colours (red, green, blue) that subjects of scenes may have, by name."""
    return {name: entry["rgb"] for name, entry in _data("colours").items()}


@cache
def sizes() -> dict[str, float]:
    """Return the radius of a subject in picture heights, by the name of its size."""
    return {name: float(entry["radius"]) for name, entry in _data("sizes").items()}


@cache
def shapes() -> tuple[str, ...]:
    """Return the names of the shapes; `evenreel.planted.draw` draws each."""
    return tuple(_data("shapes"))


@cache
def activities() -> dict[str, Activity]:
    levels, found = {"x": 0.0, "y": 0.0, "scale": 1.0, "turn": 0.0}, {}
    for name, entry in _data("activities").items():
        tracks = {one: Track(**{"start": level, "end": level, **entry.get(one, {})}) for one, level in levels.items()}
        found[name] = Activity(name, entry["does"], entry["doing"], entry.get("opposite"), **tracks)
    return found


@cache
def backgrounds() -> dict[str, Background]:
    return {
        name: Background(name, **{**entry, "things": tuple(ThingRule(**thing) for thing in entry["things"])})
        for name, entry in _data("backgrounds").items()
    }


@cache
def distractors() -> tuple[tuple[Colour, ...], tuple[float, float]]:
    """Return the colours of small things that no caption names, and the range of their radius in picture heights."""
    entry = _data("distractors")
    return tuple(entry["colours"].values()), entry["radius"]


@cache
def sign_words() -> tuple[str, ...]:
    return tuple(_data("signs")["words"])


@cache
def sign_styles() -> tuple[SignStyle, ...]:
    return tuple(SignStyle(**style) for style in _data("signs")["styles"])


@cache
def trace_colours() -> dict[str, Colour]:
    """Return the colour of a traced sign's board by the word on it: light colours, evenly spread over the hues."""
    found = {}
    for place, shape in enumerate(shapes()):
        red, green, blue = hls_to_rgb(place / len(shapes()), 0.75, 0.9)
        found[shape.upper()] = (round(255 * red), round(255 * green), round(255 * blue))
    return found


@cache
def annotators() -> dict[str, tuple[str, ...]]:
    """Return the habits of each annotator, by name: sentence patterns with the slot {caption}, different for each."""
    return dict(_data("annotators"))


@cache
def new_annotators() -> dict[str, tuple[str, ...]]:
    """Return the habits of further annotators, by name, who share no word with `annotators()`."""
    return dict(phrases("new_annotators"))


def habits_beside(annotator: str) -> dict[str, tuple[str, ...]]:
    """Return the habits of the set of annotators that an annotator is of: `annotators()` or `new_annotators()`."""
    return annotators() if annotator in annotators() else new_annotators()


@cache
def words_for(attribute: str, value: str) -> tuple[str, ...]:
    table = {"colour": "colours", "shape": "shapes", "size": "sizes", "background": "backgrounds"}[attribute]
    return tuple(_data(table)[value]["words"])


@cache
def sentences() -> tuple[str, ...]:
    """Return sentence patterns of captions, with the slots {subject}, {does}, {doing} and {where}."""
    return tuple(_data("grammar")["sentences"])


@cache
def unnamed_shapes() -> tuple[str, ...]:
    return tuple(_data("grammar")["unnamed_shape"])


def data_text() -> str:
    """Return all words and numbers of the folder `data`, as text for digests."""
    data = sorted(files("evenreel.planted").joinpath("data").iterdir(), key=lambda each: each.name)
    return "".join(each.name + each.read_text(encoding="utf-8") for each in data)


def _frozen(value: Any) -> Any:
    """Lists of a JSON file as tuples, however deep."""
    if isinstance(value, dict):
        return {name: _frozen(own) for name, own in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
