"""The overview of a corpus as a page: a sentence, the histogram of similarities, tables, and how it was computed."""

from __future__ import annotations

from math import isqrt

from evenreel.audits.inputs import paragraph
from evenreel.audits.overview.audit import PAPER_RULE, Overview, overview_tables
from evenreel.report.page import Chart, Page, Part, Section, Text
from evenreel.report.result import figure_words
from evenreel.types import CAMERA

_FEWEST_BINS, _MOST_BINS = 5, 40


def overview_method() -> tuple[str, str]:
    """Return the paragraphs on how an overview is computed, with the source."""
    frames = PAPER_RULE.split()[0]
    return paragraph("overview", "Files"), paragraph("overview", "Similarity", frames=frames)


def overview_page(found: Overview) -> Page:
    """Make the page of an overview of a corpus."""
    sections = [Section("What to know first", [Text(one, "notice") for one in found.notices])] if found.notices else []
    chart = _histogram(found)
    parts: list[Part] = [*([chart] if chart else []), *overview_tables(found)]
    sections += [
        Section("What was found", parts),
        Section("How it was calculated", [Text(one) for one in overview_method()]),
    ]
    return Page("Real clips and their mirrors", overview_sentence(found), sections)


def overview_sentence(found: Overview) -> str:
    """Return a sentence on the number of clips of each kind, and on the group most similar to the real clips."""
    real = sum(one.clips for one in found.groups if one.group == CAMERA)
    made: dict[str, int] = {}
    for one in found.groups:
        if one.group != CAMERA:
            made[one.group] = made.get(one.group, 0) + one.clips
    clips = f"{real:,} real clip{'' if real == 1 else 's'}"
    if not made:
        return f"{clips} and no generated ones."
    groups = ", ".join(f"{count:,} of {group}" for group, count in made.items())
    return f"{clips} and {sum(made.values()):,} generated: {groups}.{_nearest(found)}"


def _nearest(found: Overview) -> str:
    if not found.similarity:
        return ""
    group, mean = max(found.similarity.items(), key=lambda one: one[1].value)
    said = (
        f" Clips of {group} have a mean similarity of {figure_words(mean, found.confidence, digits=3)} to the real ones"
    )
    return f"{said}, the nearest of all groups." if len(found.similarity) > 1 else f"{said} that they mirror."


def _histogram(found: Overview) -> Chart | None:
    from evenreel.report.figures import similarity_histogram

    measured = found.pairs.filter(found.pairs["similarity"].is_not_nan())
    groups = {
        str(group): part["similarity"].to_numpy() for (group,), part in measured.group_by("group", maintain_order=True)
    }
    if not groups:
        return None
    bins = min(_MOST_BINS, max(_FEWEST_BINS, isqrt(min(map(len, groups.values())))))
    return Chart(similarity_histogram(groups, bins=bins), "Similarity of real clips and their mirrors, all splits")
