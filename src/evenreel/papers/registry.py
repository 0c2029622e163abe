"""The studies by name, and the one call that makes one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evenreel.errors import UsageError
from evenreel.papers.bima.tables import BIMA
from evenreel.papers.frame_length.tables import LENGTH
from evenreel.papers.ghost.studies import GHOST
from evenreel.papers.study import STAGES, Study, StudySettings, study_recipe
from evenreel.papers.tcd.tables import TCD
from evenreel.papers.titan.studies import TITAN
from evenreel.progress import Progress

if TYPE_CHECKING:
    from evenreel.papers.workspace import Workspace
    from evenreel.report.result import AuditResult

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
    from evenreel.report.result import AuditResult

    study = find_study(name)
    if "recipe" in study.options:
        from evenreel.papers.engine import begun

        recipe = settings.recipe or study_recipe(default=study.recipe)
        settings = replace(settings, recipe=begun(study, recipe, material))
    if "adapt" in study.options and settings.adapt is None:
        from evenreel.adaptation.titan import AdaptSettings

        settings = replace(settings, adapt=AdaptSettings())
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
