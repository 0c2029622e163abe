"""Tables 1 to 4, 6, 7, 9 and 10 of the paper on frame-length bias, and its failure method (arXiv 2309.09311).

Each stands beside what it costs to search with: a matcher of M members encodes every clip M times, and keeps as many
galleries.
"""

from __future__ import annotations

from functools import partial

from evenreel.corpus.relevance import class_relevance
from evenreel.papers.engine.kinds import BASELINE
from evenreel.papers.engine.training_tables import Comparison, Measures
from evenreel.papers.frame_length.kinds import (
    ALL_STEPS,
    BACKDOOR,
    STRATA,
    TUNED,
    against_mining,
    against_trimming,
    controls,
    divisions,
    fine_tuned_strata,
    other_matchers,
    shared_encoder,
    with_ensemble,
    with_mining,
    without_streams,
)
from evenreel.papers.frame_length.measures import ENDS, MAP, MAP_EPIC, MEASURES, NDCG, RANKS, length_figures
from evenreel.types import Corpus

COST = (
    "What a gain costs: a matcher of M members encodes each clip M times and keeps M galleries. Where a recipe counts "
    "epochs, members of strata see the training clips as often as one training does all together; those of an ensemble "
    "see all of them each."
)

TOTAL = (
    "Fine-tuned strata take the steps of the training on all clips and then their own, so they are compared with a "
    "baseline that is trained for as many; what that gains too is no correction of a bias."
)
PARTS = (
    "A share of the steps each, strata cost in all what the baseline costs; with all steps each, and in an ensemble, "
    "as much as it costs as often. Strata at random are as large as those by length. Baseline to strata at random is "
    "what division costs, strata at random to strata by length what the division by length adds."
)


def _check_classes(corpus: Corpus) -> None:
    class_relevance(corpus, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())


BY_CLASSES = Measures(length_figures, NDCG[-1], MEASURES, ENDS, _check_classes)
"""The paper calls nDCG the metric that shows the bias."""

_table = partial(Comparison, measures=BY_CLASSES, notes=(COST,))

TABLE_1 = _table(against_trimming, (*NDCG, *MAP_EPIC, *MAP), lead=BACKDOOR)
TABLE_2 = _table(against_mining, (*NDCG, *MAP_EPIC, *MAP), lead=f"RANP + {BACKDOOR}")
TABLE_3 = _table(with_mining, (*RANKS, *NDCG), lead=f"{BASELINE} + {BACKDOOR}")
TABLE_4 = _table(divisions, (NDCG[-1], MAP_EPIC[-1], MAP[-1], "R@10", "MeanR"), lead="adjusted 2")
TABLE_6 = _table(without_streams, (NDCG[-1], MAP_EPIC[-1], MAP[-1]))
TABLE_7 = _table(other_matchers, (*NDCG, *MAP_EPIC, *MAP))
TABLE_10 = _table(with_ensemble, (*NDCG, *MAP_EPIC, *MAP), lead=BACKDOOR)
FAILURE = _table(fine_tuned_strata, (*NDCG, *MAP_EPIC, *MAP, "R@1", "R@10"), lead=TUNED, notes=(COST, TOTAL))
CONTROLS = _table(controls, (*NDCG, *MAP_EPIC, *MAP, "R@1"), lead=f"{STRATA}{ALL_STEPS}", notes=(COST, TOTAL, PARTS))
SHARED = _table(shared_encoder, (*NDCG, *MAP_EPIC, *MAP), lead="shared encoder")
