"""What the tables of BiMa measure: recall both ways."""

from __future__ import annotations

from evenreel.papers.engine.recalls import WAYS, ends_of, named, recall_figures
from evenreel.papers.engine.training_tables import Measures

RECALLS = ("R@1", "R@5", "R@10", "Rsum")
T2V, V2T = (named(RECALLS, way) for way in WAYS)
MAIN = T2V[0]
ENDS = ends_of((*T2V, *V2T))
BY_RECALL = Measures("bima", recall_figures, MAIN, ENDS)
