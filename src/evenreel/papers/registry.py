"""The studies by name, and the one call that makes one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evenreel.errors import UsageError
from evenreel.papers.bima.studies import BIMA
from evenreel.papers.engine.needs import STAGES
from evenreel.papers.engine.settings import DepthSettings, StudySettings, TrainingSettings
from evenreel.papers.engine.study import Study
from evenreel.papers.frame_length.studies import LENGTH
from evenreel.papers.ghost.studies import GHOST
from evenreel.papers.tcd.studies import TCD
from evenreel.papers.titan.studies import TITAN
from evenreel.progress import Progress

if TYPE_CHECKING:
    from evenreel.papers.engine.inputs import StudyInputs
    from evenreel.report.result import AuditResult

RERANK = Study("rerank/depth", "rerank_depth:rerank_depth", STAGES, DepthSettings)
STUDIES = {one.name: one for one in (*GHOST, *LENGTH, *BIMA, *TCD, *TITAN, RERANK)}


def run_study(
    name: str, material: StudyInputs, settings: StudySettings, progress: Progress = lambda share: None
) -> AuditResult:
    """Make one study on inputs in memory.

    Args:
        name: a key of `STUDIES`.
        material: inputs of the class that the study needs.
        settings: settings of the study's class.
        progress: called with the share that is done.

    Raises:
        UsageError: there is no such study, or the material lacks what it needs.
        CorpusError: the test split has no generated clips that mirror real ones, or not those of the study.
    """
    from evenreel.papers.engine.fine_tuning import begun
    from evenreel.papers.engine.inputs import LearningInputs
    from evenreel.papers.engine.towers import check_towers, through_towers
    from evenreel.report.result import AuditResult

    study = find_study(name)
    if not isinstance(material, study.needs.inputs) or not isinstance(settings, study.settings):
        raise UsageError(
            f"The study {name} works on {study.needs.inputs.__name__} with {study.settings.__name__}; it was given "
            f"{type(material).__name__} with {type(settings).__name__}."
        )
    if isinstance(settings, TrainingSettings) and isinstance(material, LearningInputs):
        check_towers(study, settings.recipe)
        settings = replace(settings, recipe=through_towers(begun(settings.recipe, material), material))
    found = study.function(material, settings, progress)
    return AuditResult(
        name=name,
        title=study.title,
        sentence=f"{found.few} {found.sentence}".strip(),
        effect=replace(found.effect, enough=not found.few),
        tables=found.tables,
        figures=found.figures,
        notices=(*material.notices, *found.notices),
        method=found.method,
        confidence=settings.audit.confidence,
    )


def find_study(name: str) -> Study:
    """Return a study by its name.

    Raises:
        UsageError: no study has this name.
    """
    if name not in STUDIES:
        raise UsageError(f"{name!r} is no study; there are: {', '.join(STUDIES)}.")
    return STUDIES[name]
