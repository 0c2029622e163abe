"""The p-vector: how debiasing moves the vectors of videos, and the effect of adding it to real clips.

Generative Ghost, section 5.2 and Tables 7 and 8. With h_i the vector that the original model gives clip i, and h^d_i
that of the debiased model for the same input, p_i = h^d_i - h_i; p is the mean of all p_i. It is added to the vectors
of real clips in the original model's space, and the ranking among real and generated clips is measured again.

The paper's text takes p_i of real clips and adds it; its released code takes p_i of generated clips, subtracts it, and
scores moved clips with the captions of another model than the others. Both are presets here, and the captions are those
of the original model for every clip. For p with frames in random order (the paper's p_random), give both models videos
that `evenreel.edits.frame_order.reordered` has changed.

Similar p_i alone are no trace of a generator: any fine-tuning moves all vectors by much the same.
`diagnose` therefore takes the same differences of a control, a model fine-tuned on real pairs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.exchange import MIX_R
from evenreel.corpus.counterparts import counterparts
from evenreel.debias.source import PRESETS as TERMS
from evenreel.edits.frame_order import reordered
from evenreel.edits.settings import FrameOrder
from evenreel.errors import UsageError
from evenreel.evaluation import Interval
from evenreel.papers.engine import (
    PREFERENCE,
    Findings,
    FineTuned,
    SeededRuns,
    before_training,
    by_row,
    each_trained,
    effect_of,
    few_pairs,
    shown,
)
from evenreel.papers.ghost.figures import (
    AS_IT_IS,
    MAIN,
    METRICS,
    Figures,
    SeededFigures,
    measured,
    notices_of,
    paper_table,
)
from evenreel.papers.shown import draw_points, project, separation
from evenreel.papers.study import StudySettings, paragraph, paragraphs
from evenreel.papers.workspace import CorpusPart, Workspace, one_group
from evenreel.progress import Progress
from evenreel.report.figures import deltas_by_group, vector_map
from evenreel.report.result import AuditFigure, AuditTable, Effect, Row, interval_cells, interval_columns
from evenreel.similarity.vectors import EmbeddingTable, VectorScores
from evenreel.types import Corpus, ScoreBlocks, ScoreNotes, TextFeatures, VideoFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from evenreel.matchers import Matcher
    from evenreel.similarity.tiles import Encoded

Array = NDArray[Any]

Source = Literal["real", "generated"]


@dataclass(frozen=True)
class PVector:
    """Settings of a p-vector, and of adding it to real clips.

    Attributes:
        source: clips, `real` or `generated`, on whose vectors the two models are compared.
        sign: 1 adds the p-vector to the vectors of real clips, -1 subtracts it.
        normalised: whether to scale all vectors to unit length, before the models are compared and after clips were
            moved, so that scores are cosines. Otherwise vectors are taken as they come and scores are dot products:
            then moving all real clips by p adds one number, the caption's product with p, to all their scores.
    """

    source: Source = "real"
    sign: Literal[1, -1] = 1
    normalised: bool = False

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            raise UsageError(f"The source of a p-vector is {self.source!r}; it must be real or generated.")
        if self.sign not in (1, -1):
            raise UsageError(f"The sign of a p-vector is {self.sign}; it must be 1 or -1.")

    def __str__(self) -> str:
        verb, preposition = ("added", "to") if self.sign == 1 else ("subtracted", "from")
        return f"the p-vector of {self.source} clips {verb} {preposition} real ones"


PRESETS: Mapping[str, PVector] = MappingProxyType(
    {"paper": PVector("real", 1), "release": PVector("generated", -1)},
)
"""The paper's formula, and what its released code does."""


def video_vectors(matcher: Matcher, features: VideoFeatures) -> EmbeddingTable:
    """Encode videos with a matcher that compares a single vector of each with captions.

    Raises:
        UsageError: the matcher has more than one vector a video, or the features do not fit it.
    """
    from evenreel.matchers.scoring import encode_videos

    return _single(encode_videos(matcher, features), "video")


def caption_vectors(matcher: Matcher, features: TextFeatures) -> EmbeddingTable:
    """Encode captions with a matcher that compares a single vector of each with videos.

    Raises:
        UsageError: the matcher has more than one vector a caption, or the features do not fit it.
    """
    from evenreel.matchers.scoring import encode_texts

    return _single(encode_texts(matcher, features), "caption")


