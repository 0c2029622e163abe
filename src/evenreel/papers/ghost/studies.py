"""Each table and figure of Generative Ghost (arXiv 2502.07327) by name, and two that it does not have."""

from __future__ import annotations

from typing import Any

from evenreel.papers.engine.needs import DIRECTIONS, FILES, FINE_TUNING, MODELS, PAIRS, RANKINGS
from evenreel.papers.engine.settings import GroupSettings, StudySettings
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

GHOST: dict[str, Study[Any, Any]] = {
    "ghost/t1": Study(
        "Real clips and their mirrors",
        "Table 1: what the benchmark is made of",
        benchmark,
        FILES,
        StudySettings,
        mirrors=True,
    ),
    "ghost/f2": Study(
        "How near are mirrors to real clips?",
        "Figure 2: similarity of pairs",
        similarity,
        PAIRS,
        StudySettings,
        mirrors=True,
    ),
    "ghost/t2": Study(
        "Do systems favour clips generated from text?",
        "Table 2: rankings of clips generated from text",
        from_text,
        RANKINGS,
        StudySettings,
        mirrors=True,
    ),
    "ghost/t3": Study(
        "Do systems favour clips generated from pictures?",
        "Table 3: rankings of clips generated from an image or a video",
        from_pictures,
        RANKINGS,
        StudySettings,
        mirrors=True,
    ),
    "ghost/f3": Study(
        "What does training on generated clips do?",
        "Figure 3: a growing share of generated clips in training",
        training_share,
        FINE_TUNING,
        ShareSettings,
        mirrors=True,
    ),
    "ghost/gallery": Study(
        "What does a gallery of generated clips do?",
        "Not in the paper: a growing share of generated clips in the gallery",
        gallery_share,
        RANKINGS,
        StudySettings,
        mirrors=True,
    ),
    "ghost/t4": Study(
        "Is a preference due to the order of frames?",
        "Table 4: frames in random and in reverse order",
        frame_order,
        MODELS,
        FrameSettings,
        mirrors=True,
    ),
    "ghost/t5": Study(
        "Is a preference due to how clips look?",
        "Table 5: a single frame of each clip",
        one_frame,
        MODELS,
        StudySettings,
        mirrors=True,
    ),
    "ghost/t6": Study(
        "What does training against a preference do?",
        "Table 6: debiased training beside plain fine-tuning",
        debiased_training,
        FINE_TUNING,
        GroupSettings,
        mirrors=True,
    ),
    "ghost/t7": Study(
        "What does the p-vector do to real clips?",
        "Table 7: the p-vector and its controls",
        p_vector,
        FINE_TUNING,
        VectorSettings,
        mirrors=True,
    ),
    "ghost/t8": Study(
        "What does the p-vector of scrambled clips do?",
        "Table 8: the p-vector of frames in random order",
        p_random,
        FINE_TUNING,
        VectorSettings,
        mirrors=True,
    ),
    "ghost/f4": Study(
        "What do both p-vectors do to real clips?",
        "Figure 4: Tables 7 and 8 on one baseline",
        p_both,
        FINE_TUNING,
        VectorSettings,
        mirrors=True,
    ),
    "ghost/f5": Study(
        "Where do vectors lie before and after debiasing?",
        "Figure 5: t-SNE of clips and p-vectors",
        projected,
        FINE_TUNING,
        VectorSettings,
        mirrors=True,
    ),
    "ghost/direction": Study(
        "What does removing the source direction do?",
        "Not in the paper: a preference corrected without training",
        removed_direction,
        DIRECTIONS,
        StudySettings,
        mirrors=True,
    ),
}
