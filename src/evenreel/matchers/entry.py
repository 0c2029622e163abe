"""Entry of a matcher in the registry, and the training data from which its settings may be completed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evenreel.types import RoleGraph


class LearnedFrom(NamedTuple):
    """Training data from which settings of a matcher, such as its vocabulary, may be completed.

    Attributes:
        graphs: role graphs of the captions; empty where no matcher reads them (`Limits.graphs`).
        texts: texts of the captions.
        weights_hash: hash of the encoder's weights; None where it is not known.
    """

    graphs: Sequence[RoleGraph] = ()
    texts: Sequence[str] = ()
    weights_hash: str | None = None


Fit = Callable[[Mapping[str, Any], LearnedFrom], dict[str, Any]]
"""Settings, and what is learned from -> the settings with what they left open."""


class Entry(NamedTuple):
    """Registry entry of a matcher: its class, its settings, and what training does before it is built.

    Attributes:
        matcher: class of the matcher, built from the dimension D and its settings.
        settings: class of these settings.
        graphs: whether it reads the role graphs of captions.
        fit: function that completes the settings from training data; None where they need none.
        uses: function that says in words what the settings use of splits other than the training split; None for none.
        windows: function that returns whether, with given settings, on-screen windows are read apart from frames; None
            for never.
    """

    matcher: type[Any]
    settings: type[Any]
    graphs: bool = False
    fit: Fit | None = None
    uses: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    windows: Callable[[Mapping[str, Any]], bool] | None = None