def p_vectors(original: Array, debiased: Array, normalised: bool = False) -> Array:
    """Compute how debiasing moved each clip's vector, p_i = h^d_i - h_i, (V, D) in double precision.

    Args:
        original: (V, D) vectors of some clips by the original model.
        debiased: (V, D) vectors of the same clips by the debiased model.
        normalised: whether to scale vectors to unit length first.

    Raises:
        UsageError: the two differ in shape, or are not finite.
    """
    if original.ndim != 2 or original.shape != debiased.shape or not original.size:
        raise UsageError(
            f"The original vectors have the shape {original.shape}, the debiased ones {debiased.shape}; give both "
            "models' vectors of the same clips, one a row."
        )
    before, after = _prepared(original, normalised), _prepared(debiased, normalised)
    return after - before


def shifted(vectors: Array, p: Array, settings: PVector) -> Array:
    """Add a p-vector (D,) to vectors (V, D), or subtract it, as the settings say; the number type stays.

    Raises:
        UsageError: p has another length than the vectors.
    """
    if p.shape != vectors.shape[1:]:
        raise UsageError(f"A p-vector of the shape {p.shape} cannot be added to vectors of {vectors.shape[1:]}.")
    moved = _prepared(vectors, settings.normalised) + settings.sign * p
    return _prepared(moved, settings.normalised).astype(vectors.dtype)


def shifted_scores(
    captions: EmbeddingTable, real: EmbeddingTable, generated: EmbeddingTable, p: Array, settings: PVector
) -> VectorScores:
    """Score captions with real clips moved by the p-vector and with generated clips as they are.

    Args:
        captions: vectors of captions by the original model.
        real: vectors of real clips by the original model; these are moved.
        generated: vectors of generated clips by the original model.
        p: (D,), the mean of `p_vectors`.
        settings: sign, and whether scores are cosines.

    Raises:
        UsageError: p has another length than the vectors, or a vector is zero and has no cosine.
    """
    prepared = _prepared(generated.values, settings.normalised).astype(generated.values.dtype)
    values = np.concatenate([shifted(real.values, p, settings), prepared])
    sentences = _prepared(captions.values, settings.normalised).astype(captions.values.dtype)
    clips = EmbeddingTable((*real.ids, *generated.ids), values)
    return VectorScores(EmbeddingTable(captions.ids, sentences), clips, ScoreNotes(uses=(str(settings),)))


def corrected_scores(
    captions: EmbeddingTable,
    models: tuple[EmbeddingTable, EmbeddingTable],
    corpus: Corpus,
    settings: PVector,
    group: str | None = None,
) -> VectorScores:
    """Compute the p-vector of a corpus's clips, and the scores after real clips are moved by it, as in the paper.

    The p-vector is taken from the very clips that are measured; for its effect on other clips, take it from another
    split with `p_vectors` and call `shifted_scores`.

    Args:
        captions: vectors of the corpus's captions by the original model.
        models: vectors of its clips by the original and by the debiased model.
        corpus: corpus with the pairs of real clips and their mirrors; other clips are ignored.
        settings: settings of the p-vector.
        group: group of generated clips to use (generator and setting); None: all.

    Raises:
        UsageError: there is no pair of clips, or one has no vector.
    """
    pairs = counterparts(corpus, group)
    ids = {"real": pairs["clip_id"].unique(maintain_order=True).to_list(), "generated": pairs["generated_id"].to_list()}
    if not ids["real"]:
        raise UsageError("The corpus has no real clip with a generated counterpart; say in pair_id which they mirror.")
    original, debiased = models
    chosen = ids[settings.source]
    p = p_vectors(original.of(chosen).values, debiased.of(chosen).values, settings.normalised).mean(axis=0)
    return shifted_scores(captions, original.of(ids["real"]), original.of(ids["generated"]), p, settings)


@dataclass(frozen=True)
class Alike:
    """Similarity of the vectors p_i, by which debiasing moved clips, within a set of clips.

    Attributes:
        count: number of clips whose p_i is not 0; others have no direction and are left out.
        length: mean length of p_i over all clips.
        cosine: mean cosine between the p_i of two clips: 1 where all point the same way, 0 by chance; NaN for fewer
            than two.
        share_along_mean: share of the squared lengths along the mean; about 1 / count + 1 / D by chance, NaN where the
            mean is zero.
    """

    count: int
    length: float
    cosine: float
    share_along_mean: float


