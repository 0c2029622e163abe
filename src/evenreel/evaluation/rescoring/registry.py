"""Corrections of scores by name, with their settings: those of their authors, or those that are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from inspect import signature
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenreel.config import check_settings_kind, check_word
from evenreel.errors import UsageError
from evenreel.evaluation.accepted import ScoresLike, as_matrix, as_scores
from evenreel.evaluation.hub_memory import HubMemory
from evenreel.evaluation.rescoring.columns import dense
from evenreel.evaluation.rescoring.methods import (
    csls,
    double_softmax,
    dual_softmax,
    hub_memory,
    inverted_softmax,
    nearest_neighbour_norm,
    querybank_norm,
)
from evenreel.evaluation.rescoring.settings import RescoringSettings
from evenreel.evaluation.rescoring.transported import dual_bank_sinkhorn, sinkhorn_norm, sinkhorn_over_test
from evenreel.evaluation.settings import Direction
from evenreel.types import ScoreBlocks, Scores

ALONE: dict[Direction, str] = {
    "t2v": "a correction for captions' searches alone",
    "v2t": "a correction for videos' searches alone",
}
"""What corrected scores that are kept say as well where their figures in the other direction mean nothing."""

_GIVEN = ("scores", "direction", "bank", "pairs", "settings")
"""Parameters of corrections that are no settings."""
_ROUNDING = 1e-3
"""Cosines of float16 vectors leave -1 to 1 by as much."""


@dataclass(frozen=True)
class Rescoring:
    """Correction of scores at test time, with the settings of its authors.

    Attributes:
        name: name in tables.
        function: the correction; parameters beside the scores, the direction and banks are its settings.
        made_for: scores that its usual settings are made for; None where they suit any.
        scale: setting that is in units of the scores.
    """

    name: str
    function: Callable[..., Scores]
    made_for: Literal["cosines", "inner products"] | None = None
    scale: str = "scale"

    @cached_property
    def _parameters(self) -> Mapping[str, Any]:
        return {name: one.default for name, one in signature(self.function).parameters.items()}

    @property
    def needs_bank(self) -> bool:
        """Whether it needs scores of other queries against the same gallery."""
        return "bank" in self._parameters

    @property
    def needs_pairs(self) -> bool:
        """Whether it needs scores of the bank's captions with the bank's videos too."""
        return "pairs" in self._parameters

    @property
    def serves_both(self) -> bool:
        """Whether the result for one direction also serves the other."""
        return "direction" not in self._parameters

    @property
    def usual(self) -> dict[str, Any]:
        """Settings of the authors by name."""
        if "settings" in self._parameters:
            return {one.name: one.default for one in fields(HubMemory)}
        return {name: value for name, value in self._parameters.items() if name not in _GIVEN}

    def chosen(self, settings: RescoringSettings) -> dict[str, Any]:
        """Return the settings that it runs with: the authors', and over them those that are given.

        Raises:
            UsageError: a setting is given that it has not.
        """
        given = settings.given
        if strange := [name for name in given if name not in self.usual]:
            raise UsageError(f"{self.name} has no setting {strange[0]!r}; it has: {', '.join(self.usual) or 'none'}.")
        return self.usual | given

    def described(self, settings: RescoringSettings) -> str:
        """Name the correction with the settings that it runs with.

        >>> RESCORINGS["qb-norm"].described(RescoringSettings(top=3))
        'QB-Norm (scale 20, top 3)'
        """
        told = {name: value for name, value in self.chosen(settings).items() if value is not None}
        return f"{self.name} ({', '.join(f'{name} {value:g}' for name, value in told.items())})"

    def unsuited(self, scores: ScoreBlocks, settings: RescoringSettings) -> str:
        """Return a sentence if the usual settings are not made for scores like these; empty otherwise."""
        if self.made_for is None or self.scale in settings.given:
            return ""
        values = dense(scores).values
        finite = np.isfinite(values)
        if not finite.any():
            return ""
        wide = values.astype(np.float64, copy=False)
        least, most = float(wide.min(where=finite, initial=np.inf)), float(wide.max(where=finite, initial=-np.inf))
        cosines = max(-least, most) <= 1 + _ROUNDING
        if cosines == (self.made_for == "cosines"):
            return ""
        return (
            f"The {self.scale} {self.usual[self.scale]:g} of {self.name} is made for {self.made_for}, but these scores "
            f"are {'cosines, or as small' if cosines else 'no cosines'}: they range from {least:.3g} to {most:.3g}; "
            f"choose --{self.scale} for them on other data than the test's."
        )


RESCORINGS: dict[str, Rescoring] = {
    "dsl": Rescoring("dual softmax", dual_softmax, "cosines"),
    "dsl-double": Rescoring("dual softmax, EgoVLP's form", double_softmax, "inner products"),
    "inverted": Rescoring("inverted softmax", inverted_softmax, "cosines"),
    "csls": Rescoring("CSLS", csls),
    "sinkhorn": Rescoring("Sinkhorn normalisation", sinkhorn_over_test, "cosines", "temperature"),
    "hub-memory": Rescoring("hub memory", hub_memory, "cosines", "alpha"),
    "qb-norm": Rescoring("QB-Norm", querybank_norm, "cosines"),
    "nnn": Rescoring("NNN", nearest_neighbour_norm),
    "sinkhorn-bank": Rescoring("Sinkhorn normalisation by a bank", sinkhorn_norm, "cosines", "temperature"),
    "dbsn": Rescoring("dual bank Sinkhorn normalisation", dual_bank_sinkhorn, "cosines", "temperature"),
}


def rescore(
    word: str,
    scores: ScoresLike,
    direction: Direction,
    bank: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
    settings: RescoringSettings | None = None,
) -> Scores:
    """Apply a correction of scores at test time, chosen by name.

    Args:
        word: a key of `RESCORINGS`.
        scores: scores of Q captions and V videos with their ids, see `ScoresLike`; they are read into one matrix.
        direction: direction of the search to correct.
        bank: (N, V) scores of N other captions for `t2v`, (Q, N) of N other videos for `v2t`, as an array, a tensor, a
            list of lists or a table of numbers alone, in the order of the scores.
        pairs: scores of other captions (rows) with other videos, for `dbsn`: (N, W) for `t2v`, (W, N) for `v2t`.
        settings: settings to use instead of those of the authors; None for theirs.

    Raises:
        UsageError: there is no such correction, it has no such setting, or a bank is missing or not used; an argument
            is of the wrong kind.
        ScoresError: the scores or the banks cannot be used.
    """
    check_word(word, RESCORINGS, "re-scoring")
    check_word(direction, get_args(Direction), "direction")
    check_settings_kind(settings, RescoringSettings)
    of_all = dense(as_scores(scores))
    method = RESCORINGS[word]
    if method.needs_bank != (bank is not None):
        raise UsageError(f"{method.name} {'needs a' if method.needs_bank else 'takes no'} bank of other queries.")
    if method.needs_pairs != (pairs is not None):
        verb = "needs" if method.needs_pairs else "takes no"
        raise UsageError(f"{method.name} {verb} scores of the bank's captions with the bank's videos.")
    chosen = method.chosen(settings or RescoringSettings())
    if method.function is hub_memory:
        return hub_memory(of_all, direction, HubMemory(**chosen))
    banks = {
        name: None if one is None else as_matrix(one, name, f"The scores of the {name}")
        for name, one in {"bank": bank, "pairs": pairs}.items()
    }
    offered = {"direction": None if method.serves_both else direction, **banks}
    return method.function(of_all, **{name: one for name, one in offered.items() if one is not None}, **chosen)
