"""What a training of BiMa is asked, and what it looks at (arXiv 2506.03589): table 3 and 5, figures 1 and 4 to 6.

Table 3 searches for what was learned from one corpus in others; a row is told apart from the baseline with the same
seed. Table 5 and figure 4 read captions by their content, by their bias, and by content with some bias. Figure 5 shows
content and bias in a plane and finds the two apart; a picture says nothing of what each of them knows, so there are
figures from the full space: whether a linear classifier tells content from bias, how much of the bias a linear map
finds in the content, and what each says of anything that the corpus knows of its captions, such as who wrote them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from evenreel.adaptation.stream import taken
from evenreel.checkpoint.architecture import module
from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import UsageError
from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import over_seeds
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import VideoBatch, pretrained_mean_of, to_device, video_batch
from evenreel.matchers.bima import Bima, Reading, captions_read
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import encode_texts, matcher_scores
from evenreel.papers.bima.tables import CLIP4CLIP, MAIN, RECALLS, T2V, WHOLE, compared_with_others, only_bima
from evenreel.papers.engine import (
    Cells,
    SeededRuns,
    TrainingOutcome,
    beside,
    changes_of,
    effect_of,
    ends_of,
    few_seeds,
    figure_table,
    figures_of,
    finding,
    measured_trainings,
    seeded_tables,
    shown,
    training_told,
)
from evenreel.papers.shown import (
    GAP,
    TITLE_LETTERS,
    add_borders,
    add_frames,
    alike,
    answer,
    asked,
    aspect_of,
    axes_of,
    chosen,
    cloud,
    draw_points,
    jpeg,
    middles,
    separation,
    shares_first,
    shown_notices,
)
from evenreel.papers.study import BASELINE, StudySettings, paragraph, paragraphs
from evenreel.papers.workspace import CorpusPart, Looking, Model, Workspace, texts_of, with_streams
from evenreel.progress import Progress
from evenreel.report.figures import (
    COLOURS,
    Panel,
    axes,
    deltas_by_group,
    faded,
    name_label,
    panels,
    plain,
    share_sweep,
)
from evenreel.report.result import AuditFigure, AuditResult, AuditTable, Cell
from evenreel.similarity.tiles import device_of, evaluating
from evenreel.types import FloatArray, Pixels, ScoreBlocks, TextFeatures, VideoFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go


# other corpora: table 3 -----------------------------------------------------------------------------------------------

NOTHING = "nothing"
"""What the towers as they are have learned from, to a study."""
Place = tuple[str, str]
"""The corpus that is searched, and the metric."""


def on_other_corpora(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 3 of BiMa: train each system on one corpus, and measure it on others and on its own."""
    streams = settings.recipe.data.streams
    taken = {name: with_streams(part, material.streams, streams) for name, part in material.searched().items()}
    parts = {name: part.only(part.corpus) for name, part in taken.items()}
    kinds = compared_with_others(material, settings)
    untrained = {
        name: part.scores(build_matcher(CLIP4CLIP, part.videos.frames.shape[-1])) for name, part in parts.items()
    }

    def measure(one: TrainingOutcome) -> dict[str, dict[Place, float]]:
        seen = {name: one.test if name == material.name else one.seen(part) for name, part in parts.items()}
        figures = {name: figures_of(part.scores(one.matcher), part.corpus, T2V) for name, part in seen.items()}
        return {one.row: {(name, metric): own[metric] for name, own in figures.items() for metric in T2V}}

    ends = {(name, metric): own for name in parts for metric, own in ends_of(T2V).items()}
    runs = measured_trainings(kinds, material, settings, progress, measure, ends)
    changes, own = changes_of(kinds, runs), material.name
    pairs = list(zip(runs.rows[BASELINE], runs.rows[WHOLE], strict=True))
    gained = [[after[name, MAIN] - before[name, MAIN] for before, after in pairs] for name in material.others]
    means: list[Cells] = []
    every: list[tuple[dict[str, Cell], dict[str, Interval]]] = []
    moved: list[tuple[dict[str, Cell], dict[str, Interval]]] = []
    for name, part in parts.items():
        before = figures_of(untrained[name], part.corpus, T2V)
        means.append({"searched": name, "learned from": NOTHING, "system": CLIP4CLIP, **before})
        for row in runs.rows:
            place: dict[str, Cell] = {"searched": name, "learned from": own, "system": row}
            found = {metric: runs.mean(row, (name, metric)) for metric in T2V}
            means.append({**place, **{metric: figure.value for metric, figure in found.items()}})
            every.append((place, found))
            if row in changes:
                moved.append(({**place, "less": BASELINE}, {metric: changes[row][name, metric] for metric in T2V}))
    told = (
        f"in {name} {WHOLE} has {MAIN} {runs.mean(WHOLE, (name, MAIN)).value:.1f}, "
        f"{beside(changes[WHOLE][name, MAIN], BASELINE)}"
        for name in parts
    )
    bars = {row: {name: figures[name, MAIN] for name in parts} for row, figures in changes.items()}
    return finding(
        f"Learned from {own}: {'; '.join(told)}.",
        effect_of(
            over_seeds([float(one) for one in np.mean(gained, axis=0)], settings.audit.confidence),
            f"Mean change of {MAIN} on corpora not learned from: {WHOLE} less {BASELINE}",
        ),
        (
            AuditTable.of("What is found where", means, "Means over seeds."),
            *seeded_tables(moved, every, settings),
            AuditTable.of(
                "What is searched",
                (
                    {
                        "searched": name,
                        "captions": part.corpus.captions.height,
                        "clips": len(part.videos.ids),
                        "R@1 by chance, %": 100 / len(part.videos.ids),
                    }
                    for name, part in parts.items()
                ),
            ),
        ),
        (
            AuditFigure(
                f"Change of {MAIN} beside {BASELINE}", partial(deltas_by_group, bars, f"change of {MAIN}, points")
            ),
        ),
        (*few_seeds(settings), *runs.notices),
        (
            paragraph("bima", "Measures"),
            training_told(settings.recipe, material),
            *paragraphs("bima", "Systems of table 3", "Other corpora", "Table 3 in the paper"),
        ),
    )