@dataclass(frozen=True, eq=False)
class DirectionAgreement:
    """Agreement of the vectors p_i, by which debiasing moved clips, within and between sets of clips.

    Attributes:
        alike: similarity within each set, by its name.
        cosines: (S, S) cosines of the means of the sets, in the order of `alike`; NaN where one is zero.
    """

    alike: dict[str, Alike]
    cosines: NDArray[np.float64]

    def cosine(self, one: str, other: str) -> float:
        """Return the cosine between the mean vectors of two sets, given by their names."""
        names = list(self.alike)
        return float(self.cosines[names.index(one), names.index(other)])


def diagnose(sets: Mapping[str, Array]) -> DirectionAgreement:
    """Compare the vectors p_i, by which debiasing moved clips, within and between sets of clips.

    Useful sets are p_i of real clips and of generated ones, and both of a control that was fine-tuned on real pairs
    alone. If debiasing distinguishes the two, the cosine between real and generated is near -1; near 1, all clips were
    moved alike, which favours neither. An effect that the control shows too is due to fine-tuning.

    Args:
        sets: (V, D) vectors of each set by its name, from `p_vectors`; V may differ.
    """
    means = np.stack([p.mean(axis=0) for p in sets.values()])
    lengths = np.linalg.norm(means, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (means @ means.T) / np.outer(lengths, lengths)
    return DirectionAgreement({name: alike(p) for name, p in sets.items()}, np.clip(cosines, -1, 1))


def alike(p: Array) -> Alike:
    """Measure how similar vectors (V, D) are to each other, in time and memory proportional to V.

    >>> alike(np.array([[1.0, 0.0], [2.0, 0.0]])).cosine
    1.0
    """
    lengths = np.linalg.norm(p, axis=1)
    moved = lengths > 0
    count = int(moved.sum())
    total = (p[moved] / lengths[moved, None]).sum(axis=0)
    cosine = (total @ total - count) / (count * (count - 1)) if count > 1 else np.nan  # sum over pairs of two clips
    mean = p.mean(axis=0)
    across = (mean @ mean) * (lengths**2).sum()
    share = ((p @ mean) ** 2).sum() / across if across else np.nan
    return Alike(count, float(lengths.mean()), float(cosine), float(share))


def _single(encoded: Encoded, what: str) -> EmbeddingTable:
    from evenreel.similarity.tiles import tensors_of

    tensors = list(tensors_of(encoded.state))
    if len(tensors) != 1 or tensors[0].dim() != 2:
        kept = getattr(encoded.state, "_fields", ("states of several matchers",))
        raise UsageError(
            f"A p-vector needs matchers that keep one vector a {what}, such as mean_pool and temporal; this one keeps "
            f"{' and '.join(kept)}."
        )
    return EmbeddingTable(encoded.ids, tensors[0].float().numpy())


def _prepared(vectors: Array, normalised: bool) -> NDArray[np.float64]:
    """Convert vectors to double precision, and to unit length where that is set."""
    values = vectors.astype(np.float64)
    if not np.isfinite(values).all():
        raise UsageError(f"Vector {int(np.argwhere(~np.isfinite(values))[0, 0])} has a component that is no number.")
    if not normalised:
        return values
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    if not lengths.all():
        raise UsageError(
            f"Vector {int(np.argmin(lengths))} is zero and has no direction; compare vectors as they come."
        )
    return np.asarray(values / lengths)


# Tables 7 and 8 and Figure 4: the p-vector, added to real clips (Generative Ghost, section 5.2).
#
# The original model is the one that training begins with, a checkpoint's or the recipe's matcher as it is built, so
# that both tables have one baseline; the debiased one is trained from it with the recipe's term, or that of the
# preset `release`. A control is fine-tuned on the same real pairs without the term: what its p-vector does is due to
# fine-tuning and not to debiasing.

ORIGINAL, DEBIASED, CONTROL = "original", "debiased", "control"
SIDES: tuple[Source, Source] = ("real", "generated")
NAMES: Mapping[FrameOrder, str] = {"original": "p", "random": "p-random"}
"""What the difference is called, by the order of the frames that the models see."""


@dataclass(frozen=True, eq=False)
class Trained:
    """The matchers that one seed trained, beside the one that they began as.

    Attributes:
        original: before training.
        debiased: trained with the term against the preference.
        control: trained without it.
    """

    original: FineTuned
    debiased: FineTuned
    control: FineTuned


@dataclass(frozen=True, eq=False)
class Paired:
    """A test split with its pairs of real clips and the generated clips that mirror them.

    Attributes:
        part: test split with features.
        group: name of the group of generated clips.
        real: ids of the real clips, one a pair.
        generated: ids of their mirrors, pair by pair.
    """

    part: CorpusPart
    group: str
    real: tuple[str, ...]
    generated: tuple[str, ...]

    def of(self, source: Source) -> tuple[str, ...]:
        """Return the clip ids of one side, `real` or `generated`."""
        return self.real if source == "real" else self.generated


def p_vector(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 7 of Generative Ghost: the p-vector of clips in order, added to real clips."""
    return _study(("original",), material, settings, progress)


def p_random(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 8 of Generative Ghost: the p-vector of clips with frames in random order, added to real clips."""
    return _study(("random",), material, settings, progress)


def p_both(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figure 4 of Generative Ghost: both p-vectors on one baseline."""
    return _study(("original", "random"), material, settings, progress)


def trained_models(material: Workspace, settings: StudySettings, progress: Progress) -> Iterator[Trained]:
    """Train with one seed after the other, and yield the original, the debiased and the control matcher of each."""
    data = replace(settings.recipe.data, generated_group=settings.group)
    control = replace(settings.recipe, data=data, debias=None)
    debiased = replace(control, debias=settings.recipe.debias or TERMS["release"])
    original = FineTuned(before_training(settings.recipe, material), material.learning()[1])
    waiting: dict[str, FineTuned] = {}
    for kind, _, trained in each_trained({CONTROL: control, DEBIASED: debiased}, material, settings, progress):
        waiting[kind] = trained
        if kind == DEBIASED:
            yield Trained(original, waiting[DEBIASED], waiting[CONTROL])


def paired_clips(material: Workspace, settings: StudySettings) -> Paired:
    """Return the test split with its pairs of a real clip and a generated one of the study's group, with features."""
    _, test = material.learning()
    group = one_group(test.corpus, settings.group)
    pairs = counterparts(test.corpus, group).unique("clip_id", keep="first", maintain_order=True)
    return Paired(test, group, tuple(pairs["clip_id"]), tuple(pairs["generated_id"]))


def in_order(videos: VideoFeatures, order: FrameOrder, settings: StudySettings) -> VideoFeatures:
    """Return the features of videos with their frames in the order in which vectors of matchers are compared."""
    if order == "original" and settings.frames is None:
        return videos
    return reordered(videos, order, stage=settings.stage, take=settings.frames, seed=settings.audit.seed)


def encoded(models: Trained, order: FrameOrder, settings: StudySettings) -> dict[str, EmbeddingTable]:
    """Encode the clips of the test split by the original, the debiased and the control matcher."""
    by_kind = {ORIGINAL: models.original, DEBIASED: models.debiased, CONTROL: models.control}
    return {
        kind: video_vectors(one.matcher, in_order(one.test.videos, order, settings)) for kind, one in by_kind.items()
    }


def moves(sets: Mapping[str, EmbeddingTable], kind: str, paired: Paired, form: PVector) -> NDArray[np.float64]:
    """Return how the vectors of one side of n pairs move from the original matcher to another, p_i (n, D).

    Args:
        sets: vectors of all clips by each matcher.
        kind: the other matcher, `debiased` or `control`.
        paired: the pairs of real clips and their mirrors.
        form: which side, and whether vectors are brought to unit length.
    """
    ids = paired.of(form.source)
    return p_vectors(sets[ORIGINAL].of(ids).values, sets[kind].of(ids).values, form.normalised)


def _study(orders: Sequence[FrameOrder], material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    paired, confidence = paired_clips(material, settings), settings.audit.confidence
    alone = replace(settings.audit, resamples=0)
    runs: list[tuple[str, Figures]] = []
    likeness: list[tuple[tuple[str, str, str], dict[str, float]]] = []
    notices: dict[str, None] = {}
    for models in trained_models(material, settings, progress):
        sets = {order: encoded(models, order, settings) for order in orders}
        runs += [
            (name, measured(scores, paired.part.corpus, paired.group, alone))
            for name, scores in _variants(models, paired, sets)
        ]
        likeness += _likenesses(paired, sets)
        notices |= dict.fromkeys(_unmoved(models, paired, sets))
    found = SeededFigures(by_row(runs), confidence)
    means, changes = found.means, found.runs.changes_beside(AS_IT_IS)
    name = f"{NAMES[orders[0]]}: paper"
    bars = {  # of dot products alone, which the paper has
        row: {metric: figures["normalized", metric] for metric in (*METRICS, MIX_R)}
        for row, figures in changes.items()
        if not row.endswith("cosine")
    }
    return Findings(
        f"Adding {NAMES[orders[0]]} to real clips, as the printed formula has it, changes {PREFERENCE} on "
        f"{paired.group} by {shown(changes[name][MAIN])}; that of the control, which was never debiased, by "
        f"{shown(changes[f'{name}, {CONTROL}'][MAIN])}.",
        effect_of(changes[name][MAIN], f"Change of {PREFERENCE} on {paired.group}: {name}"),
        (
            _changes_table(means, changes, settings.seeds),
            _likeness_table(SeededRuns(by_row(likeness), confidence)),
            paper_table(f"Real clips and {paired.group}", ("real clips",), [((one,), means[one]) for one in means]),
        ),
        (
            AuditFigure(
                "Change of Normalized Δ by metric", partial(deltas_by_group, bars, "change of Normalized Δ, points")
            ),
        ),
        (*notices, *notices_of(means.values())),
        paragraphs("ghost", "Measures", "The p-vector"),
        few=few_pairs(paired.part.corpus, [paired.group]),
    )


def _variants(
    models: Trained, paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]
) -> Iterator[tuple[str, ScoreBlocks]]:
    """Scores by the original model, as they are and with real clips moved in every way."""
    captions = caption_vectors(models.original.matcher, paired.part.texts)
    clips = video_vectors(models.original.matcher, paired.part.videos)
    real, generated = clips.of(paired.real), clips.of(paired.generated)
    yield AS_IT_IS, VectorScores(captions, clips)
    for order, kind, preset, normalised in product(sets, (DEBIASED, CONTROL), PRESETS, (False, True)):
        form = replace(PRESETS[preset], normalised=normalised)
        p = moves(sets[order], kind, paired, form).mean(axis=0)
        words = [preset, *([CONTROL] if kind == CONTROL else []), *(["cosine"] if normalised else [])]
        yield f"{NAMES[order]}: {', '.join(words)}", shifted_scores(captions, real, generated, p, form)


def _likenesses(
    paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]
) -> Iterator[tuple[tuple[str, str, str], dict[str, float]]]:
    """How alike the p_i of each side of the pairs are, by vector, model and side; see `Alike`."""
    for order, kind in product(sets, (DEBIASED, CONTROL)):
        sides: dict[str, NDArray[np.float64]] = {
            side: moves(sets[order], kind, paired, PVector(side)) for side in SIDES
        }
        found = diagnose(sides)
        for side, alike in found.alike.items():
            yield (
                (NAMES[order], kind, side),
                {
                    "mean length": alike.length,
                    "cosine of two clips": alike.cosine,
                    "share along the mean": alike.share_along_mean,
                    "real to generated": found.cosine(*SIDES),
                },
            )


def _unmoved(models: Trained, paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]) -> Iterator[str]:
    """A sentence where the order of frames is nothing to the debiased model."""
    if "random" in sets:
        ordered = video_vectors(models.debiased.matcher, models.debiased.test.videos).values
        if np.allclose(ordered, sets["random"][DEBIASED].values, rtol=0.0, atol=1e-4):
            yield "The models do not see the order of frames, so p-random is p and says nothing of motion."


def _changes_table(
    means: Mapping[str, Figures], changes: Mapping[str, Mapping[tuple[str, str], Interval]], seeds: int
) -> AuditTable:
    rows = [(AS_IT_IS, *interval_cells(means[AS_IT_IS][MAIN], None))]
    rows += [(name, *interval_cells(means[name][MAIN], change[MAIN])) for name, change in changes.items()]
    columns = ("real clips", *interval_columns(PREFERENCE, "change"))
    return AuditTable(
        "The preference with real clips moved",
        columns,
        tuple(rows),
        paragraph("ghost", "Intervals over seeds", seeds=seeds),
    )


def _likeness_table(likeness: SeededRuns[tuple[str, str, str], str]) -> AuditTable:
    means = {key: likeness.means(key) for key in likeness.rows}
    rows: tuple[Row, ...] = tuple((*key, *(one.value for one in own.values())) for key, own in means.items())
    columns = ("vector", "model", "clips", *next(iter(means.values())))
    note = paragraph("ghost", "Likeness of moves")
    return AuditTable("How alike the moves of single clips are", columns, rows, note, digits=3)


# Figure 5: vectors of clips before and after debiasing, and p, in a plane (Generative Ghost, section 5.2).

MOST_NEIGHBOURS = 10
ORDERS: Mapping[FrameOrder, str] = {"original": "frames in order", "random": "frames in random order"}

Sets = Mapping[str, NDArray[np.float64]]
"""(n, D) vectors by what they are."""

COMPARED = (
    ("h real", "h generated"),
    ("h^d real", "h^d generated"),
    ("p real", "p generated"),
    ("p of control, real", "p of control, generated"),
    ("p real", "p of control, real"),
)
"""Which sets the table compares; the picture shows the first six."""


def projected(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figure 5 of Generative Ghost: vectors of clips before and after debiasing, frames in order or not."""
    paired = paired_clips(material, settings)
    (models,) = trained_models(material, replace(settings, seeds=1), progress)
    sets = {order: vector_sets(encoded(models, order, settings), paired) for order in ORDERS}
    table = _table(sets)
    before, after = (_agreement(sets["original"], one, other) for one, other in COMPARED[:2])
    return Findings(
        f"Of the nearest neighbours of a clip's vector, {before:.0f} % are of its own source before debiasing and "
        f"{after:.0f} % after it (real clips and {paired.group}).",
        Effect("Neighbours of the own source after debiasing less before, points", after - before),
        (table,),
        tuple(
            AuditFigure(f"t-SNE, {words}", partial(_drawn, sets[order], paired, settings.audit.seed))
            for order, words in ORDERS.items()
        ),
        method=paragraphs("ghost", "Pictures of vectors"),
        few=few_pairs(paired.part.corpus, [paired.group]),
    )


def vector_sets(vectors: Mapping[str, EmbeddingTable], paired: Paired) -> dict[str, NDArray[np.float64]]:
    """Return the (n, D) vectors and their differences that the figure and the table compare, pair by pair."""
    found: dict[str, NDArray[np.float64]] = {}
    for kind, letter in ((ORIGINAL, "h"), (DEBIASED, "h^d")):
        found |= {f"{letter} {side}": vectors[kind].of(paired.of(side)).values.astype(np.float64) for side in SIDES}
    found |= {f"p {side}": moves(vectors, DEBIASED, paired, PVector(side)) for side in SIDES}
    return found | {f"p of control, {side}": moves(vectors, CONTROL, paired, PVector(side)) for side in SIDES}


def _table(sets: Mapping[FrameOrder, Sets]) -> AuditTable:
    rows = []
    for order, words in ORDERS.items():
        for one, other in COMPARED:
            vectors, groups = _both(sets[order], one, other)
            found = separation(vectors, groups, min(MOST_NEIGHBOURS, len(vectors) - 1))
            rows.append((words, f"{one} and {other}", 100 * found.agreement, 100 * found.chance, found.silhouette))
    columns = ("frames", "groups", "own neighbours, %", "by chance, %", "silhouette")
    return AuditTable("Whether groups of vectors lie apart in the full space", columns, tuple(rows))


def _agreement(sets: Sets, one: str, other: str) -> float:
    vectors, groups = _both(sets, one, other)
    return 100 * separation(vectors, groups, min(MOST_NEIGHBOURS, len(vectors) - 1)).agreement


def _both(sets: Sets, one: str, other: str) -> tuple[NDArray[np.float64], list[str]]:
    return np.concatenate([sets[one], sets[other]]), [one] * len(sets[one]) + [other] * len(sets[other])


def _drawn(sets: Sets, paired: Paired, seed: int) -> go.Figure:
    shown = dict(list(sets.items())[:6])
    groups = [name for name, rows in shown.items() for _ in rows]
    names = [clip for name in shown for clip in (paired.real if name.endswith("real") else paired.generated)]
    kept = draw_points(groups, seed)
    points = project(np.concatenate(list(shown.values()))[kept])
    return vector_map(points, [groups[row] for row in kept], [names[row] for row in kept], seed)[0]
