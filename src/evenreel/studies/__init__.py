"""Studies: each table and figure of a paper on a corpus of your own, as a function of material in memory."""

from evenreel.studies.caption_bank import CaptionBank
from evenreel.studies.fine_tuning import study_recipe
from evenreel.studies.material import Model, Part, StudyMaterial, StudySettings, part_of
from evenreel.studies.on_screen import ClipText, ScreenText, on_screen_of
from evenreel.studies.registry import STUDIES, find_study, run_study
from evenreel.studies.study import Study

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
