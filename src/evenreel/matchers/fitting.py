"""What a matcher takes from the captions that it is to learn from, before it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evenreel.types import RoleGraph


class LearnedFrom(NamedTuple):
    """What a training run learns from, as far as settings may depend on it.

    Attributes:
        graphs: role graphs of the captions; empty where no matcher reads them (`Limits.graphs`).
        texts: the captions as they are written.
        weights_hash: of the encoder whose features they are; None where nobody says.
    """

    graphs: Sequence[RoleGraph] = ()
    texts: Sequence[str] = ()
    weights_hash: str | None = None


Fit = Callable[[Mapping[str, Any], LearnedFrom], dict[str, Any]]
"""Settings, and what is learned from -> the settings with what they left open."""
