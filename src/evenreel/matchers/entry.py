"""What the registry knows of a matcher, and the training data that its settings may depend on."""

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


class Entry(NamedTuple):
    """A matcher in the registry: its class, settings, and what training does before it is built.

    Attributes:
        matcher: a class that is built from the dimension D and its settings.
        settings: the class of these settings.
        graphs: whether it reads the role graphs of captions.
        fit: function that completes the settings before training; None where they need no training data.
        uses: function that names, in words, what the settings use of other splits than the training split; None for
            none.
        windows: function that returns whether settings have on-screen windows read apart from frames; None for never.
    """

    matcher: type[Any]
    settings: type[Any]
    graphs: bool = False
    fit: Fit | None = None
    uses: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    windows: Callable[[Mapping[str, Any]], bool] | None = None
