"""Figure 5 of TITAN (MM 2023, section 4.5): phrases of a caption with a clip, before and after the correction of bias.

The paper shows two examples by hand; here the phrases are found by a tagger, and the captions are those whose clip the
correction changed, or those that the user names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.report import LabelRank
from evenreel.adaptation.settings import AdaptSettings
from evenreel.adaptation.titan.causal import CausalCorrection
from evenreel.adaptation.titan.causal_training import judged
from evenreel.adaptation.titan.pseudo_labels import PseudoPairs, QueryWindow, pseudo_pairs, scored, vectors_of
from evenreel.audits.exchange import mean_interval
from evenreel.errors import UsageError
from evenreel.evaluation import Interval
from evenreel.language.wording import content_phrases
from evenreel.papers.engine.answers import CAPTIONS
from evenreel.papers.engine.findings import Findings, beside, effect_of, few_clips
from evenreel.papers.engine.inputs import StreamInputs
from evenreel.papers.engine.material import texts_of
from evenreel.papers.engine.words import paragraphs
from evenreel.papers.titan.rows import Row, by_labels
from evenreel.papers.titan.settings import PhraseSettings
from evenreel.papers.titan.streams import Target
from evenreel.progress import Progress, each_part
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import AuditFigure, AuditTable, Cell
from evenreel.types import TextFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go

WHOLE = "the whole caption"
JUDGES = ("source model", "correction, from the source", "correction, on the target")


class Judged(NamedTuple):
    """A phrase, or the whole caption, with its scores for a clip.

    Attributes:
        phrase: text of the phrase.
        score: score of the source model.
        before: probability by the correction as the source left it.
        after: probability by the correction when it has learned from the target.
    """

    phrase: str
    score: float
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Example:
    """A caption with one of the clips it is labelled with, and the scores of its phrases.

    Attributes:
        system: name of the model.
        caption: text of the caption.
        clip: id of the clip.
        role: whether it is the label without the correction, with it, or both.
        right: whether the caption describes it.
        judged: scores of the caption and of its phrases.
    """

    system: str
    caption: str
    clip: str
    role: str
    right: bool
    judged: tuple[Judged, ...]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Pseudo-labels of the captions of a test split, without the correction of bias and with it.

    Attributes:
        target: the model and its split.
        model: around the source, with the encoded clips.
        rows: (Q,) captions that have a label.
        before: (Q,) columns of their clips without the correction.
        after: (Q,) columns of their clips with the correction.
        corrections: the correction as the source left it, and after the target.
        rank: ranks of the labels before and after the target stage.
    """

    target: Target
    model: TestTimeMatcher
    rows: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    corrections: tuple[CausalCorrection, CausalCorrection]
    rank: LabelRank

    def gain(self) -> NDArray[np.float64]:
        """Return for each caption 100 where only the correction is right, -100 where only it is wrong, (Q,)."""
        clips = np.array(self.target.part.videos.ids)
        own = np.array(self.target.own)[self.rows]
        found: NDArray[np.float64] = 100.0 * ((clips[self.after] == own) * 1.0 - (clips[self.before] == own))
        return found


def corrected_phrases(material: StreamInputs, settings: PhraseSettings, progress: Progress) -> Findings:
    """Make figure 5 of TITAN: phrases of captions with the clips of their labels, before and after the correction."""
    found: list[Labelled] = []
    examples: list[Example] = []
    for model, _ in each_part(material.encoders(), progress):
        found.append(_labelled(Target(model), settings.adapt))
        examples += _examples(found[-1], settings.queries)
    first, audit = found[0], settings.audit
    gain = mean_interval(first.gain(), first.target.groups[first.rows], audit)
    return Findings(
        " ".join(_told(one, mean_interval(one.gain(), one.target.groups[one.rows], audit)) for one in found),
        effect_of(gain, "Right labels, %: with the correction less without"),
        (_table(examples),),
        tuple(
            AuditFigure(f"{one.system}: {one.caption!r} with {one.clip} ({one.role})", partial(_bars, one))
            for one in examples
        ),
        (
            *paragraphs("shared", "A few captions"),
            *(() if settings.queries else paragraphs("titan", "Captions that are shown")),
        ),
        paragraphs("titan", "Phrases"),
        few=few_clips(len(set(first.target.own))),
    )


