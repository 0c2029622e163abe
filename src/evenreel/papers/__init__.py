"""Studies: each table and figure of a paper on a corpus of your own, as a function of inputs in memory.

A study is registered in the `studies` module of its paper: its title, what it reproduces, its function, what it works
on (`engine.needs`: where that is on disk, the record the function is given, and the reader between them) and the class
of its settings, whose fields are its options on the command line. `registry.run_study` makes one: `engine.variants`
are its rows, `engine.trainings` trains them, `engine.training_tables` measures and compares them.
"""

from evenreel.papers.engine.caption_bank import CaptionBank
from evenreel.papers.engine.inputs import (
    DirectionInputs,
    FeatureInputs,
    LearningInputs,
    LengthInputs,
    LengthRankingInputs,
    ModelInputs,
    PairInputs,
    PictureInputs,
    RankingInputs,
    StreamInputs,
    StudyInputs,
    TextPictureInputs,
    TransferInputs,
)
from evenreel.papers.engine.material import Model, Part, part_of
from evenreel.papers.engine.on_screen import ClipText, ScreenText, on_screen_of
from evenreel.papers.engine.recipes import study_recipe
from evenreel.papers.engine.settings import StudySettings, TrainingSettings
from evenreel.papers.engine.study import Study
from evenreel.papers.registry import STUDIES, find_study, run_study

__all__ = [
    "STUDIES",
    "CaptionBank",
    "ClipText",
    "DirectionInputs",
    "FeatureInputs",
    "LearningInputs",
    "LengthInputs",
    "LengthRankingInputs",
    "Model",
    "ModelInputs",
    "PairInputs",
    "Part",
    "PictureInputs",
    "RankingInputs",
    "ScreenText",
    "StreamInputs",
    "Study",
    "StudyInputs",
    "StudySettings",
    "TextPictureInputs",
    "TrainingSettings",
    "TransferInputs",
    "find_study",
    "on_screen_of",
    "part_of",
    "run_study",
    "study_recipe",
]
