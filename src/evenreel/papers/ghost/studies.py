"""Each table and figure of Generative Ghost (arXiv 2502.07327) by name, and two that it does not have."""

from __future__ import annotations

from evenreel.papers.study import FILES, MODELS, PAIRS, RANKINGS, TRAINING, TRAINS, Needs, Study

ORDER, GROUP = ("stage", "frames"), (*TRAINS, "group")


def _study(name: str, make: str, needs: Needs, *options: str) -> Study:
    return Study(f"ghost/{name}", make, needs, options, mirrors=True)


GHOST: tuple[Study, ...] = (
    _study("t1", "ghost.overview:benchmark", FILES),
    _study("f2", "ghost.overview:similarity", PAIRS),
    _study("t2", "ghost.tables:from_text", RANKINGS),
    _study("t3", "ghost.tables:from_pictures", RANKINGS),
    _study("f3", "ghost.sweeps:training_share", TRAINING, *GROUP, "shares"),
    _study("gallery", "ghost.gallery:gallery_share", RANKINGS, "seeds"),
    _study("t4", "ghost.probes:frame_order", MODELS, *ORDER),
    _study("t5", "ghost.probes:one_frame", MODELS),
    _study("t6", "ghost.debiasing:debiased_training", TRAINING, *GROUP),
    _study("t7", "ghost.vectors:p_vector", TRAINING, *ORDER, *GROUP),
    _study("t8", "ghost.vectors:p_random", TRAINING, *ORDER, *GROUP),
    _study("f4", "ghost.vectors:p_both", TRAINING, *ORDER, *GROUP),
    _study("f5", "ghost.projections:projected", TRAINING, *ORDER, *GROUP),
)
