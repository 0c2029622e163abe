"""Training data that the settings of a matcher may depend on, before it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evenreel.types import RoleGraph


class LearnedFrom(NamedTuple):
    """Training data of a run that settings may depend on.

    Attributes:
        graphs: role graphs of the captions; empty where no matcher reads them (`Limits.graphs`).
        texts: texts of the captions.
        weights_hash: hash of the encoder of the features; None where it is not known.
    """

    graphs: Sequence[RoleGraph] = ()
    texts: Sequence[str] = ()
    weights_hash: str | None = None


Fit = Callable[[Mapping[str, Any], LearnedFrom], dict[str, Any]]
"""Settings, and what is learned from -> the settings with what they left open."""
