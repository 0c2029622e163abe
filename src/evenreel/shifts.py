"""What corrupted clips cost a model: corpora, features, scores and figures, each made once, and a page of them.

The clips are decoded once, scaled down, corrupted as in MLVP (Zhang et al. 2026, arXiv 2604.20851) and encoded; what a
model finds among them is compared, query by query, with what it finds among clips that are only encoded the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from evenreel.checkpoint import Pretrained, load_features_for, load_matcher, named_matcher
from evenreel.checkpoint.folder import checkpoint_folder, names_no_checkpoint
from evenreel.checkpoint.records import ENCODER
from evenreel.config import DEFAULT_MODEL
from evenreel.corpus import load_corpus, select
from evenreel.edits.corruptions import corrupt_clips
from evenreel.edits.settings import KINDS, NONE, CorruptionSettings
from evenreel.encoders.loading import LoadedEncoder, load_encoder
from evenreel.errors import CheckpointError, UsageError
from evenreel.evaluation import Evaluation, EvaluationSettings, Interval, compare, evaluate, parse_metric, save_scores
from evenreel.evaluation.concentration import skewness
from evenreel.evaluation.metrics import Direction
from evenreel.evaluation.rescoring import dense, hub_memory, queries_as_rows
from evenreel.features import compute_features, feature_folder
from evenreel.features.pool import NoProgress, SetAside, StagedProgress
from evenreel.features.settings import DEFAULT_FRAMES, FeatureSettings
from evenreel.matchers.scoring import matcher_scores
from evenreel.progress import Progress
from evenreel.report import Chart, Page, Section, Text
from evenreel.report.result import AuditTable
from evenreel.report.words import interval, number, percent
from evenreel.types import Corpus, Scores

METRIC = "R@1"
DEPTH = 10  # of the rankings in which hubs are counted
SCORES = "scores.npz"
"""File of the scores in the folder of each corrupted corpus, for `evenreel evaluate`, `audit` and others."""
NO_COSINES = "The scores are no cosines, which the numbers of the hub memory are for; it is left out."
CAPTION = (
    "lost: points of R@1 below clips that are only encoded the same way, with a paired test, Holm-adjusted. hub "
    "skewness: of how often each item is among the first 10. hub memory adds: points of R@1 by that correction of "
    "scores, with queries in the corpus's order."
)
METHOD = (
    "The clips of the split are decoded once, scaled down, corrupted as in MLVP (Zhang et al. 2026, arXiv 2604.20851), "
    "and encoded; features of every version are computed anew. Where the subject is, is guessed from what moves; style "
    "and inserted events are another clip's of the split."
)
_COSINES = 1.001  # largest size of a cosine, but for rounding: the numbers of the hub memory are for cosines
_PARTS = 1_000  # steps that a share of a stage is counted in


@dataclass(frozen=True, eq=False)
class SeeingModel:
    """A matcher by name, the encoder whose features it takes, and how clips become features (`videos` left open)."""

    name: str
    encoder: LoadedEncoder
    settings: FeatureSettings
    device: str = "cpu"


def load_model(name: str, encoder: str | None = None, device: str = "auto") -> SeeingModel:
    """Load what is needed to compute features of new clips for a matcher."""
    if names_no_checkpoint(name):
        settings = FeatureSettings(f"{DEFAULT_FRAMES} midpoints", read_text=False)
        return SeeingModel(name, load_encoder(encoder or DEFAULT_MODEL, device=device), settings, device)
    if encoder is not None:
        raise UsageError(f"{name} says itself which encoder its features are of; leave --model out.")
    pretrained = load_matcher(name)
    _check_makable(name, pretrained)
    note, inputs = pretrained.about.encoder, pretrained.about.inputs
    towers = str(checkpoint_folder(name) / ENCODER) if note.trained_further else note.id
    rule, windows = inputs.rule or f"{DEFAULT_FRAMES} midpoints", inputs.windows
    settings = FeatureSettings(rule, read_text=False) if windows is None else FeatureSettings(rule, windows=windows)
    return SeeingModel(name, load_encoder(towers, device=device), settings, device)


def _check_makable(name: str, pretrained: Pretrained) -> None:
    about = pretrained.about
    corpora = "write the corpora with `evenreel corpus corrupt` and compute its features of them yourself"
    if (stored := about.encoder.stored_name) is not None:
        raise CheckpointError(f"{name} takes features {stored!r}, which others computed; {corpora}.")
    if about.inputs.words_from == "corpus":
        raise CheckpointError(
            f"{name} reads words on screen that the corpus ships, and corrupted clips have none that are true of them; "
            "train one that reads them in the frames (--words ocr)."
        )
    if pretrained.needs_pretrained_means:
        raise CheckpointError(f"{name} needs features by its towers before their training as well; {corpora}.")


@dataclass(frozen=True)
class ShiftRow:
    """Figures of a direction on clips that are corrupted in one way."""

    kind: str  # kind of corruption; `none` for clips that are only encoded the same way
    strength: int  # 1 to 5; 0 for `none`
    direction: Direction  # `t2v`, captions look for corrupted videos, or `v2t`, corrupted videos look for captions
    found: Interval  # R@1 in percent, with its interval
    lost: Interval | None  # points of R@1 below those of `none`, paired, with its interval; None for `none`
    # p value of a paired randomisation test that nothing is lost, adjusted by Holm for the number of corruptions; None
    # for `none`
    p: float | None
    # skewness of how often each item is among the first 10 (Radovanović et al. 2010); None where all are as often
    skewness: float | None
    # points of R@1 that the hub memory (Zhang et al. 2026) adds, with queries in the corpus's order, paired with the
    # scores as they are; None where these are no cosines
    regained: Interval | None


@dataclass
class ShiftReport:
    """What a model finds among clips that are corrupted in several ways."""

    model: str  # name of the matcher
    encoder: str  # name of its encoder
    folder: str  # folder with a corpus of each corruption, its features and its scores
    clips: int  # number of clips
    captions: int  # number of captions
    confidence: float  # confidence of the intervals
    rows: list[ShiftRow] = field(default_factory=list)  # figures by direction, then corruption; `none` first
    set_aside: list[SetAside] = field(default_factory=list)  # clips that are left out of all of them
    notices: list[str] = field(default_factory=list)  # sentences that belong beside the figures

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def by_direction(self) -> dict[Direction, list[ShiftRow]]:
        found: dict[Direction, list[ShiftRow]] = {}
        for row in self.rows:
            found.setdefault(row.direction, []).append(row)
        return found


class _Found(NamedTuple):
    """A model on one corpus: scores as they are, and after the hub memory (None: no cosines); skewness of hubs."""

    plain: Evaluation
    corrected: Evaluation | None
    skewness: Mapping[Direction, float | None]


def measure_shifts(
    model: SeeingModel,
    corpus: Corpus,
    folder: str | Path,
    corruptions: CorruptionSettings,
    settings: EvaluationSettings | None = None,
    progress: StagedProgress | None = None,
) -> ShiftReport:
    """Measure what a model finds among corrupted clips, `none` among them; what is made already is kept."""
    folder, progress = Path(folder), progress or NoProgress()
    settings = replace(settings or EvaluationSettings(), metrics=(METRIC,))  # type: ignore[arg-type]
    kinds = (NONE, *(kind for kind in corruptions.kinds or KINDS if kind != NONE))
    if len(kinds) < 2:
        raise UsageError("No corruption is measured; name one with --kind.")
    with _share(progress, "corrupting clips") as share:
        written = corrupt_clips(corpus, folder, replace(corruptions, kinds=kinds), share)
    aside = [*written.set_aside]
    features: list[Path] = []
    for one in written.corpora:
        place = Path(one.folder)
        features.append(feature_folder(place, model.encoder))
        how = replace(model.settings, videos=place)
        aside += compute_features(load_corpus(place), features[-1], model.encoder, how, progress).set_aside
    aside = [*{one.clip_id: one for one in aside}.values()]  # a clip may be set aside after several corruptions
    left_out = pl.col("clip_id").is_in([one.clip_id for one in aside])
    found: dict[tuple[str, int], _Found] = {}
    for one, own in zip(written.corpora, features, strict=True):
        place, part = Path(one.folder), select(load_corpus(one.folder), where=~left_out)
        pretrained = named_matcher(model.name, own, device=model.device)
        with _share(progress, f"scoring {place.name}") as share:
            loaded = load_features_for(pretrained, own, part, share)
            scores = dense(matcher_scores(pretrained.matcher, loaded.texts, loaded.videos))
        save_scores(scores, place / SCORES)
        found[one.kind, one.strength] = _figures(scores, part, settings)
    searched = next(iter(found.values())).plain.directions["t2v"]
    named, sizes = (model.name, model.encoder.encoder_id, str(folder)), (searched.gallery_size, len(searched.query_ids))
    notices = [*dict.fromkeys(notice for one in found.values() for notice in one.plain.notices)]
    notices += [NO_COSINES] if any(one.corrected is None for one in found.values()) else []
    return ShiftReport(*named, *sizes, settings.confidence, _rows(found, settings), aside, notices)


@contextmanager
def _share(progress: StagedProgress, stage: str) -> Iterator[Progress]:
    """Begin a stage, and give what its share is told to."""
    progress.stage(stage, _PARTS)
    done = 0

    def report(share: float) -> None:
        nonlocal done
        if (steps := int(share * _PARTS) - done) > 0:
            done += steps
            progress.advance(steps)

    yield report


def _figures(scores: Scores, corpus: Corpus, settings: EvaluationSettings) -> _Found:
    plain = evaluate(scores, corpus, settings)
    hubs = {direction: hub_skewness(scores, direction) for direction in settings.directions}
    if np.abs(scores.values).max() > _COSINES:
        return _Found(plain, None, hubs)
    directions = {
        one: evaluate(hub_memory(scores, one), corpus, replace(settings, directions=(one,))).directions[one]
        for one in settings.directions
    }
    return _Found(plain, replace(plain, directions=directions), hubs)


def hub_skewness(scores: Scores, direction: Direction) -> float | None:
    """Compute the skewness of how often each item is among the first 10 of the queries; None where all are as often.

    >>> rows = np.eye(12) + np.linspace(0, 0.5, 12)
    >>> scores = Scores(rows, [f"q{row}" for row in range(12)], [f"v{row}" for row in range(12)])
    >>> round(hub_skewness(scores, "t2v"), 2)
    -1.72
    """
    rows = queries_as_rows(np.asarray(scores.values), direction)
    depth, counts = min(DEPTH, rows.shape[1]), np.zeros(rows.shape[1], np.int64)
    for row in rows:
        counts[np.argpartition(-row, depth - 1)[:depth]] += 1
    found = skewness(counts)
    return None if np.isnan(found) else found


def _rows(figures: Mapping[tuple[str, int], _Found], settings: EvaluationSettings) -> list[ShiftRow]:
    clean, *others = figures
    names = {"-".join(map(str, key)): key for key in others}
    against = compare(figures[clean].plain, {name: figures[key].plain for name, key in names.items()}, settings)
    lost = {(names[row.system], row.direction): row for row in against.rows}
    regained = {
        (key, row.direction): row.difference
        for key, one in figures.items()
        for row in (compare(one.plain, {"hub memory": one.corrected}, settings).rows if one.corrected else ())
    }
    rows = []
    for direction in settings.directions:
        for key, one in figures.items():
            row, found = lost.get((key, direction)), one.plain.directions[direction].summary[METRIC]
            worse, p = (None, None) if row is None else (_negated(row.difference), row.p_holm)
            more = regained.get((key, direction))
            rows.append(ShiftRow(*key, direction, found, worse, p, one.skewness[direction], more))
    return rows


def _negated(figure: Interval) -> Interval:
    low, high = (None if end is None else 0.0 - end for end in (figure.high, figure.low))
    return Interval(0.0 - figure.value, low, high)


def worst_sentence(report: ShiftReport) -> str:
    """Return a sentence on the corruption that costs captions' searches the most."""
    metric = parse_metric(METRIC)
    clean, *others = report.by_direction()[report.rows[0].direction]
    worst = max(others, key=lambda row: 0.0 if row.lost is None else row.lost.value)
    ends = interval(worst.found, metric)
    sure = f" ({percent(report.confidence)} interval {ends})" if ends else ""
    return (
        f"{number(clean.found.value, metric)}% of {report.captions:,} captions find their clip first among "
        f"{report.clips:,} clips as they are; {number(worst.found.value, metric)}%{sure} after {worst.kind} of "
        f"strength {worst.strength}, which costs the most."
    )


