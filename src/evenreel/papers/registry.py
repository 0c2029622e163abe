"""The studies by name, and the one call that makes one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evenreel.errors import UsageError
from evenreel.papers.bima.tables import BIMA
from evenreel.papers.frame_length.tables import LENGTH
from evenreel.papers.study import (
    FILES,
    MODELS,
    PAIRS,
    RANKINGS,
    STAGES,
    STREAMS,
    TRAINING,
    TRAINS,
    Needs,
    Study,
    StudySettings,
    study_recipe,
)
from evenreel.papers.tcd.tables import TCD
from evenreel.progress import Progress

if TYPE_CHECKING:
    from evenreel.papers.workspace import Workspace
    from evenreel.report.result import AuditResult

ORDER, GROUP = ("stage", "frames"), (*TRAINS, "group")


def _ghost(name: str, make: str, needs: Needs, *options: str) -> Study:
    return Study(f"ghost/{name}", f"ghost.figures:{make}", needs, options, mirrors=True)


def _titan(name: str, make: str, protocol: str = "online", option: str = "seeds") -> Study:
    return Study(f"titan/{name}", f"titan.figures:{make}", STREAMS, (option, "adapt"), recipe=f"titan/{protocol}")


GHOST: tuple[Study, ...] = (
    _ghost("t1", "benchmark", FILES),
    _ghost("f2", "similarity", PAIRS),
    _ghost("t2", "from_text", RANKINGS),
    _ghost("t3", "from_pictures", RANKINGS),
    _ghost("f3", "training_share", TRAINING, *GROUP, "shares"),
    _ghost("gallery", "gallery_share", RANKINGS, "seeds"),
    _ghost("t4", "frame_order", MODELS, *ORDER),
    _ghost("t5", "one_frame", MODELS),
    _ghost("t6", "debiased_training", TRAINING, *GROUP),
    _ghost("t7", "p_vector", TRAINING, *ORDER, *GROUP),
    _ghost("t8", "p_random", TRAINING, *ORDER, *GROUP),
    _ghost("f4", "p_both", TRAINING, *ORDER, *GROUP),
    _ghost("f5", "projected", TRAINING, *ORDER, *GROUP),
)
TITAN: tuple[Study, ...] = (
    _titan("t1", "T1"),
    _titan("t2", "T2"),
    _titan("t3", "T3", "offline"),
    _titan("f4", "F4"),
    _titan("f5", "corrected_phrases", "offline", "queries"),
)
RERANK = Study("rerank/depth", "rerank_depth:rerank_depth", STAGES, ("margin",))
STUDIES = {one.name: one for one in (*GHOST, *LENGTH, *BIMA, *TCD, *TITAN, RERANK)}


def run_study(
    name: str, material: Workspace, settings: StudySettings, progress: Progress = lambda share: None
) -> AuditResult:
    """Make one study on what is in memory.

    Args:
        name: a key of `STUDIES`.
        material: the corpus, and as much beside it as the study looks at.
        settings: settings, of which the study looks at `STUDIES[name].options`.
        progress: called with the share that is done.

    Raises:
        UsageError: there is no such study, or the material lacks what it needs.
        CorpusError: the test split has no generated clips that mirror real ones, or not those of the study.
    """
    study = find_study(name)
    if "recipe" in study.options:
        from evenreel.papers.engine import begun

        recipe = settings.recipe or study_recipe(default=study.recipe)
        settings = replace(settings, recipe=begun(study, recipe, material))
    if "adapt" in study.options and settings.adapt is None:
        from evenreel.adaptation.titan import AdaptSettings

        settings = replace(settings, adapt=AdaptSettings())
    found = study.function(material, settings, progress)
    notices = (*material.notices, *found.notices)
    return replace(found, name=name, title=study.title, notices=notices, confidence=settings.audit.confidence)


def find_study(name: str) -> Study:
    """Return a study by its name.

    Raises:
        UsageError: no study has this name.
    """
    if name not in STUDIES:
        raise UsageError(f"{name!r} is no study; there are: {', '.join(STUDIES)}.")
    return STUDIES[name]
