"""Each table and figure of Generative Ghost (arXiv 2502.07327) by name, and two that it does not have."""

from __future__ import annotations

from evenreel.papers.engine.needs import FILES, FINE_TUNING, MODELS, PAIRS, RANKINGS
from evenreel.papers.engine.settings import GroupSettings, SeededSettings, StudySettings
from evenreel.papers.engine.study import Study
from evenreel.papers.ghost.settings import FrameSettings, ShareSettings, VectorSettings

GHOST: tuple[Study, ...] = (
    Study("ghost/t1", "ghost.figures:benchmark", FILES, StudySettings, mirrors=True),
    Study("ghost/f2", "ghost.figures:similarity", PAIRS, StudySettings, mirrors=True),
    Study("ghost/t2", "ghost.figures:from_text", RANKINGS, StudySettings, mirrors=True),
    Study("ghost/t3", "ghost.figures:from_pictures", RANKINGS, StudySettings, mirrors=True),
    Study("ghost/f3", "ghost.figures:training_share", FINE_TUNING, ShareSettings, mirrors=True),
    Study("ghost/gallery", "ghost.figures:gallery_share", RANKINGS, SeededSettings, mirrors=True),
    Study("ghost/t4", "ghost.figures:frame_order", MODELS, FrameSettings, mirrors=True),
    Study("ghost/t5", "ghost.figures:one_frame", MODELS, StudySettings, mirrors=True),
    Study("ghost/t6", "ghost.figures:debiased_training", FINE_TUNING, GroupSettings, mirrors=True),
    Study("ghost/t7", "ghost.p_vector:p_vector", FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/t8", "ghost.p_vector:p_random", FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/f4", "ghost.p_vector:p_both", FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/f5", "ghost.p_vector:projected", FINE_TUNING, VectorSettings, mirrors=True),
)
