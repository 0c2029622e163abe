from .engine.caption_bank import CaptionBank as CaptionBank
from .engine.inputs import (
    FeatureInputs as FeatureInputs,
    LearningInputs as LearningInputs,
    LengthInputs as LengthInputs,
    LengthRankingInputs as LengthRankingInputs,
    ModelInputs as ModelInputs,
    PairInputs as PairInputs,
    PictureInputs as PictureInputs,
    RankingInputs as RankingInputs,
    StreamInputs as StreamInputs,
    StudyInputs as StudyInputs,
    TextPictureInputs as TextPictureInputs,
    TransferInputs as TransferInputs,
)
from .engine.material import Model as Model, CorpusPart as CorpusPart, part_of as part_of
from .engine.on_screen import ClipText as ClipText, ScreenText as ScreenText, on_screen_of as on_screen_of
from .engine.settings import (
    SeededSettings as SeededSettings,
    StudySettings as StudySettings,
    TrainingSettings as TrainingSettings,
    study_recipe as study_recipe,
)
from .engine.study import Study as Study
from .registry import STUDIES as STUDIES, find_study as find_study, run_study as run_study
