from .registry import STUDIES as STUDIES, find_study as find_study, run_study as run_study
from .study import (
    Sources as Sources,
    Study as Study,
    StudySettings as StudySettings,
    study_recipe as study_recipe,
)
from .workspace import (
    CaptionBank as CaptionBank,
    ClipText as ClipText,
    CorpusPart as CorpusPart,
    Model as Model,
    ScreenText as ScreenText,
    Workspace as Workspace,
    on_screen_of as on_screen_of,
    part_of as part_of,
)
