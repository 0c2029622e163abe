"""Each table and figure of Generative Ghost (arXiv 2502.07327) by name, and two that it does not have."""

from __future__ import annotations

from evenreel.papers.engine.needs import FILES, FINE_TUNING, MODELS, PAIRS, RANKINGS
from evenreel.papers.engine.settings import GroupSettings, SeededSettings, StudySettings
from evenreel.papers.engine.study import Study
from evenreel.papers.ghost.settings import FrameSettings, ShareSettings, VectorSettings

GHOST: tuple[Study, ...] = (
    Study("ghost/t1", "ghost.overview:benchmark", FILES, StudySettings, mirrors=True),
    Study("ghost/f2", "ghost.overview:similarity", PAIRS, StudySettings, mirrors=True),
    Study("ghost/t2", "ghost.tables:from_text", RANKINGS, StudySettings, mirrors=True),
    Study("ghost/t3", "ghost.tables:from_pictures", RANKINGS, StudySettings, mirrors=True),
    Study("ghost/f3", "ghost.sweeps:training_share", FINE_TUNING, ShareSettings, mirrors=True),
    Study("ghost/gallery", "ghost.gallery:gallery_share", RANKINGS, SeededSettings, mirrors=True),
    Study("ghost/t4", "ghost.probes:frame_order", MODELS, FrameSettings, mirrors=True),
    Study("ghost/t5", "ghost.probes:one_frame", MODELS, StudySettings, mirrors=True),
    Study("ghost/t6", "ghost.debiasing:debiased_training", FINE_TUNING, GroupSettings, mirrors=True),
    Study("ghost/t7", "ghost.vectors:p_vector", FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/t8", "ghost.vectors:p_random", FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/f4", "ghost.vectors:p_both", FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/f5", "ghost.projections:projected", FINE_TUNING, VectorSettings, mirrors=True),
)
