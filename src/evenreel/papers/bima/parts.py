"""Figure 5 of BiMa (arXiv 2506.03589): content and bias of captions in a plane, and how much of one is in the other.

The paper shows a picture and finds the two apart. A picture says nothing of what each of them knows, so there are
figures from the full space: whether a linear classifier tells content from bias, how much of the bias a linear map
finds in the content, and what each says of anything that the corpus knows of its captions, such as who wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.adaptation.stream import taken
from evenreel.checkpoint.architecture import module
from evenreel.errors import UsageError
from evenreel.evaluation import Interval
from evenreel.matchers.bima import Reading, captions_read
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import encode_texts
from evenreel.papers.bima.variants import BIMA as WHOLE
from evenreel.papers.bima.variants import only_bima
from evenreel.papers.engine.findings import Findings, effect_of, figure_table, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart
from evenreel.papers.engine.projection import Separation, draw_points, project, separation
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.training_tables import measured_trainings
from evenreel.papers.engine.trainings import TrainingOutcome, few_seeds, training_told
from evenreel.papers.engine.words import paragraph
from evenreel.progress import Progress
from evenreel.report.figures import vector_map
from evenreel.report.result import AuditFigure, AuditTable, Cell, interval_cells, interval_columns
from evenreel.types import TextFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST = 1_000
"""Captions that are drawn, as in the paper."""
MOST_GROUPS = 50
"""A column of the captions with more different values is none to tell apart."""
FOLDS = 5
CONTENT, BIAS = "content", "bias"
_OWN = frozenset({"caption_id", "clip_id", "text", "verb_classes", "noun_classes"})


_TOLD = "content told from bias by a linear classifier, % (chance 50)"
_SHARED = "variance of the bias that is predicted from the content, %"
_SILHOUETTE = "silhouette"
_ENDS = {_SHARED: (-np.inf, 100.0), _SILHOUETTE: (-1.0, 1.0)}
"""What predicts worse than the mean has a share of variance below 0."""
_DRAWN = "Of the first training."


class Told(NamedTuple):
    """How often a classifier names the right group of a vector, and how often chance does, in percent."""

    share: float
    chance: float


class TextParts(NamedTuple):
    """Content and bias of captions of a test split by one trained matcher, with figures of how far they are apart.

    Attributes:
        vectors: (n, D) of each part.
        caption_ids: n captions.
        apart: whether the two lie apart.
        told: how often a classifier tells content from bias.
        shared: percent of the variance of the bias that is predicted from the content.
        groups: how often each part tells the groups of each column of the captions.
    """

    vectors: Mapping[str, NDArray[np.float64]]
    caption_ids: Sequence[str]
    apart: Separation
    told: Told
    shared: float
    groups: Mapping[str, Mapping[str, Told]]

    @property
    def figures(self) -> dict[str, float]:
        """Return the figures of the study's tables, by the names they have there."""
        groups = {_named(column, side): one.share for column, own in self.groups.items() for side, one in own.items()}
        return {
            _TOLD: self.told.share,
            "nearest neighbours of the own part, %": 100 * self.apart.agreement,
            _SILHOUETTE: self.apart.silhouette,
            _SHARED: self.shared,
        } | groups


