"""Figure 4 of TCD (Zhao et al., AAAI 2026): the first clips of some captions, what they show, and their scores.

Each clip is shown by its middle frame and the words on its signs, beside its similarity to what is seen (S_TV), to what
is read (S_TO) and to the clue of both (S_TH). The words are those that the system was given, which need not be all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from evenreel.matchers.scoring import encode_texts, encode_videos, score_with_parts
from evenreel.papers.engine.answers import alike, answer, asked, chosen, notices_of_shown, shares_first
from evenreel.papers.engine.findings import Findings
from evenreel.papers.engine.inputs import TextPictureInputs
from evenreel.papers.engine.material import CorpusPart, Looking, Model, texts_of, videos_of
from evenreel.papers.engine.on_screen import ClipText, words_said
from evenreel.papers.engine.settings import QuerySettings
from evenreel.papers.engine.words import paragraph
from evenreel.papers.tcd.tokens import read_texts, searched_text
from evenreel.progress import Progress
from evenreel.report.result import AuditFigure, AuditTable, Cell
from evenreel.types import Pixels, ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

FIRST = 3
PARTS = {"video": "S_TV", "ocr": "S_TO", "hybrid": "S_TH"}
"""What parts of a score are called, there and in the paper."""


@dataclass(frozen=True, eq=False)
class Found:
    """One of the clips that a system ranks first for a caption.

    Attributes:
        clip: id of the clip.
        right: whether the caption describes it.
        score: score of the caption and the clip.
        parts: parts of the score by the matcher's names; empty where it has none.
        words: words on its signs, as far as the system was given them.
        picture: middle frame of the clip.
    """

    clip: str
    right: bool
    score: float
    parts: Mapping[str, float]
    words: str
    picture: Pixels


@dataclass(frozen=True, eq=False)
class Answered:
    """A caption with the clips that one system ranks first for it.

    Attributes:
        system: name of the system.
        caption: text of the caption.
        rank: rank of the clip that the caption describes.
        first: clips that rank first.
    """

    system: str
    caption: str
    rank: int
    first: tuple[Found, ...]


def first_answers(material: TextPictureInputs, settings: QuerySettings, progress: Progress) -> Findings:
    """Make figure 4 of TCD: the first clips of some captions, with the parts of their scores and their words."""
    models, looking = alike(material.encoders()), material.pictures()
    texts = {model.name: _read_texts(model, material) for model in models}
    rankings = {model.name: model.part.scores(model.matcher) for model in models}
    rows = asked(models[0].part.corpus, settings.queries) or chosen(models, rankings)
    answered: list[Answered] = []
    for row in rows:
        for model in models:
            answered.append(_answered(model, rankings[model.name], row, texts[model.name], looking))
            progress(len(answered) / (len(rows) * len(models)))
    told, effect = shares_first({one.name: [own.rank for own in answered if own.system == one.name] for one in models})
    silent = [one.name for one in models if not any(own.first[0].parts for own in answered if own.system == one.name)]
    picked = not settings.queries and len(models) > 1
    return Findings(
        told,
        effect,
        (_table(answered),),
        tuple(
            AuditFigure(f"{one.system}: {one.caption!r}", partial(_pictures, one), paragraph("tcd", "Middle frames"))
            for one in answered
        ),
        notices_of_shown(chosen=picked),
        (
            paragraph("tcd", "Parts of a score"),
            *(f"{name} does not tell what its score is made of." for name in silent),
        ),
    )


def part_scores(model: Model, row: int, columns: Sequence[int]) -> list[dict[str, float]]:
    """Return the parts of a caption's scores with some clips, by the matcher's names; empty where it has none."""
    matcher, part = model.matcher, model.part
    caption = encode_texts(matcher, texts_of(part.texts, (part.texts.ids[row],)))
    clips = encode_videos(matcher, videos_of(part.videos, tuple(part.videos.ids[column] for column in columns)))
    found = score_with_parts(matcher, caption, clips).parts
    return [{name: float(values[place]) for name, values in found.items()} for place in range(len(columns))]


def words_of(text: ClipText) -> str:
    """Return the words in the windows of a clip, each once whatever its case, in the order they appear.

    >>> words_of(ClipText((), ("There are scene texts: Gate 12 in this frame.", "", "GATE 9")))
    'Gate 12 9'
    """
    words: dict[str, str] = {}
    for sentence in text.windows:
        for word in words_said(sentence):
            words.setdefault(word.casefold(), word)
    return " ".join(words.values())


def _read_texts(model: Model, material: TextPictureInputs) -> Mapping[str, ClipText]:
    """What a model was given of each clip, by its id; beside one that reads nothing, what the features have."""
    return read_texts(model.part if model.part.on_screen is not None else searched_text(material))


def _answered(model: Model, scores: ScoreBlocks, row: int, texts: Mapping[str, ClipText], looking: Looking) -> Answered:
    part = model.part
    said = answer(model, scores, row, FIRST)
    values = scores.block(slice(row, row + 1), slice(0, len(scores.video_ids)))[0]
    first = (
        Found(
            part.videos.ids[column],
            column == said.own,
            float(values[column]),
            own,
            words_of(texts[part.videos.ids[column]]),
            looking.frames(part.videos.ids[column], [_middle_s(part, column)])[0],
        )
        for column, own in zip(said.first, part_scores(model, row, said.first), strict=True)
    )
    return Answered(model.name, part.corpus.captions["text"][row], said.rank, tuple(first))


def _middle_s(part: CorpusPart, column: int) -> float:
    """When the middle frame of a clip is."""
    times_s = part.videos.times_s[column][part.videos.frame_mask[column]]
    return float(times_s[len(times_s) // 2])


def _table(answered: Sequence[Answered]) -> AuditTable:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            one.system, one.caption, place, found.clip, "right" if found.right else "wrong", found.score,
            *(found.parts.get(name) for name in PARTS), found.words or None,
        )
        for one in answered
        for place, found in enumerate(one.first, start=1)
    )  # fmt: skip
    columns = ("system", "caption", "place", "clip", "it is", "score", *PARTS.values(), "words on screen")
    return AuditTable("The first clips", columns, rows, digits=3)


def _pictures(answered: Answered) -> go.Figure:
    from evenreel.papers.bima.map_figures import Shown, beside_each_other

    shown = []
    for place, found in enumerate(answered.first, start=1):
        parts = ", ".join(f"{name} {found.parts[key]:.3f}" for key, name in PARTS.items() if key in found.parts)
        shown.append(
            Shown(f"{place}. {found.clip}", found.picture, found.right, (f"{found.score:.3f}", parts, found.words))
        )
    return beside_each_other(shown)
