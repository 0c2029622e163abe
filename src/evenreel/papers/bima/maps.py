"""Figures 1 and 6 of BiMa (arXiv 2506.03589): what clips look like to a model, and the elements that it attends to.

The paper does not say what its heat is of. Here there are two kinds, with patches as the towers of the features see
them (`evenreel.encoders.towers`). The heat of a caption is the score that the model gives it with a clip that shows
one patch and nothing else; it goes through all that a matcher does, so that it can be drawn for any. The heat of an
element is the cosine of patches and its phrases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from evenreel.errors import UsageError
from evenreel.papers.bima.looks import HOTTEST, Attention, ElementLook, look
from evenreel.papers.bima.settings import MapSettings
from evenreel.papers.engine.answers import alike, answer, asked, chosen, notices_of_shown, shares_first
from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import PictureInputs
from evenreel.papers.engine.material import Model
from evenreel.papers.engine.words import paragraph, paragraphs
from evenreel.progress import Progress
from evenreel.report.result import AuditFigure, AuditTable, Cell
from evenreel.types import ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go


class View(NamedTuple):
    """A caption, and the clip that is shown under its heat.

    Attributes:
        caption: row of the caption in the split.
        clip: id of the clip that is shown with it; None for the one that each system finds first.
    """

    caption: int
    clip: str | None = None


@dataclass(frozen=True, eq=False)
class Seen:
    """What one system sees of a clip beside a caption, and how it ranks the caption's own clip.

    Attributes:
        system: name of the system.
        caption: text of the caption.
        clip: id of the clip that is shown.
        right: whether the caption describes that clip.
        rank: rank of the clip that the caption describes.
        look: what the system sees of the clip.
    """

    system: str
    caption: str
    clip: str
    right: bool
    rank: int
    look: ElementLook


def maps(material: PictureInputs, settings: MapSettings, progress: Progress) -> Findings:
    """Make figures 1 and 6 of BiMa: heat on frames for captions, and the attention of frames to scene elements."""
    models, looking = alike(material.encoders()), material.pictures()
    rankings = {model.name: model.part.scores(model.matcher) for model in models}
    views = _views(models, rankings, settings)
    seen: list[Seen] = []
    for view in views:
        for model in models:
            answered = answer(model, rankings[model.name], view.caption)
            column = answered.first[0] if view.clip is None else model.part.videos.ids.index(view.clip)
            found = look(model, view.caption, column, looking)
            caption, clip = model.part.corpus.captions["text"][view.caption], model.part.videos.ids[column]
            seen.append(Seen(model.name, caption, clip, column == answered.own, answered.rank, found))
            progress(len(seen) / (len(views) * len(models)))
    return _findings([model.name for model in models], seen, settings)


def _views(models: Sequence[Model], rankings: Mapping[str, ScoreBlocks], settings: MapSettings) -> list[View]:
    """What the user asks for; else some captions, and what each system finds first for them."""
    rows = asked(models[0].part.corpus, settings.queries)
    if not settings.clips:
        return [View(row) for row in rows or chosen(models, rankings)]
    own = {clip: row for row, clip in reversed(list(enumerate(models[0].part.corpus.captions["clip_id"])))}
    if strange := [one for one in settings.clips if one not in own]:
        raise UsageError(f"The split has no clip {strange[0]!r} with a caption and features; --clip takes ids.")
    return [View(row, clip) for clip in settings.clips for row in rows or [own[clip]]]


def _findings(systems: Sequence[str], seen: Sequence[Seen], settings: MapSettings) -> Findings:
    told, effect = shares_first({name: [one.rank for one in seen if one.system == name] for name in systems})
    columns = ("system", "caption", "clip shown", "it is", "elements", "rank of the right clip")
    picked = not settings.queries and not settings.clips and len(systems) > 1
    return Findings(
        told,
        effect,
        (AuditTable("What is shown", columns, tuple(_row(one) for one in seen)),),
        tuple(figure for one in seen for figure in _figures(one)),
        notices_of_shown(chosen=picked),
        paragraphs("bima", "Heat"),
    )


def _row(seen: Seen) -> tuple[Cell, ...]:
    elements = () if seen.look.attention is None else seen.look.attention.elements[:HOTTEST]
    named = "; ".join(" + ".join(element.phrases) for element in elements) or None
    return seen.system, seen.caption, seen.clip, "right" if seen.right else "wrong", named, seen.rank


def _figures(seen: Seen) -> Iterator[AuditFigure]:
    title = f"{seen.system}: {seen.caption!r}, clip {seen.clip}"
    yield AuditFigure(
        f"{title} ({'right' if seen.right else 'wrong'})", partial(_strip, seen), paragraph("bima", "Strips of frames")
    )
    if seen.look.attention is not None:
        yield AuditFigure(f"{title}: attention", partial(_attention, seen.look.attention))


def _strip(seen: Seen) -> go.Figure:
    from evenreel.papers.bima.map_figures import heat_strip

    return heat_strip(seen.look, right=seen.right)


def _attention(attention: Attention) -> go.Figure:
    from evenreel.papers.bima.map_figures import attention_map

    return attention_map(attention)