# captions by their content and their bias: table 5 and figure 4 -------------------------------------------------------

CONTENT, BIAS = "content", "bias"
MEAN = "bias, its mean"
TABLE_5 = {CONTENT: Reading(), MEAN: Reading(source="bias"), "bias, one draw": Reading(source="bias", draws=1)}
FIGURE_4 = {"mean of the bias": 0, "one draw of it": 1}
"""What is added to the content, and the draws that say so."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Shares of the bias that are added to the content."""


def by_parts(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 5 of BiMa: recall by the content and by the bias of captions, of the same training."""
    clips = len(material.learning()[1].videos.ids)
    runs = _read(TABLE_5, material, settings, progress)
    ranks = [100 * min(1.0, k / clips) for k in (1, 5, 10)]
    chance = dict(zip(T2V, [*ranks, sum(ranks)], strict=True))
    found = {name: runs.mean(name, MAIN).value for name in (CONTENT, MEAN)}
    above = over_seeds([run[MAIN] - chance[MAIN] for run in runs.rows[MEAN]], settings.audit.confidence)
    return finding(
        f"By content the caption's clip comes first for {found[CONTENT]:.1f} % of the captions, by bias for "
        f"{found[MEAN]:.1f} %, by chance for {chance[MAIN]:.1f} %; bias is {shown(above)} points above chance.",
        effect_of(above, f"{MAIN} by the mean of the bias, less chance, points"),
        (_table(runs, chance, settings),),
        (),
        (*few_seeds(settings), *runs.notices),
        (
            *paragraphs("bima", "Measures", "The bias of a caption", "Table 5 in the paper"),
            training_told(settings.recipe, material),
        ),
    )


def with_bias(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 4 of BiMa: recall by the content of captions with a growing share of their bias."""
    material.learning()  # refuses what lacks a split, before the recipe is looked at
    readings = {
        _named(alpha, what): Reading(alpha=alpha, draws=draws) for what, draws in FIGURE_4.items() for alpha in ALPHAS
    }
    runs = _read(readings, material, settings, progress)
    what = next(iter(FIGURE_4))
    change = runs.changes(_named(0.0, what), _named(1.0, what))[MAIN]
    return finding(
        f"With all of the bias added, {MAIN} changes by {shown(change)} points.",
        effect_of(change, f"Change of {MAIN} with the mean of the bias added (alpha 1), points"),
        (_table(runs, {}, settings),),
        (AuditFigure("Recall over the share of bias that is added", partial(_sweep, runs)),),
        (*few_seeds(settings), *runs.notices),
        (*paragraphs("bima", "Measures", "The bias of a caption"), training_told(settings.recipe, material)),
    )


def _read(
    readings: Mapping[str, Reading], material: Workspace, settings: StudySettings, progress: Progress
) -> SeededRuns[str, str]:
    """Recall of one training by each reading of its captions."""

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        found = {}
        for name, reading in readings.items():
            with captions_read(module(one.matcher), reading):
                found[name] = figures_of(one.scores(), one.test.corpus, T2V)
        return found

    return measured_trainings(only_bima(material, settings), material, settings, progress, measure, ends_of(T2V))


def _named(alpha: float, what: str) -> str:
    return f"content + {alpha:g} x {what}"


def _table(runs: SeededRuns[str, str], chance: Mapping[str, float], settings: StudySettings) -> AuditTable:
    rows = [({"captions are": name}, runs.means(name)) for name in runs.rows]
    rows.append(({"captions are": "chance"}, {metric: Interval(value) for metric, value in chance.items()}))
    note = f"Intervals by Student's t over {settings.seeds} seeds, so of what training leaves to chance."
    return figure_table("What is found by what", rows, "mean", note)


def _sweep(runs: SeededRuns[str, str]) -> go.Figure:
    parts = [
        Panel(
            name,
            "%",
            {what: [(100 * alpha, runs.mean(_named(alpha, what), metric)) for alpha in ALPHAS] for what in FIGURE_4},
        )
        for name, metric in zip(RECALLS[:3], T2V[:3], strict=True)
    ]
    return share_sweep(parts, "share of the bias that is added")


# content and bias apart: figure 5 -------------------------------------------------------------------------------------

MOST = 1_000
"""Captions that are drawn, as in the paper."""
MOST_GROUPS = 50
"""A column of the captions with more different values is none to tell apart."""
FOLDS = 5
_OWN = frozenset({"caption_id", "clip_id", "text", "verb_classes", "noun_classes"})
_TOLD = "content told from bias by a linear classifier, % (chance 50)"
_SHARED = "variance of the bias that is predicted from the content, %"
_SILHOUETTE = "silhouette"
_ENDS = {_SHARED: (-np.inf, 100.0), _SILHOUETTE: (-1.0, 1.0)}
"""What predicts worse than the mean has a share of variance below 0."""


class Told(NamedTuple):
    """How often a classifier names the right group of a vector, and how often chance does, in percent."""

    share: float
    chance: float


class TextParts(NamedTuple):
    """Content and bias of n captions of a test split by one trained matcher, with figures of how far they are apart."""

    vectors: Mapping[str, NDArray[np.float64]]  # (n, D) of each part
    caption_ids: Sequence[str]
    figures: Mapping[str, float]  # by the names they have in tables
    chance: Mapping[str, float]  # how often chance names the right group of a column of the captions, in percent


def projected_parts(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 5 of BiMa: content and bias of up to 1,000 captions of the test split, in a plane and in figures."""
    _, test = material.learning()
    kinds = only_bima(material, settings)
    if (clips := test.corpus.clips.height) < FOLDS:
        raise UsageError(
            f"The split that is searched has {clips:,} clips with features, and classifiers are taught and asked in "
            f"{FOLDS} parts; choose a split of more clips (--split)."
        )
    found: list[TextParts] = []

    def measure(one: TrainingOutcome) -> dict[str, Mapping[str, float]]:
        found.append(parts_of(one, settings.audit.seed))
        return {one.row: found[-1].figures}

    runs = measured_trainings(kinds, material, settings, progress, measure, _ENDS)
    figures, first = runs.means(WHOLE), found[0]
    shared, told = figures[_SHARED], figures[_TOLD]
    groups: list[Cells] = [
        {
            "column of the captions": column, "told from": side, "right, %": figures[f"{column} from {side}"],
            "chance, %": chance,
        }
        for column, chance in first.chance.items()
        for side in first.vectors
    ]  # fmt: skip
    drawn = partial(cloud, first.vectors, dict.fromkeys(first.vectors, first.caption_ids), settings.audit.seed)
    return finding(
        f"A linear classifier tells content from bias for {told.value:.1f} % of the captions (chance 50 %). Of the "
        f"bias's variance {shown(shared)} % is predicted from the content of the same captions: where that is not 0, "
        "the two are not apart.",
        effect_of(shared, "Variance of the bias that is predicted from the content, %"),
        (
            figure_table("Whether content and bias lie apart", [({}, dict(list(figures.items())[:4]))], "mean"),
            *([AuditTable.of("What each part says of the captions", groups)] if groups else ()),
        ),
        (AuditFigure("Content and bias of captions, t-SNE", drawn, "Of the first training."),),
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
    captions = pl.DataFrame({"caption_id": texts.ids})
    table = captions.join(test.corpus.captions, on="caption_id", how="left", maintain_order="left")
    clips = table["clip_id"].to_numpy()
    both, sides = np.concatenate([*vectors.values()]), np.repeat([*vectors], len(texts.ids))
    apart = separation(both, sides.tolist())
    figures = {
        _TOLD: told_apart(both, sides, np.concatenate([clips, clips])).share,
        "nearest neighbours of the own part, %": 100 * apart.agreement,
        _SILHOUETTE: apart.silhouette,
        _SHARED: 100 * predicted(vectors[CONTENT], vectors[BIAS], clips),
    }
    chance = {}
    for column in _columns(table):
        for side, own in vectors.items():
            told = told_apart(own, table[column].to_numpy(), clips)
            figures[f"{column} from {side}"], chance[column] = told.share, told.chance
    return TextParts(vectors, texts.ids, figures, chance)


def whole_captions(matcher: Matcher, texts: TextFeatures, reading: Reading) -> NDArray[np.float64]:
    """Return one unit vector for each caption, (Q, D): its sentence, read as content or as bias by a `Bima`."""
    sentences = replace(texts, words=texts.sentence[:, None], word_mask=np.ones((len(texts.ids), 1), np.bool_))
    with captions_read(module(matcher), reading):
        words = encode_texts(matcher, sentences).state
    return np.asarray(words.vectors[:, 0].double().numpy())


def told_apart(vectors: NDArray[np.float64], groups: NDArray[np.object_], clips: NDArray[np.object_]) -> Told:
    """Measure how often a linear classifier names the group of vectors (n, D) of clips that it was not trained on.

    `clips` are n ids; the vectors of one clip are taught or asked, never both.
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
    """Measure which share of the variance of vectors (n, D) a ridge regression predicts from others, `known`.

    `clips` are n ids; the vectors of one clip are taught or asked, never both.
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        model = RidgeCV(alphas=np.logspace(-3, 3, 13))
        guess = cross_val_predict(model, known, asked, groups=clips, cv=GroupKFold(FOLDS))
    spread = ((asked - asked.mean(0)) ** 2).sum()
    return float(1 - ((asked - guess) ** 2).sum() / spread) if spread else 0.0


def _columns(table: pl.DataFrame) -> list[str]:
    """Columns of the user's own that divide the captions in a few groups, two of which are in what each fold learns."""
    from sklearn.model_selection import GroupKFold

    clips = table["clip_id"].to_numpy()

    def in_every_fold(groups: NDArray[np.object_]) -> bool:
        folds = GroupKFold(FOLDS).split(groups, groups=clips)
        return all(len(set(groups[taught])) > 1 for taught, _ in folds)

    return [
        name
        for name in table.columns
        if name not in _OWN
        and table.schema[name] == pl.String
        and not table[name].null_count()
        and 2 <= table[name].n_unique() <= MOST_GROUPS
        and in_every_fold(table[name].to_numpy())
    ]


# what clips look like to a model, and the elements that it attends to: figures 1 and 6 --------------------------------
#
# The paper does not say what its heat is of. Here there are two kinds, with patches as the towers of the features see
# them (`evenreel.encoders.towers`). The heat of a caption is the score that the model gives it with a clip that shows
# one patch and nothing else; it goes through all that a matcher does, so that it can be drawn for any. The heat of an
# element is the cosine of patches and its phrases.

FRAMES, HOTTEST, ATTENDED = 4, 3, 10
"""Of a clip: frames that are shown, elements under heat, elements in a map of attention."""
WIDTH_PX = 224
SCORE = "how well the caption fits each patch"


# the study ------------------------------------------------------------------------------------------------------------


def maps(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figures 1 and 6 of BiMa: heat on frames for captions, and the attention of frames to scene elements."""
    models, looking = alike(material.encoders()), material.pictures()
    rankings = {model.name: model.part.scores(model.matcher) for model in models}
    views = _views(models, rankings, settings)
    ranks: dict[str, list[int]] = {model.name: [] for model in models}
    rows: list[Cells] = []
    figures: list[AuditFigure] = []
    for caption, clip in views:
        for model in models:
            part, said = model.part, answer(model, rankings[model.name], caption)
            column = said.first[0] if clip is None else part.videos.ids.index(clip)
            found, text = look(model, caption, column, looking), part.corpus.captions["text"][caption]
            right = column == said.own
            elements = () if found.attention is None else found.attention.elements[:HOTTEST]
            is_right = "right" if right else "wrong"
            rows.append(
                {
                    "system": model.name, "caption": text, "clip shown": part.videos.ids[column], "it is": is_right,
                    "elements": "; ".join(" + ".join(one.phrases) for one in elements) or None,
                    "rank of the right clip": said.rank,
                }
            )  # fmt: skip
            title = f"{model.name}: {text!r}, clip {part.videos.ids[column]}"
            strip = partial(heat_strip, found, right=right)
            figures.append(AuditFigure(f"{title} ({is_right})", strip, paragraph("bima", "Strips of frames")))
            if found.attention is not None:
                figures.append(AuditFigure(f"{title}: attention", partial(attention_map, found.attention)))
            ranks[model.name].append(said.rank)
            progress(len(rows) / (len(views) * len(models)))
    picked = not settings.queries and not settings.clips and len(models) > 1
    told, effect = shares_first(ranks)
    return finding(
        told,
        effect,
        (AuditTable.of("What is shown", rows),),
        tuple(figures),
        shown_notices(chosen=picked),
        paragraphs("bima", "Heat"),
    )


def _views(
    models: Sequence[Model], rankings: Mapping[str, ScoreBlocks], settings: StudySettings
) -> list[tuple[int, str | None]]:
    """Rows of captions with the clip that is shown (None: what each system finds first): what the user asks for."""
    rows = asked(models[0].part.corpus, settings.queries)
    if not settings.clips:
        return [(row, None) for row in rows or chosen(models, rankings)]
    own = {clip: row for row, clip in reversed(list(enumerate(models[0].part.corpus.captions["clip_id"])))}
    if strange := [one for one in settings.clips if one not in own]:
        raise UsageError(f"The split has no clip {strange[0]!r} with a caption and features; --clip takes ids.")
    return [(row, clip) for clip in settings.clips for row in rows or [own[clip]]]


# what a model sees ----------------------------------------------------------------------------------------------------


class Heat(NamedTuple):
    """How hot the patches of n frames are, (n, rows, columns), in any unit, for a caption or a scene element."""

    label: str
    maps: FloatArray


class SelectedElement(NamedTuple):
    """One scene element that frames attend to: its phrases, and its share of all attention, 0 to 1."""

    phrases: tuple[str, ...]
    share: float


class Attention(NamedTuple):
    """How much each frame of a clip attends to the scene elements of the clip."""

    elements: tuple[SelectedElement, ...]  # E of them, the most attended first
    times_s: NDArray[np.float64]  # (T,) times of the frames in the clip
    weights: FloatArray  # (T, E) share of each frame's attention, 0 to 1


@dataclass(frozen=True, eq=False)
class ElementLook:
    """What a model sees of a clip beside a caption: frames, their heat and the scene elements they attend to."""

    pictures: tuple[Pixels, ...]  # n frames, the part that the towers see, (h, w, 3) of one size
    times_s: tuple[float, ...]  # times of these frames in the clip
    heats: tuple[Heat, ...]  # heat of the caption's score first, then of scene elements
    # attention of all frames to the clip's scene elements; None for a model that has no such attention
    attention: Attention | None


def look(model: Model, row: int, column: int, looking: Looking) -> ElementLook:
    """Compute what a model sees of one clip beside one caption, by their places: heat of the caption's score, and more.

    Any matcher has the heat of its score; scene elements and attention to them come of the matcher `bima` alone, an
    adapted one included.
    """
    videos = model.part.videos
    video = to_device(video_batch(videos, slice(column, column + 1)), device_of(model.matcher))
    places = np.flatnonzero(videos.frame_mask[column])
    count = min(FRAMES, len(places))  # the middles of equal runs of frames
    places = places[((np.arange(count) + 0.5) * len(places) / count).astype(np.int64)]
    times_s = tuple(videos.times_s[column][places].tolist())
    frames = looking.frames(videos.ids[column], times_s)
    planes = (np.ascontiguousarray(frame.transpose(2, 0, 1)[None]) for frame in frames)
    patches = np.concatenate([looking.encoder.encode_patches(one) for one in planes])
    alone = patches_as_clips(patches, model.part, column)
    scores = matcher_scores(model.matcher, texts_of(model.part.texts, (model.part.texts.ids[row],)), alone)
    heats = [Heat(SCORE, scores.block(slice(0, 1), slice(0, len(alone.ids))).reshape(patches.shape[:3]))]
    attention = attention_of(model.matcher, video, videos.times_s[column])
    for element in () if attention is None else attention.elements[:HOTTEST]:
        label = f"{element.share:.0%}: {' + '.join(element.phrases)}"
        heats.append(Heat(label, patches @ direction(element, looking.encoder)))
    return ElementLook(seen_parts(frames, looking.encoder), times_s, tuple(heats), attention)


def patches_as_clips(patches: FloatArray, part: CorpusPart, column: int) -> VideoFeatures:
    """Turn patches (n, rows, columns, D) of a clip into clips of one frame, with all else that the clip has."""
    videos, count = part.videos, patches[..., 0].size
    mean = pretrained_mean_of(video_batch(videos, slice(column, column + 1))).numpy()
    return VideoFeatures(
        tuple(str(number) for number in range(count)),
        patches.reshape(count, 1, -1),
        np.ones((count, 1), np.bool_),
        np.zeros((count, 1)),
        None if videos.on_screen is None else videos.on_screen.mapped(lambda array: array[[column] * count]),
        mean.repeat(count, axis=0),
    )


def attention_of(matcher: Matcher, video: VideoBatch, times_s: NDArray[np.float64]) -> Attention | None:
    """Return what the frames of one clip, a batch of one, attend to, most attended elements first.

    None for a matcher that is no `Bima`, perhaps in an adapter, and so has no scene elements. `times_s` are (T,).
    """
    if isinstance(matcher, Adapted):
        with torch.no_grad(), evaluating(matcher):
            video = matcher.adapt_video(video)
        return attention_of(matcher.matcher, video, times_s)
    if not isinstance(matcher, Bima) or matcher.scene is None:
        return None
    with torch.no_grad(), evaluating(matcher):
        found = matcher.attention(video)
    real = video.frame_mask[0].cpu().numpy()[: len(times_s)]
    weights = found.weights[0].cpu().numpy()[: len(real)][real]
    shares = weights.mean(axis=0)
    most = np.argsort(-shares, kind="stable")[:ATTENDED]
    named = ((matcher.settings.activities, found.activity_places), (matcher.settings.entities, found.entity_places))
    kinds = [(phrases, places[0].tolist()) for phrases, places in named if places.shape[1]]
    elements = (
        SelectedElement(tuple(phrases[places[one]] for phrases, places in kinds), float(shares[one]))
        for one in most.tolist()
    )
    return Attention(tuple(elements), times_s[: len(real)][real], weights[:, most])


def direction(element: SelectedElement, encoder: LoadedEncoder) -> FloatArray:
    """Return the unit vector (D,) in the middle between the phrases of a scene element."""
    vector = encoder.encode_text(element.phrases).sentence.sum(axis=0)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def seen_parts(frames: list[Pixels], encoder: LoadedEncoder) -> tuple[Pixels, ...]:
    """Return the part of each frame that the towers see, all in the size of the first, `WIDTH_PX` wide."""
    from PIL import Image

    height, width = frames[0].shape[:2]
    left, top, right, bottom = encoder.seen_box(height, width)
    size = WIDTH_PX, max(1, round(WIDTH_PX * (bottom - top) / (right - left)))
    boxes = (encoder.seen_box(*frame.shape[:2]) for frame in frames)
    return tuple(
        np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BICUBIC, box))
        for frame, box in zip(frames, boxes, strict=True)
    )


# how it is drawn ------------------------------------------------------------------------------------------------------

_HEAT = [[0, "rgba(255,196,0,0)"], [0.5, "rgba(255,140,0,0.45)"], [1, "rgba(190,0,30,0.8)"]]
_TITLE, _LABEL = 60, 56
"""Letters of the title of a row of frames, and of the label of an element."""


def displayed(maps: FloatArray) -> FloatArray:
    """Scale maps of heat for display: 0 up to their median, 1 at the hottest patch, in proportion between.

    >>> displayed(np.array([[[0.0, 2.0], [4.0, 5.0]]], np.float32)).tolist()
    [[[0.0, 0.0], [0.5, 1.0]]]
    """
    middle, hottest = float(np.median(maps)), float(maps.max())
    if hottest <= middle:
        return np.zeros_like(maps)
    return np.asarray(np.clip((maps - middle) / (hottest - middle), 0.0, 1.0), np.float32)


def heat_strip(look: ElementLook, *, right: bool) -> go.Figure:
    """Draw the frames of a clip, in a border that says whether it is the right one, and again under each heat."""
    import plotly.graph_objects as go

    titles = [f"the clip ({'right' if right else 'wrong'})", *(heat.label for heat in look.heats)]
    shown = [textwrap.shorten(title, _TITLE, placeholder=" ...") for title in titles]
    figure = go.Figure(layout=panels(shown, "", [""] * len(titles), columns=1))
    figure.update_layout(showlegend=False, grid={"ygap": 0.25})
    sources, aspect, count = [jpeg(one) for one in look.pictures], aspect_of(look.pictures[0]), len(look.times_s)
    for number in range(1, len(titles) + 1):
        add_frames(figure, sources, look.times_s, aspect, number)
    add_borders(figure, count, aspect, 1, right=right)
    figure.add_scatter(  # points without colour say when each frame is, and make images a chart
        x=middles(count), y=[aspect / 2] * count, mode="markers", marker_opacity=0, customdata=look.times_s,
        hovertemplate="at %{customdata:.2f} s<extra></extra>",
    )  # fmt: skip
    for number, heat in enumerate(look.heats, start=2):
        _, rows, columns = heat.maps.shape  # a cell a patch; between frames lies one without a value
        edges = [place * (1 + GAP) + column / columns for place in range(count) for column in range(columns + 1)]
        figure.add_heatmap(
            z=_beside(displayed(heat.maps)), customdata=_beside(heat.maps), x=edges, y=np.linspace(0, aspect, rows + 1),
            zmin=0, zmax=1, colorscale=_HEAT, showscale=False, hoverongaps=False,
            hovertemplate="%{customdata:.3g}<extra></extra>", **axes_of(number),
        )  # fmt: skip
    return figure


def _beside(maps: FloatArray) -> NDArray[np.float64]:
    """(n, rows, columns) -> (rows, n columns + n - 1), NaN between the frames."""
    count, rows, columns = maps.shape
    wide = np.full((rows, count, columns + 1), np.nan)
    wide[:, :, :columns] = maps.transpose(1, 0, 2)
    return wide.reshape(rows, -1)[:, :-1]


def attention_map(attention: Attention) -> go.Figure:
    """Draw attention: frames across, elements downwards; the darker, the more a frame attends to one."""
    import plotly.graph_objects as go

    figure = go.Figure(layout=axes("time in the clip, s", ""))
    places, count = np.arange(len(attention.elements)), len(attention.times_s)
    labels = [" + ".join(element.phrases) for element in attention.elements]
    figure.add_heatmap(
        z=100 * attention.weights.T, x=np.arange(count), y=places, customdata=[[plain(one)] * count for one in labels],
        colorscale=[[0, faded(COLOURS[0])], [1, "#0b3d75"]], zmin=0,
        colorbar={"title": {"text": "attention, %", "side": "right"}, "thickness": 10},
        hovertemplate="%{customdata}<br>%{z:.1f} %<extra></extra>",
    )  # fmt: skip
    words = [name_label(textwrap.shorten(one, _LABEL, placeholder=" ..."), TITLE_LETTERS) for one in labels]
    quiet = {"showgrid": False, "zeroline": False, "ticks": ""}
    figure.update_yaxes(tickvals=places, ticktext=words, autorange="reversed", tickfont_size=12, **quiet)
    times = [f"{time_s:.1f}" for time_s in attention.times_s]
    return figure.update_xaxes(tickvals=np.arange(count), ticktext=times, **quiet)
