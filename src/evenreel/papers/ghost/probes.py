"""Tables 4 and 5: what is left of a preference in another order of frames, and with one frame (section 4)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import cast

from evenreel.corpus.counterparts import counterparts
from evenreel.edits.frame_order import reordered, sees_order, single_frame
from evenreel.edits.settings import FrameOrder, OneFrame
from evenreel.papers.engine import PREFERENCE, Findings, effect_of, few_pairs, furthest, shown
from evenreel.papers.ghost.changes import (
    AS_IT_IS,
    VariantFigures,
    changes_table,
    compare_variants,
    variant_bars,
    variant_tables,
)
from evenreel.papers.ghost.measures import MAIN, notices_of
from evenreel.papers.study import StudySettings, paragraphs
from evenreel.papers.workspace import Model, Workspace, groups_in
from evenreel.progress import Progress
from evenreel.report.result import AuditFigure
from evenreel.types import ScoreBlocks, VideoFeatures

SEEN_ROWS = 8
"""Captions by whose scores it is found out whether a model sees the order of frames."""

View = Callable[[VideoFeatures, Collection[str]], VideoFeatures]
"""Videos and the ids of the generated ones -> videos as they are shown to a model."""


def frame_order(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 4 of Generative Ghost: frames in random and reverse order, of all clips or of generated ones alone."""
    views = {AS_IT_IS: _ordered("original", settings)}
    for order in ("random", "reversed"):
        views[f"{order}, both"] = _ordered(order, settings)
        views[f"{order}, generated alone"] = _ordered(order, settings, generated_alone=True)
    found = _probed(views, material, settings, progress)
    notices = [
        f"{model.name} does not see the order of frames, so what moving them changes is not about motion."
        for model in material.models
        if not _sees_order(model)
    ]
    return _findings(found, "another order of frames", material, notices)


def one_frame(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 5 of Generative Ghost: one frame of each clip, so that nothing but how clips look is left."""
    views: dict[str, View] = {AS_IT_IS: lambda videos, generated: videos}
    views |= {f"{which} frame": partial(_one, which, settings.audit.seed) for which in ("middle", "first", "random")}
    return _findings(_probed(views, material, settings, progress), "a single frame", material, ())


def _sees_order(model: Model) -> bool:
    rows = slice(0, SEEN_ROWS), slice(0, len(model.part.videos.ids))
    return sees_order(lambda videos: model.part.scores(model.matcher, videos).block(*rows), model.part.videos)


def _ordered(order: str, settings: StudySettings, *, generated_alone: bool = False) -> View:
    def view(videos: VideoFeatures, generated: Collection[str]) -> VideoFeatures:
        return reordered(
            videos,
            cast("FrameOrder", order),
            stage=settings.stage,
            take=settings.frames,
            seed=settings.audit.seed,
            only=generated if generated_alone else None,
        )

    return view


def _one(which: str, seed: int, videos: VideoFeatures, generated: Collection[str]) -> VideoFeatures:
    return single_frame(videos, cast("OneFrame", which), seed=seed)


def _probed(
    views: Mapping[str, View], material: Workspace, settings: StudySettings, progress: Progress
) -> VariantFigures:
    """Every model with every group of generated clips."""

    def scored(model: Model, group: str, share: Progress) -> Iterator[tuple[str, ScoreBlocks]]:
        videos = model.part.videos
        generated = set(counterparts(material.test, group)["generated_id"]) & set(videos.ids)
        for number, (name, view) in enumerate(views.items(), start=1):
            yield name, model.part.scores(model.matcher, view(videos, generated))
            share(number / len(views))

    return compare_variants(scored, material, settings, progress)


def _findings(found: VariantFigures, what: str, material: Workspace, notices: Sequence[str]) -> Findings:
    changes = found.changes
    group, model, view = lead = furthest(changes)
    before = found.figures[group, model, AS_IT_IS][MAIN].value
    told = sum(effect_of(change).is_significant for change in changes.values())
    return Findings(
        f"With {what}, {told} of {len(changes)} preferences change by more than chance explains; the largest change "
        f"is that of {model} on {group} ({view}): {PREFERENCE} {before:+.1f} changes by {shown(changes[lead])}.",
        effect_of(changes[lead], f"Change of {PREFERENCE}: {model}, {group}, {view}"),
        (changes_table(found, "frames"), *variant_tables(found, "frames")),
        (AuditFigure("Preference by what is shown", partial(variant_bars, found)),),
        (*notices, *notices_of(found.figures.values())),
        paragraphs("ghost", "Measures", "Changes"),
        few=few_pairs(material.test, groups_in(material.test)),
    )
