"""Each table and figure of Generative Ghost (arXiv 2502.07327) by name, and two that it does not have."""

from __future__ import annotations

from typing import Any

from evenreel.papers.engine.needs import DIRECTIONS, FILES, FINE_TUNING, MODELS, PAIRS, RANKINGS
from evenreel.papers.engine.settings import GroupSettings, SeededSettings, StudySettings
from evenreel.papers.engine.study import Study
from evenreel.papers.ghost.debiasing import debiased_training
from evenreel.papers.ghost.direction import removed_direction
from evenreel.papers.ghost.gallery import gallery_share
from evenreel.papers.ghost.overview import benchmark, similarity
from evenreel.papers.ghost.probes import FrameSettings, frame_order, one_frame
from evenreel.papers.ghost.projections import projected
from evenreel.papers.ghost.sweeps import ShareSettings, training_share
from evenreel.papers.ghost.tables import from_pictures, from_text
from evenreel.papers.ghost.vectors import VectorSettings, p_both, p_random, p_vector

GHOST: tuple[Study[Any, Any], ...] = (
    Study("ghost/t1", benchmark, FILES, StudySettings, mirrors=True),
    Study("ghost/f2", similarity, PAIRS, StudySettings, mirrors=True),
    Study("ghost/t2", from_text, RANKINGS, StudySettings, mirrors=True),
    Study("ghost/t3", from_pictures, RANKINGS, StudySettings, mirrors=True),
    Study("ghost/f3", training_share, FINE_TUNING, ShareSettings, mirrors=True),
    Study("ghost/gallery", gallery_share, RANKINGS, SeededSettings, mirrors=True),
    Study("ghost/t4", frame_order, MODELS, FrameSettings, mirrors=True),
    Study("ghost/t5", one_frame, MODELS, StudySettings, mirrors=True),
    Study("ghost/t6", debiased_training, FINE_TUNING, GroupSettings, mirrors=True),
    Study("ghost/t7", p_vector, FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/t8", p_random, FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/f4", p_both, FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/f5", projected, FINE_TUNING, VectorSettings, mirrors=True),
    Study("ghost/direction", removed_direction, DIRECTIONS, StudySettings, mirrors=True),
)
