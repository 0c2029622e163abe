"""Settings that make a planted world harder than the plain one, one or two for each bias that has such a world."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib.resources import files

from evenreel.errors import UsageError

BIAS_OF = {
    "difficulty": "visual",
    "new_annotators": "textual",
    "misread": "scene_text",
    "traced_signs": "scene_text",
    "mirror_tint": "source",
}
"""The bias that each setting belongs to."""
HARD = 1.0
"""The difficulty at which the encoder alone finds about half."""


@dataclass(frozen=True)
class Harder:
    """Settings that make a planted corpus harder; the defaults leave it as it is.

    Attributes:
        difficulty: for `visual`, 0 to 1: how small subjects get, and among how many things of the same shapes and
            colours they are.
        new_annotators: for `textual`, whether test captions are by other annotators, of whom training has ever fewer as
            the strength grows; which annotator describes a clip is then independent of the clip.
        misread: for `scene_text`, share of the characters on signs that are misread, anew in each twelfth of a clip.
        traced_signs: for `scene_text`, whether the colour of a sign's board depends on its word, so that a frame shows
            which sign is up.
        mirror_tint: for `source`, how much a generator adds to red and blue and takes from green in all pictures, as a
            share of the range.

    Raises:
        UsageError: a number is outside 0 to 1.
    """

    difficulty: float = 0.0
    new_annotators: bool = False
    misread: float = 0.0
    traced_signs: bool = False
    mirror_tint: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be planned; a comparison with NaN is false, so it is refused too."""
        for name in BIAS_OF:
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise UsageError(f"{name} is between 0 (as it is by default) and 1; it was {value}")

    @property
    def changed(self) -> dict[str, float]:
        """Settings that are not at their default, by name."""
        values = ((each, getattr(self, each.name)) for each in fields(self))
        return {each.name: value for each, value in values if value != each.default}


def check_harder(bias: str, harder: Harder) -> None:
    """Check that settings of a harder world belong to a bias."""
    for name in harder.changed:
        if BIAS_OF[name] != bias:
            raise UsageError(f"{name} is a setting of the bias {BIAS_OF[name]!r}, not of {bias!r}; leave it out.")


def harder_texts(harder: Harder) -> Iterator[str]:
    """Yield the description, as in `planted.json`, of each setting of a harder world that is not at its default."""
    texts = json.loads(files("evenreel.planted").joinpath("harder.json").read_text(encoding="utf-8"))
    return (texts[name] for name in harder.changed)