def projected_parts(material: LearningInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Make figure 5 of BiMa: content and bias of up to 1,000 captions of the test split, in a plane and in figures."""
    _, test = material.learning()
    kinds = only_bima(material, settings)
    if (clips := test.corpus.clips.height) < FOLDS:
        raise UsageError(
            f"The split that is searched has {clips:,} clips with features, and classifiers are taught and asked in "
            f"{FOLDS} parts; choose a split of more clips (--split)."
        )
    found: list[TextParts] = []

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        found.append(parts_of(one, settings.audit.seed))
        return {one.row: found[-1].figures}

    runs = measured_trainings(kinds, material, settings, progress, measure, _ENDS)
    figures = runs.means(WHOLE)
    shared, told = figures[_SHARED], figures[_TOLD]
    return Findings(
        f"A linear classifier tells content from bias for {told.value:.1f} % of the captions (chance 50 %). Of the "
        f"bias's variance {shown(shared)} % is predicted from the content of the same captions: where that is not 0, "
        "the two are not apart.",
        effect_of(shared, "Variance of the bias that is predicted from the content, %"),
        (_apart_table(figures), *_group_tables(figures, found[0])),
        (AuditFigure("Content and bias of captions, t-SNE", partial(_drawn, found[0], settings.audit.seed), _DRAWN),),
        (*few_seeds(settings), *runs.notices),
        (paragraph("bima", "Content and bias apart"), training_told(settings.recipe, material)),
    )


def parts_of(outcome: TrainingOutcome, seed: int) -> TextParts:
    """Split captions of the test split in content and bias by one training, and measure both."""
    test = outcome.test
    rows = draw_points(["caption"] * len(test.texts.ids), seed, MOST)
    texts = taken(test.texts, rows)
    vectors = {
        CONTENT: whole_captions(outcome.matcher, texts, Reading()),
        BIAS: whole_captions(outcome.matcher, texts, Reading(source="bias")),
    }
    table = _captions(test, texts.ids)
    clips = table["clip_id"].to_numpy()
    both = np.concatenate([*vectors.values()])
    sides = np.repeat([*vectors], len(texts.ids))
    return TextParts(
        vectors,
        texts.ids,
        separation(both, sides.tolist()),
        told_apart(both, sides, np.concatenate([clips, clips])),
        100 * predicted(vectors[CONTENT], vectors[BIAS], clips),
        {
            column: {side: told_apart(own, table[column].to_numpy(), clips) for side, own in vectors.items()}
            for column in _columns(table)
        },
    )


def whole_captions(matcher: Matcher, texts: TextFeatures, reading: Reading) -> NDArray[np.float64]:
    """Return one unit vector for each caption, (Q, D): its sentence, read as content or as bias.

    Args:
        matcher: a `Bima`, perhaps in an adapter.
        texts: features of Q captions.
        reading: which vectors stand for a caption: those of its content or those of its bias.
    """
    sentences = replace(texts, words=texts.sentence[:, None], word_mask=np.ones((len(texts.ids), 1), np.bool_))
    with captions_read(module(matcher), reading):
        words = encode_texts(matcher, sentences).state
    return np.asarray(words.vectors[:, 0].double().numpy())


def told_apart(vectors: NDArray[np.float64], groups: NDArray[np.object_], clips: NDArray[np.object_]) -> Told:
    """Measure how often a linear classifier names the group of vectors of clips that it was not trained on.

    Args:
        vectors: (n, D).
        groups: n names.
        clips: n ids; those of one clip are taught or asked, never both.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    _, sizes = np.unique(groups, return_counts=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000))
    with threadpool_limits(1):
        scores = cross_val_score(model, vectors, groups, groups=clips, cv=GroupKFold(FOLDS))
    return Told(100 * float(scores.mean()), 100 * float(sizes.max() / sizes.sum()))


def predicted(known: NDArray[np.float64], asked: NDArray[np.float64], clips: NDArray[np.object_]) -> float:
    """Measure which share of the variance of vectors a ridge regression predicts from others.

    Args:
        known: (n, D) vectors that it predicts from.
        asked: (n, D) vectors that it predicts.
        clips: n ids of clips; the vectors of one clip are taught or asked, never both.
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        model = RidgeCV(alphas=np.logspace(-3, 3, 13))
        guess = cross_val_predict(model, known, asked, groups=clips, cv=GroupKFold(FOLDS))
    spread = ((asked - asked.mean(0)) ** 2).sum()
    return float(1 - ((asked - guess) ** 2).sum() / spread) if spread else 0.0


def _captions(test: CorpusPart, ids: Sequence[str]) -> pl.DataFrame:
    """The rows of the corpus of some captions, in their order."""
    return pl.DataFrame({"caption_id": ids}).join(
        test.corpus.captions, on="caption_id", how="left", maintain_order="left"
    )


def _columns(table: pl.DataFrame) -> list[str]:
    """Columns of the user's own that divide the captions in a few groups, two of which are in what each fold learns."""
    clips = table["clip_id"].to_numpy()
    return [
        name
        for name in table.columns
        if name not in _OWN
        and table.schema[name] == pl.String
        and not table[name].null_count()
        and 2 <= table[name].n_unique() <= MOST_GROUPS
        and _in_every_fold(table[name].to_numpy(), clips)
    ]


def _in_every_fold(groups: NDArray[np.object_], clips: NDArray[np.object_]) -> bool:
    from sklearn.model_selection import GroupKFold

    folds = GroupKFold(FOLDS).split(groups, groups=clips)
    return all(len(set(groups[taught])) > 1 for taught, _ in folds)


def _named(column: str, side: str) -> str:
    """How the figure is called of what a part says of a column of the captions."""
    return f"{column} from {side}"


def _apart_table(figures: Mapping[str, Interval]) -> AuditTable:
    apart = dict(list(figures.items())[:4])
    return figure_table("Whether content and bias lie apart", [], [((), apart)], "mean")


def _group_tables(figures: Mapping[str, Interval], first: TextParts) -> tuple[AuditTable, ...]:
    """What each part says of the columns of the captions; nothing where there are none."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (column, side, *interval_cells(figures[_named(column, side)]), first.groups[column][side].chance)
        for column in first.groups
        for side in (CONTENT, BIAS)
    )
    columns = ("column of the captions", "told from", *interval_columns("right, %"), "chance, %")
    return (AuditTable("What each part says of the captions", columns, rows),) if rows else ()


def _drawn(parts: TextParts, seed: int) -> go.Figure:
    points = project(np.concatenate([*parts.vectors.values()]))
    groups = [side for side in parts.vectors for _ in parts.caption_ids]
    return vector_map(points, groups, [*parts.caption_ids] * len(parts.vectors), seed)[0]
