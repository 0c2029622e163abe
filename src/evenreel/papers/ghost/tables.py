"""Tables 2 and 3: how systems rank real clips and their mirrors, by what the generator was given (section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

from evenreel.audits.exchange import MIX_R
from evenreel.errors import CorpusError
from evenreel.papers.engine.findings import PREFERENCE, Findings, effect_of, few_pairs, furthest, shown, verdict
from evenreel.papers.engine.inputs import RankingInputs
from evenreel.papers.engine.material import groups_in
from evenreel.papers.engine.settings import StudySettings
from evenreel.papers.engine.words import paragraphs
from evenreel.papers.ghost.measures import (
    MAIN,
    Figures,
    group_bars,
    group_tables,
    measured,
    notices_of,
    preference_table,
)
from evenreel.progress import Progress, each_part
from evenreel.report.result import AuditFigure

SEEING = ("image", "video")
"""Settings in which the generator saw something of the real clip."""

Measured = Mapping[tuple[str, str], Figures]
"""Figures by group and system."""


def from_text(material: RankingInputs, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 2 of Generative Ghost: rankings of clips generated from a caption alone, or from what nobody noted."""
    groups = [group for group, given in groups_in(material.test).items() if given not in SEEING]
    if not groups:
        raise CorpusError(
            "All generated clips of the test split were made from an image or a video, which is the study ghost/t3."
        )
    return _by_setting(groups, material, settings, progress)


def from_pictures(material: RankingInputs, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 3 of Generative Ghost: rankings of clips whose generator saw a picture or a part of the real clip."""
    there = groups_in(material.test)
    groups = [group for group, given in there.items() if given in SEEING]
    if not groups:
        raise CorpusError(
            "No generated clip of the test split was made from an image or a video (the column 'setting' of the clips "
            f"would say so); there are: {', '.join(there)}."
        )
    return _by_setting(groups, material, settings, progress)


def _by_setting(
    groups: Sequence[str], material: RankingInputs, settings: StudySettings, progress: Progress
) -> Findings:
    systems = material.systems()
    found = {
        (group, system): measured(systems[system], material.test, group, settings.audit)
        for (group, system), _ in each_part(list(product(groups, systems)), progress)
    }
    lead = furthest({key: figures[MAIN] for key, figures in found.items()})
    return Findings(
        _sentence(found, lead),
        effect_of(found[lead][MAIN], f"{PREFERENCE} of {lead[1]} on {lead[0]}"),
        (
            preference_table("The preference of each system", ("generated clips", "system"), list(found.items())),
            *group_tables("system", found),
        ),
        tuple(
            AuditFigure(f"Preference by setting: {metric}", partial(group_bars, found, metric))
            for metric in (MIX_R, "R@1")
        ),
        notices_of(found.values()),
        paragraphs("ghost", "Measures"),
        few=few_pairs(material.test, groups),
    )


def _sentence(found: Measured, lead: tuple[str, str]) -> str:
    """How many favour what, and which the most."""
    told = [effect_of(figures[MAIN]) for figures in found.values()]
    sides = [one.value > 0 for one in told if one.is_significant]
    group, system = lead
    counted = (
        f"Of {len(found)} rankings, a system with a group of generated clips each, {len(sides) - sum(sides)} favour "
        f"generated clips, {sum(sides)} real ones, and of {len(found) - len(sides)} it cannot be told. "
        if len(found) > 1
        else ""
    )
    figure = found[lead][MAIN]
    return f"{counted}{system} {verdict(figure)} on {group}: {PREFERENCE} {shown(figure)}."
