"""Table 4 and Figure 3 of BiMa (arXiv 2506.03589), and what its supplement is said to have: trainings side by side."""

from __future__ import annotations

from functools import partial

from evenreel.papers.bima.kinds import (
    BIMA,
    KAPPAS,
    LAMBDAS,
    balances,
    element_counts,
    parts,
    readings_of_the_paper,
    row_of,
    weights,
)
from evenreel.papers.engine.recalls import WAYS, ends_of, named, recall_figures
from evenreel.papers.engine.training_tables import Comparison, Measures

RECALLS = ("R@1", "R@5", "R@10", "Rsum")
T2V, V2T = (named(RECALLS, way) for way in WAYS)
MAIN = T2V[0]
ABOUT = (
    "Recall is the share of captions whose own clip is among the first k (T2V), and of clips with one of their "
    "captions there (V2T); Rsum adds R@1, R@5 and R@10. Items with equal scores have their expected rank."
)
ENDS = ends_of((*T2V, *V2T))
PAPER = (
    "On MSR-VTT the paper has R@1 45.7 without any part, 49.2 with entities, 49.4 with activities, 51.5 with both, "
    "52.1 with the captioning head too, 47.0 with disentanglement alone and 53.5 with all. Its text says that entities "
    "and activities alone gain 1.4 and 1.7 points, which is not what these figures say."
)
SWITCHES = (
    "A part that is off is not built: its terms of the loss are not there and its layers cost nothing. All that is off "
    "is weighted token interaction."
)

FEWER = "A clip has no more elements than the dictionary has phrases of a kind, so larger numbers are left out."


BY_RECALL = Measures(recall_figures, MAIN, ABOUT, ENDS)
_table = partial(Comparison, metrics=(*T2V, *V2T), measures=BY_RECALL)

TABLE_4 = _table(parts, lead=BIMA, notes=(SWITCHES, PAPER))
FIGURE_3 = _table(
    weights,
    sweeps={name: {value: row_of(name, value) for value in values} for name, values in LAMBDAS.items()},
    drawn=(T2V[0], V2T[0]),
)
BALANCE = _table(balances, lead="g none")
KAPPA = _table(
    element_counts,
    notes=(FEWER,),
    sweeps={"kappa": {kappa: row_of("kappa", kappa) for kappa in KAPPAS}},
    drawn=(T2V[0], V2T[0]),
)
READINGS = _table(readings_of_the_paper, lead="attention without residual")
