"""What the tables of BiMa measure: recall both ways."""

from __future__ import annotations

from evenreel.papers.engine.recalls import WAYS, ends_of, named, recall_figures
from evenreel.papers.engine.training_tables import Measures

RECALLS = ("R@1", "R@5", "R@10", "Rsum")
T2V, V2T = (named(RECALLS, way) for way in WAYS)
MAIN = T2V[0]
ABOUT = (
    "Recall is the share of captions whose own clip is among the first k (T2V), and of clips with one of their "
    "captions there (V2T); Rsum adds R@1, R@5 and R@10. Items with equal scores have their expected rank."
)
ENDS = ends_of((*T2V, *V2T))
BY_RECALL = Measures(recall_figures, MAIN, ABOUT, ENDS)
