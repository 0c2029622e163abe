"""Studies: each table and figure of a paper on a corpus of your own, as a function of material in memory."""

from evenreel.papers.engine.caption_bank import CaptionBank
from evenreel.papers.engine.fine_tuning import study_recipe
from evenreel.papers.engine.material import Model, Part, StudyMaterial, StudySettings, part_of
from evenreel.papers.engine.on_screen import ClipText, ScreenText, on_screen_of
from evenreel.papers.engine.study import Study
from evenreel.papers.registry import STUDIES, find_study, run_study

__all__ = [
    "STUDIES",
    "CaptionBank",
    "ClipText",
    "Model",
    "Part",
    "ScreenText",
    "Study",
    "StudyMaterial",
    "StudySettings",
    "find_study",
    "on_screen_of",
    "part_of",
    "run_study",
    "study_recipe",
]
