"""Settings of corrections of scores; the command line reads them, so this imports nothing that takes time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from evenreel.config import ABOVE_0, FINITE, OptionForm, check_settings, whole

_ALLOWED = {
    "scale": ABOVE_0,
    "temperature": ABOVE_0,
    "top": whole(1),
    "neighbours": whole(1),
    "weight": FINITE,
    "iterations": whole(1),
    "batch": whole(1),
    "remembered": whole(1),
    "alpha": ABOVE_0,
    "beta": ABOVE_0,
}
_COUNT = OptionForm(least=1, most=1_000_000)


@dataclass(frozen=True)
class RescoringSettings:
    """Settings of a correction of scores; each that is None has the value of the correction's authors.

    Attributes:
        scale: inverse temperature of softmaxes over scores: `dsl` (100), `dsl-double` (1/500), `inverted` and `qb-norm`
            (20).
        temperature: temperature of the transport: `sinkhorn` and `dbsn` (0.01), `sinkhorn-bank` (0.02).
        top: best places of each query of the bank that count as hubs, for `qb-norm` (1); best scores in the bank that
            count for an item, for `nnn` (128).
        neighbours: best scores of a row or a column that count, for `csls` (10).
        weight: weight of the correction, for `nnn` (0.75); share of the softmax over queries, for `hub-memory` (0.5).
        iterations: most rounds of Sinkhorn: `sinkhorn` and `dbsn` (10), `sinkhorn-bank` (20).
        batch: queries that are answered at a time, for `hub-memory` (16).
        remembered: earlier batches that count, for `hub-memory` (a tenth of the number of items).
        alpha: inverse temperature of the softmax over queries, for `hub-memory` (100).
        beta: inverse temperature of the softmax over items, for `hub-memory` (10).

    Raises:
        UsageError: a setting is out of its range.
    """

    scale: float | None = None
    temperature: float | None = None
    top: Annotated[int | None, _COUNT] = None
    neighbours: Annotated[int | None, _COUNT] = None
    weight: float | None = None
    iterations: Annotated[int | None, _COUNT] = None
    batch: Annotated[int | None, _COUNT] = None
    remembered: Annotated[int | None, _COUNT] = None
    alpha: float | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        check_settings("the correction", self, {name: one for name, one in _ALLOWED.items() if name in self.given})

    @property
    def given(self) -> dict[str, Any]:
        """Settings that are given, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
