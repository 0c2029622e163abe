"""The studies by name: each table and figure of Generative Ghost (arXiv 2502.07327), and two that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from evenreel.audits.result import AuditResult
from evenreel.errors import UsageError
from evenreel.studies.debiasing import debiased_training
from evenreel.studies.direction import removed_direction
from evenreel.studies.findings import Findings
from evenreel.studies.fine_tuning import begun
from evenreel.studies.gallery import gallery_share
from evenreel.studies.material import Progress, StudyMaterial, StudySettings
from evenreel.studies.overview import benchmark, similarity
from evenreel.studies.probes import frame_order, one_frame
from evenreel.studies.projections import projected
from evenreel.studies.sweeps import training_share
from evenreel.studies.tables import from_pictures, from_text
from evenreel.studies.vectors import p_both, p_random, p_vector

Need = Literal["files", "rankings", "models", "features", "training"]
"""What a study works on: headers of the clips' files; rankings of models or of any system; models with features of the
test split; these features alone; features of the test and of the training split."""


@dataclass(frozen=True)
class Study:
    """One table or figure.

    Attributes:
        title: what it asks, for a heading.
        about: what it reproduces, for a list.
        function: makes it.
        needs: what it works on.
        takes: what it also looks at where it is there.
    """

    title: str
    about: str
    function: Callable[[StudyMaterial, StudySettings, Progress], Findings]
    needs: Need
    takes: tuple[Need, ...] = ()


STUDIES: dict[str, Study] = {
    "ghost/t1": Study(
        "Real clips and their mirrors",
        "Table 1: what the benchmark is made of",
        benchmark,
        "files",
        takes=("features", "training"),
    ),
    "ghost/f2": Study(
        "How near are mirrors to real clips?",
        "Figure 2: similarity of pairs",
        similarity,
        "features",
        takes=("training",),
    ),
    "ghost/t2": Study(
        "Do systems favour clips generated from text?",
        "Table 2: rankings of clips generated from text",
        from_text,
        "rankings",
    ),
    "ghost/t3": Study(
        "Do systems favour clips generated from pictures?",
        "Table 3: rankings of clips generated from an image or a video",
        from_pictures,
        "rankings",
    ),
    "ghost/f3": Study(
        "What does training on generated clips do?",
        "Figure 3: a growing share of generated clips in training",
        training_share,
        "training",
    ),
    "ghost/gallery": Study(
        "What does a gallery of generated clips do?",
        "Not in the paper: a growing share of generated clips in the gallery",
        gallery_share,
        "rankings",
    ),
    "ghost/t4": Study(
        "Is a preference due to the order of frames?",
        "Table 4: frames in random and in reverse order",
        frame_order,
        "models",
    ),
    "ghost/t5": Study(
        "Is a preference due to how clips look?",
        "Table 5: a single frame of each clip",
        one_frame,
        "models",
    ),
    "ghost/t6": Study(
        "What does training against a preference do?",
        "Table 6: debiased training beside plain fine-tuning",
        debiased_training,
        "training",
    ),
    "ghost/t7": Study(
        "What does the p-vector do to real clips?",
        "Table 7: the p-vector and its controls",
        p_vector,
        "training",
    ),
    "ghost/t8": Study(
        "What does the p-vector of scrambled clips do?",
        "Table 8: the p-vector of frames in random order",
        p_random,
        "training",
    ),
    "ghost/f4": Study(
        "What do both p-vectors do to real clips?",
        "Figure 4: Tables 7 and 8 on one baseline",
        p_both,
        "training",
    ),
    "ghost/f5": Study(
        "Where do vectors lie before and after debiasing?",
        "Figure 5: t-SNE of clips and p-vectors",
        projected,
        "training",
    ),
    "ghost/direction": Study(
        "What does removing the source direction do?",
        "Not in the paper: a preference corrected without training",
        removed_direction,
        "models",
        takes=("training",),
    ),
}


def run_study(
    name: str, material: StudyMaterial, settings: StudySettings, progress: Progress = lambda share: None
) -> AuditResult:
    """Make one study.

    Args:
        name: a key of `STUDIES`.
        material: what it works on.
        settings: how.
        progress: called with the share that is done.

    Raises:
        UsageError: there is no such study, or the material lacks what it needs.
        CorpusError: the test split has no generated clips that mirror real ones, or not those of the study.
    """
    study = find_study(name)
    if study.needs == "training":
        settings = replace(settings, recipe=begun(settings.recipe, material))
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
    """A study by its name.

    Raises:
        UsageError: there is none.
    """
    if name not in STUDIES:
        raise UsageError(f"{name!r} is no study; there are: {', '.join(STUDIES)}.")
    return STUDIES[name]