def _labelled(target: Target, settings: AdaptSettings) -> Labelled:
    """The labels of the first queries that fit into the bank, ranked among each other."""
    if target.read is None:
        raise UsageError(
            "This study reads phrases with the text tower of the features, and these were computed elsewhere; give it "
            "features that `evenreel features` computed."
        )
    if not by_labels(settings).causal:
        raise UsageError("This study is about the correction of bias, and causal is false; leave that out.")
    model = target.model(Row(settings))
    resources = target.resources(Row(settings))
    count = min(settings.bank, len(target.sentences))
    captions = tuple(target.part.corpus.captions["caption_id"])[:count]
    seen = QueryWindow(texts_of(target.part.texts, captions), target.sentences[:count])
    own, here = np.arange(count), resources.for_stream(settings)
    plain = pseudo_pairs(
        model.source, seen, own, model.gallery, replace(settings, causal=False), resources.for_stream(settings)
    )
    corrected = pseudo_pairs(model.source, seen, own, model.gallery, settings, here)
    assert resources.correction is not None and here.target is not None and corrected.rank is not None
    place = {one: row for row, one in enumerate(captions)}
    rows = np.array([place[one] for one in plain.texts.ids[: plain.queries]], np.int64)
    corrections = resources.correction, here.target.correction
    return Labelled(target, model, rows, _columns(plain), _columns(corrected), corrections, corrected.rank)


def _columns(pairs: PseudoPairs) -> NDArray[np.int64]:
    return pairs.columns[: pairs.queries]


def _examples(found: Labelled, queries: Sequence[str]) -> list[Example]:
    examples: list[Example] = []
    for at in _chosen(found, queries):
        row, clips = int(found.rows[at]), dict[int, str]()
        for column, role in ((int(found.before[at]), "without correction"), (int(found.after[at]), "with correction")):
            clips[column] = "with and without correction" if column in clips else role
        for column, role in clips.items():
            examples.append(_example(found, row, column, role))
    return examples


def _chosen(found: Labelled, queries: Sequence[str]) -> list[int]:
    """Places among the labelled captions."""
    ids = found.target.part.corpus.captions["caption_id"].to_list()
    if queries:
        place = {ids[row]: at for at, row in enumerate(found.rows)}
        if strange := [one for one in queries if one not in place]:
            raise UsageError(
                f"The split has no caption {strange[0]!r} with a label; --query takes ids of captions, and labels are "
                f"given to the first {len(found.rows):,}."
            )
        return [place[one] for one in queries]
    changed = np.flatnonzero(found.before != found.after).tolist()
    return list(islice(changed, CAPTIONS)) or list(range(min(CAPTIONS, len(found.rows))))


def _example(found: Labelled, row: int, column: int, role: str) -> Example:
    target = found.target
    caption, clip = target.sentences[row], target.part.videos.ids[column]
    phrases = list(dict.fromkeys(one.text for one in content_phrases(target.tagged[row])))
    assert target.read is not None
    texts = target.read([caption, *phrases])
    judged = _judged(found, texts, column)
    named = (WHOLE, *phrases)
    return Example(
        target.name,
        caption,
        clip,
        role,
        target.own[row] == clip,
        tuple(Judged(name, *values) for name, values in zip(named, judged, strict=True)),
    )


def _judged(found: Labelled, texts: TextFeatures, column: int) -> list[tuple[float, float, float]]:
    """Score each text with a clip: by the source model, and as probabilities before and after the target."""
    from scipy.special import expit

    source, gallery = found.model.source, found.model.gallery
    scores = scored(source, texts, gallery.encoded)[:, column]
    vectors = vectors_of(source, texts)
    asked = np.full((len(texts.ids), 1), column)
    assert gallery.vectors is not None  # the study asks for the correction
    sides = [expit(judged(one, vectors, gallery.vectors, asked))[:, 0] for one in found.corrections]
    return [tuple(map(float, row)) for row in zip(scores, *sides, strict=True)]  # type: ignore[misc]


def _told(found: Labelled, gain: Interval) -> str:
    own, clips = np.array(found.target.own)[found.rows], np.array(found.target.part.videos.ids)
    changed = int((found.before != found.after).sum())
    before, after = (100 * float((clips[columns] == own).mean()) for columns in (found.before, found.after))
    return (
        f"{found.target.name}: the correction gives {changed:,} of {len(found.rows):,} captions another clip; "
        f"{after:.1f} % of the labels are right, {beside(gain, f'{before:.1f} % without it')}. Its target stage: "
        f"{found.rank.sentence}."
    )


def _table(examples: Sequence[Example]) -> AuditTable:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one.system, one.caption, one.clip, one.role, "right" if one.right else "wrong", *said)
        for one in examples
        for said in one.judged
    )
    columns = ("model", "caption", "clip", "it is the label", "it is", "phrase", *JUDGES)
    return AuditTable("Phrases with clips", columns, rows, digits=3)


def _bars(example: Example) -> go.Figure:
    values: Mapping[str, Mapping[str, Interval]] = {
        judge: {one.phrase: Interval(one[place]) for one in example.judged}  # type: ignore[arg-type]
        for place, judge in enumerate(JUDGES, start=1)
    }
    return deltas_by_group(values, "score of the model; probability by the correction")
