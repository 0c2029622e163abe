"""Figures 1 and 6 of BiMa (arXiv 2506.03589): what clips look like to a model, and the elements that it attends to.

The paper does not say what its heat is of. Here there are two kinds, with patches as the towers of the features see
them (`evenreel.encoders.patches`). The heat of a caption is the score that the model gives it with a clip that shows
one patch and nothing else; it goes through all that a matcher does, so that it can be drawn for any. The heat of an
element is the cosine of patches and its phrases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from evenreel.audits.result import AuditFigure, AuditTable, Cell, Effect
from evenreel.corpus import select
from evenreel.errors import UsageError
from evenreel.studies.findings import Findings
from evenreel.studies.looks import HOTTEST, Attention, Look, look
from evenreel.studies.material import Model, Progress, StudyMaterial, StudySettings
from evenreel.types import ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

CAPTIONS, MOST_CAPTIONS = 4, 1_000
"""Shown where the user names none, and looked through for them."""

_SHARE = "Share of the captions shown whose clip is first"
_FEW = "A few captions show what a model looks at, and prove nothing about all of them."
_CHOSEN = (
    f"The captions shown are those of the first {MOST_CAPTIONS:,} that the first system answers and the last one does "
    "not, as far as there are some: name others with --query."
)
_METHOD = (
    "The heat of a caption is the model's score of it with a clip of one frame whose feature is a patch's, with the "
    "scene elements of the whole clip; the heat of an element is the cosine of patches and the middle between its "
    "phrases. A patch's feature is what the last attention of the tower gives if it looks at that patch alone (after "
    "MaskCLIP, arXiv 2112.01071). Colours begin at the median of a row and end at its hottest patch: they compare "
    "patches, not rows."
)
_STRIP_NOTE = (
    "Frames as the towers see them, with a border in green where the caption describes the clip, else in red. Percent: "
    "an element's share of the attention of all frames."
)


class View(NamedTuple):
    """What is looked at.

    Attributes:
        caption: its row in the split.
        clip: id of the clip that is shown with it; None for the one that each system finds first.
    """

    caption: int
    clip: str | None = None


class Answer(NamedTuple):
    """Columns of the clip that is first and of the clip that the caption describes, and the rank of that one."""

    first: int
    own: int
    rank: int


@dataclass(frozen=True, eq=False)
class Seen:
    """A caption and a clip to one system.

    Attributes:
        system: its name.
        caption: as it is written.
        clip: id of the one that is shown.
        right: whether the caption describes it.
        rank: of the clip that it describes.
        look: what the system sees.
    """

    system: str
    caption: str
    clip: str
    right: bool
    rank: int
    look: Look


def maps(material: StudyMaterial, settings: StudySettings, progress: Progress) -> Findings:
    """Figures 1 and 6, with the attention of frames to elements beside them.

    Raises:
        UsageError: there is no model or no way to look at clips; a caption or clip is not in the split.
        CorpusError: a clip has no file.
        MediaError: a clip cannot be read, or is not the one that features were made of.
    """
    models, looking = _alike(material.encoders()), material.pictures()
    rankings = {model.name: model.part.scores(model.matcher) for model in models}
    views = _views(models, rankings, settings)
    seen: list[Seen] = []
    for view in views:
        for model in models:
            answer = _answer(model, rankings[model.name], view.caption)
            column = answer.first if view.clip is None else model.part.videos.ids.index(view.clip)
            found = look(model, view.caption, column, looking)
            caption, clip = model.part.corpus.captions["text"][view.caption], model.part.videos.ids[column]
            seen.append(Seen(model.name, caption, clip, column == answer.own, answer.rank, found))
            progress(len(seen) / (len(views) * len(models)))
    return _findings([model.name for model in models], seen, settings)


def _alike(models: Sequence[Model]) -> list[Model]:
    """The models with the clips that all of them have features of, so that a row is the same caption to each."""
    shared = set.intersection(*(set(model.part.videos.ids) for model in models))
    corpus = select(models[0].part.corpus, where=pl.col("clip_id").is_in(shared))
    return [replace(model, part=model.part.only(corpus)) for model in models]


def _views(models: Sequence[Model], rankings: Mapping[str, ScoreBlocks], settings: StudySettings) -> list[View]:
    """What the user asks for; else some captions, and what each system finds first for them."""
    captions = models[0].part.corpus.captions
    place = {one: row for row, one in enumerate(captions["caption_id"])}
    if strange := [one for one in settings.queries if one not in place]:
        raise UsageError(f"The split has no caption {strange[0]!r}; --query takes ids of captions.")
    asked = [place[one] for one in settings.queries]
    if not settings.clips:
        return [View(row) for row in asked or _chosen(models, rankings)]
    own = {clip: row for row, clip in reversed(list(enumerate(captions["clip_id"])))}
    if strange := [one for one in settings.clips if one not in own]:
        raise UsageError(f"The split has no clip {strange[0]!r} with a caption and features; --clip takes ids.")
    return [View(row, clip) for clip in settings.clips for row in asked or [own[clip]]]


def _chosen(models: Sequence[Model], rankings: Mapping[str, ScoreBlocks]) -> list[int]:
    """As in Figure 6, captions that the first system answers and the last one does not; where none is, the first."""
    first, last = models[0], models[-1]
    count = first.part.corpus.captions.height

    def answered(model: Model, row: int) -> bool:
        return _answer(model, rankings[model.name], row).rank == 1

    looked_through = range(min(count, MOST_CAPTIONS) if len(models) > 1 else 0)
    told_apart = (row for row in looked_through if answered(first, row) and not answered(last, row))
    return list(islice(told_apart, CAPTIONS)) or list(range(min(CAPTIONS, count)))


def _answer(model: Model, scores: ScoreBlocks, row: int) -> Answer:
    """Of equal scores the clip that comes first in the split is first, and the rank is the best of theirs."""
    values = scores.block(slice(row, row + 1), slice(0, len(scores.video_ids)))[0]
    own = list(scores.video_ids).index(model.part.corpus.captions["clip_id"][row])
    return Answer(int(values.argmax()), own, 1 + int((values > values[own]).sum()))


def _findings(systems: Sequence[str], seen: Sequence[Seen], settings: StudySettings) -> Findings:
    shares = {name: _share_first([one for one in seen if one.system == name]) for name in systems}
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    first, last = shares[systems[0]], shares[systems[-1]]
    effect = Effect(_SHARE, first) if len(systems) == 1 else Effect(f"{_SHARE}: last system less first", last - first)
    columns = ("system", "caption", "clip shown", "it is", "elements", "rank of the right clip")
    picked = not settings.queries and not settings.clips and len(systems) > 1
    return Findings(
        f"Of the captions shown, those whose own clip is first: {told}.",
        effect,
        (AuditTable("What is shown", columns, tuple(_row(one) for one in seen)),),
        tuple(figure for one in seen for figure in _figures(one)),
        (_FEW, _CHOSEN) if picked else (_FEW,),
        (_METHOD,),
    )


def _share_first(seen: Sequence[Seen]) -> float:
    return sum(one.rank == 1 for one in seen) / len(seen)


def _row(seen: Seen) -> tuple[Cell, ...]:
    elements = () if seen.look.attention is None else seen.look.attention.elements[:HOTTEST]
    named = "; ".join(" + ".join(element.phrases) for element in elements) or None
    return seen.system, seen.caption, seen.clip, "right" if seen.right else "wrong", named, seen.rank


def _figures(seen: Seen) -> Iterator[AuditFigure]:
    title = f"{seen.system}: {seen.caption!r}, clip {seen.clip}"
    yield AuditFigure(f"{title} ({'right' if seen.right else 'wrong'})", partial(_strip, seen), _STRIP_NOTE)
    if seen.look.attention is not None:
        yield AuditFigure(f"{title}: attention", partial(_attention, seen.look.attention))


def _strip(seen: Seen) -> go.Figure:
    from evenreel.studies.map_figures import heat_strip

    return heat_strip(seen.look, right=seen.right)


def _attention(attention: Attention) -> go.Figure:
    from evenreel.studies.map_figures import attention_map

    return attention_map(attention)
