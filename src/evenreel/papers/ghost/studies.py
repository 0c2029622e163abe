"""Each table and figure of Generative Ghost (arXiv 2502.07327) by name, and two that it does not have."""

from __future__ import annotations

from evenreel.papers.study import FILES, MODELS, PAIRS, RANKINGS, TRAINING, TRAINS, Needs, Study

ORDER, GROUP = ("stage", "frames"), (*TRAINS, "group")


def _study(name: str, make: str, needs: Needs, *options: str) -> Study:
    return Study(f"ghost/{name}", make, needs, options, mirrors=True)


GHOST: tuple[Study, ...] = (
    _study("t1", "ghost.figures:benchmark", FILES),
    _study("f2", "ghost.figures:similarity", PAIRS),
    _study("t2", "ghost.figures:from_text", RANKINGS),
    _study("t3", "ghost.figures:from_pictures", RANKINGS),
    _study("f3", "ghost.figures:training_share", TRAINING, *GROUP, "shares"),
    _study("gallery", "ghost.figures:gallery_share", RANKINGS, "seeds"),
    _study("t4", "ghost.figures:frame_order", MODELS, *ORDER),
    _study("t5", "ghost.figures:one_frame", MODELS),
    _study("t6", "ghost.figures:debiased_training", TRAINING, *GROUP),
    _study("t7", "ghost.p_vector:p_vector", TRAINING, *ORDER, *GROUP),
    _study("t8", "ghost.p_vector:p_random", TRAINING, *ORDER, *GROUP),
    _study("f4", "ghost.p_vector:p_both", TRAINING, *ORDER, *GROUP),
    _study("f5", "ghost.p_vector:projected", TRAINING, *ORDER, *GROUP),
)