def shifts_table(rows: list[ShiftRow]) -> AuditTable:
    """Put the rows of a direction in a table."""
    return AuditTable.of(
        rows[0].direction,
        [
            {
                "corruption": row.kind, "strength": row.strength or None, METRIC: row.found, "lost": row.lost,
                "p": row.p, "hub skewness": row.skewness, "hub memory adds": row.regained,
            }
            for row in rows
        ],
        CAPTION,
        digits=1,
    )  # fmt: skip


def shifts_page(report: ShiftReport) -> Page:
    """Make the page of what a model finds among corrupted clips."""
    import plotly.express as px

    from evenreel.report.evaluation import TITLES
    from evenreel.report.figures import axes

    notices = [Text(sentence, "notice") for sentence in report.notices]
    aside = [Text(f"{one.clip_id}: {one.sentence}", "note") for one in report.set_aside]
    sections = [Section("What to know first", [*notices, *aside])] if notices or aside else []
    for direction, rows in report.by_direction().items():
        clean, *others = rows
        kinds = dict.fromkeys(row.kind for row in others)
        points = [
            (kind, row.strength, row.found.value)  # every line begins at clips as they are
            for kind in kinds
            for row in (clean, *sorted((one for one in others if one.kind == kind), key=lambda one: one.strength))
        ]
        columns = dict(zip(("corruption", "strength", METRIC), zip(*points, strict=True), strict=True))
        chart = px.line(columns, "strength", METRIC, "corruption", line_dash="corruption", markers=True)
        chart.update_layout(axes("strength", f"{METRIC}, %")).update_yaxes(range=[0, 101]).update_xaxes(dtick=1)
        sections.append(Section(TITLES[direction], [Chart(chart, "What is found"), shifts_table(rows)]))
    sections.append(Section("How it was calculated", [Text(METHOD)]))
    return Page(f"Shifts of {report.model}", worst_sentence(report), sections)
