"""Evaluation of scores on a corpus: checks, relevance, protocols, figures of all queries and of groups, notices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from evenreel.config import check_progress, check_settings_kind, described, whole
from evenreel.corpus.folder import HOW_CORPUS, CorpusLike, as_corpus
from evenreel.corpus.relevance import GradedPairs, Relevance, RelevantPairs, class_relevance, own_clip, same_text
from evenreel.corpus.tables import ArrowTable, as_dataframe, is_dataframe, make_corpus, splits_of
from evenreel.errors import CorpusError, ScoresError, UsageError
from evenreel.evaluation.groups import QueryGroups, Spread, bands_of, column_values, query_groups
from evenreel.evaluation.intervals import Interval, around, clusters_of, effective, figure_intervals, shown_figure
from evenreel.evaluation.metrics import FIRST_RANK, Direction, EvaluationSettings, Metric, Ties
from evenreel.evaluation.ranking import (
    CaptionGroups,
    CheckedScores,
    GroupedScores,
    Hits,
    Search,
    aligned,
    as_table,
    group_relevance,
    mean_of,
    rank_all,
)
from evenreel.evaluation.scores import (
    ITEM_NAMES,
    JUDGED,
    QUERY_NAMES,
    ListedScores,
    Notice,
    OwnScores,
    ScoresLike,
    as_scores,
    column_of,
    from_table,
    lists_pairs,
    numbered,
    own_scores,
    read_document,
    served,
    tell_of_gaps,
    words_of,
)
from evenreel.progress import Progress, part_of
from evenreel.types import Corpus, ScoreBlocks, Scores, Shown

# What answers a caption: rules by name, degrees or judgements that were given, or the diagonal of a matrix.

RelevanceName = Literal["clip", "text", "classes", "classes-iou"]

RelevanceLike: TypeAlias = (
    "RelevanceName | Literal['diagonal'] | Relevance | Judgements | str | PathLike[str] | ArrayLike | pl.DataFrame"
    " | pl.LazyFrame | ArrowTable | Mapping[str, Mapping[str, float]]"
)
"""What is taken for relevance: a name of `RELEVANCE`; `diagonal`; a `Relevance`, or degrees (Q, V) from 0 to 1 as an
array, a tensor, a list of lists, or a table with the ids of the scores; or judgements: the path of a file that
`read_qrels` reads, a table with a row a pair, `{query: {item: grade}}`."""

RELEVANCE: dict[RelevanceName, Callable[[Corpus, Sequence[str], Sequence[str]], Relevance]] = {
    "clip": own_clip,
    "text": same_text,
    "classes": class_relevance,
    "classes-iou": lambda corpus, captions, videos: class_relevance(corpus, captions, videos, "iou"),
}
"""What answers a caption: its own clip; every clip with a caption of the same text; degrees from verb and noun
classes, verbs equal or by intersection over union."""

DIAGONAL = "diagonal"  # relevance of a matrix of scores without a corpus: row and column of one number belong together

QRELS = "qrels"  # relevance by judgements

_GRADES = ("grade", "relevance", "rel", "label", "score")
_HOW = (
    f"give one of {', '.join(RELEVANCE)}, degrees from 0 to 1, a caption a row and a video a column, or judgements: "
    "the path of a file, a table with a row a pair, {query: {item: grade}}"
)
_GIVE = "give --qrels FILE or --corpus FOLDER (in Python relevance=FILE, or a corpus)"


@dataclass(frozen=True, eq=False)
class Judgements:
    """Relevance judgements (qrels): a degree of relevance for each pair that was judged relevant; others have none."""

    pairs: pl.DataFrame  # a row a pair, `query`, `item` and `grade`, a whole number from 1, or another number above 0
    where: str  # name of the judgements, for messages

    def of(self, caption_ids: Sequence[str], video_ids: Sequence[str]) -> GradedPairs:
        """Return the relevance (Q, V) of captions and videos: each grade as a share of the highest one."""
        turned = self.are_of_clips(caption_ids, video_ids)
        sides = [pl.Series(list(ids), dtype=pl.String) for ids in (caption_ids, video_ids)]
        rows, columns = (
            self.pairs[name].replace_strict(ids, np.arange(len(ids)), default=None, return_dtype=pl.Int64)
            for name, ids in zip(("item", "query") if turned else ("query", "item"), sides, strict=True)
        )
        known = rows.is_not_null() & columns.is_not_null()
        if not known.any():
            query, item = self.pairs.row(0)[:2]
            raise ScoresError(
                f"{self.where} judges {item!r} for {query!r}, and nothing that has scores: their first ids are "
                f"{sides[0].first()!r} and {sides[1].first()!r} (those of a matrix without ids are 0, 1, ...); name "
                "them alike."
            )
        values = self.pairs["grade"].filter(known).to_numpy() / self.highest
        places = rows.filter(known).to_numpy(), columns.filter(known).to_numpy()
        matrix = sparse.csr_array((values, places), shape=(len(sides[0]), len(sides[1])))
        return RelevantPairs(matrix.astype(np.bool_)) if (values == 1).all() else GradedPairs(matrix)

    @property
    def highest(self) -> float:
        """The highest grade, which alone counts as an answer where a metric knows no degrees."""
        return float(self.pairs["grade"].max())  # type: ignore[arg-type]  # numbers

    def are_of_clips(self, caption_ids: Sequence[str], video_ids: Sequence[str]) -> bool:
        """Return whether the queries are clips and the items captions, by how many of their ids are there."""
        sides = [pl.Series(list(ids), dtype=pl.String).implode() for ids in (caption_ids, video_ids)]
        ahead, back = (
            sum(int(self.pairs[name].is_in(ids).sum()) for name, ids in zip(("query", "item"), order, strict=True))
            for order in (sides, sides[::-1])
        )
        return back > ahead


def read_qrels(path: str | PathLike[str]) -> Judgements:
    """Read relevance judgements (qrels).

    Lines of TREC, `query 0 item grade`, perhaps compressed (`.gz`); a table (csv, tsv, jsonl, parquet) with a row a
    pair, columns named as those of scores (`query`, `item`) and `grade`, `relevance`, `rel` or `label`, without which
    every pair is an answer; or JSON, `{query: {item: grade}}`. Grades of 0 and below are of no relevance.
    """
    path = Path(path)
    if not path.is_file():
        raise ScoresError(f"There is no file {path} of judgements to read; --save-qrels and --save-run write files.")
    kind = path.suffix.lower()
    if kind == ".json":
        return _judged(read_document(path), str(path))
    if kind in (".csv", ".tsv", ".jsonl", ".parquet"):
        from evenreel.corpus.formats.plain_tables import read_table

        return _judged(read_table(path), str(path))
    wanted = "four words of a judgement, which are query, 0, item and grade; csv, tsv, Parquet and JSON are read too."
    return _of_pairs(words_of(path, JUDGED, "a file of judgements", wanted), str(path))


def _judged(given: object, where: str) -> Judgements:
    """Judgements of a table with a row a pair, or of `{query: {item: grade}}`."""
    if isinstance(given, Mapping) and given and all(isinstance(row, Mapping) for row in given.values()):
        rows = [(str(query), str(item), grade) for query, row in given.items() for item, grade in row.items()]
        return _of_pairs(pl.DataFrame(rows, ["query", "item", "grade"], orient="row", strict=False), where)
    table = as_dataframe(given, where, _HOW)
    query, item, grade = (column_of(table, names) for names in (QUERY_NAMES, ITEM_NAMES, _GRADES))
    if query is None or item is None:
        raise ScoresError(
            f"{where} has no columns of queries and items ({', '.join(QUERY_NAMES)}; {', '.join(ITEM_NAMES)}); it has: "
            f"{', '.join(table.columns[:10])}."
        )
    grades = pl.lit(1.0) if grade is None else pl.col(grade)
    return _of_pairs(table.select(query=pl.col(query), item=pl.col(item), grade=grades), where)


def _of_pairs(pairs: pl.DataFrame, where: str) -> Judgements:
    """The pairs that are relevant, each once, with its highest grade."""
    grades = pairs["grade"].cast(pl.Float64, strict=False)
    for row in (grades.is_null() | ~grades.is_finite()).arg_true():
        raise ScoresError(f"Pair {row + 1} of {where} has the grade {pairs['grade'][row]!r}; a grade is a number.")
    pairs = pairs.select(pl.col("query", "item").cast(pl.String), grade=grades).filter(pl.col("grade") > 0)
    if pairs.is_empty():
        raise ScoresError(f"{where} judges no pair relevant, so there is nothing to find; a grade above 0 does.")
    return Judgements(pairs.group_by("query", "item", maintain_order=True).agg(pl.col("grade").max()), where)


def judgements_of(relevance: object) -> Judgements | None:
    """Return the judgements that something stands for; None where it is another kind of relevance."""
    if isinstance(relevance, Judgements):
        return relevance
    if isinstance(relevance, str) and relevance in (*RELEVANCE, DIAGONAL):
        return None
    if isinstance(relevance, str) and not Path(relevance).is_file():
        raise UsageError(
            f"{relevance!r} is no kind of relevance and no file of judgements; there are: {', '.join(RELEVANCE)}."
        )
    if isinstance(relevance, (str, PathLike)):
        return read_qrels(relevance)
    pairs = is_dataframe(relevance) and lists_pairs(as_dataframe(relevance, "relevance", _HOW), _GRADES)
    return _judged(relevance, "relevance") if pairs or (isinstance(relevance, Mapping) and relevance) else None


def relevance_of(relevance: RelevanceLike, corpus: Corpus, scores: CheckedScores) -> Relevance:
    """Return the relevance (Q, V) of the captions and videos of scores, in their order."""
    if isinstance(relevance, str) and relevance in RELEVANCE:
        return RELEVANCE[relevance](corpus, scores.caption_ids, scores.video_ids)
    if (judged := judgements_of(relevance)) is not None:
        return judged.of(scores.caption_ids, scores.video_ids)
    own = hasattr(relevance, "block") and isinstance(getattr(relevance, "shape", None), tuple)
    degrees = cast("Relevance", relevance) if own else GradedPairs(sparse.csr_array(_degrees(relevance, scores)))
    size = (len(scores.caption_ids), len(scores.video_ids))
    if degrees.shape != size:
        raise UsageError(f"The relevance has the shape {degrees.shape}; it must be that of the scores, {size}.")
    return degrees


def _degrees(given: object, scores: CheckedScores) -> NDArray[np.float64]:
    """Degrees (Q, V) in the order of the scores, from 0 to 1."""
    is_table = isinstance(given, (list, tuple)) or any(hasattr(given, part) for part in ("__array__", "detach"))
    if is_dataframe(given):
        found = from_table("relevance", as_dataframe(given, "relevance", _HOW, keep_index=True), None)
        whole = slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids))
        table = aligned(found, scores).block(*whole) if isinstance(found, Scores) else cast("NDArray[Any]", found)
    elif is_table and not isinstance(given, type):
        table = as_table(given, "The degrees of relevance")
    else:
        raise UsageError(f"relevance is {described(given)}; {_HOW}.")
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        raise UsageError(
            f"The relevance is an array of {table.dtype} with the shape {table.shape}; it must be numbers, a caption a "
            "row and a video a column."
        )
    if table.size and not (table.min() >= 0 and table.max() <= 1):  # NaN too
        raise UsageError(f"Degrees of relevance lie between 0 and 1; these range from {table.min()} to {table.max()}.")
    return table.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Truth:
    """What answers what where there is no corpus: by the diagonal of a matrix, or by judgements."""

    corpus: Corpus  # captions and clips of the scores and of the judgements, each called by its id
    relevance: RelevanceName | Judgements  # what `evaluate` takes with it
    name: str  # name of that relevance, a key of `evenreel.report.words.RELEVANCES`
    notices: tuple[str, ...]  # sentences on what was taken for the truth

    def fitted(self, scores: OwnScores, where: str, notice: Notice, *, partial: bool = False) -> ScoreBlocks:
        """Return the scores of a system with the ids of the corpus; `partial` leaves out queries without a list."""
        for sentence in self.notices:
            notice(sentence)
        captions, clips = self.corpus.captions["caption_id"], self.corpus.clips["clip_id"]
        if isinstance(scores, np.ndarray):
            if self.name == QRELS:
                return numbered(scores)
            if scores.shape != (len(captions), len(clips)):
                raise ScoresError(
                    f"{where} is {_by(*scores.shape)}, and the first matrix is {_by(len(captions), len(clips))}; both "
                    "must be of the same captions and clips."
                )
            return Scores(scores, captions.to_list(), clips.to_list())
        if not isinstance(scores, ListedScores):
            return scores
        queries, listed = (captions, scores.caption_ids) if scores.queries == "t2v" else (clips, scores.video_ids)
        kept = queries.filter(queries.is_in(pl.Series(listed).implode())) if partial else queries
        captions, clips = (kept, clips) if scores.queries == "t2v" else (captions, kept)
        rows, columns = (
            pl.Series(own, dtype=pl.String).replace_strict(ids, np.arange(len(ids)), return_dtype=pl.Int64).to_numpy()
            for own, ids in ((scores.caption_ids, captions), (scores.video_ids, clips))
        )
        found = replace(scores, caption_ids=captions.to_list(), video_ids=clips.to_list())
        found = replace(found, rows=rows[scores.rows], columns=columns[scores.columns])
        tell_of_gaps(found, notice)
        return found


def truth_of(systems: Mapping[str, OwnScores], relevance: object = DIAGONAL, captions_per_clip: int = 1) -> Truth:
    """Find out what answers what where there is no corpus."""
    judged = judgements_of(relevance)
    if judged is not None:
        if captions_per_clip != 1:
            raise UsageError("The judgements say which captions a clip has; leave out the captions per clip.")
        return _by_judgements(systems, judged)
    if not (isinstance(relevance, str) and relevance in (DIAGONAL, "clip")):
        raise UsageError(
            f"corpus is None, and the relevance {described(relevance)} needs one; {HOW_CORPUS}; or give judgements as "
            "relevance: the path of a file, a table with a row a pair, {query: {item: grade}}."
        )
    return _by_diagonal(systems, captions_per_clip)


def _by_diagonal(systems: Mapping[str, OwnScores], count: int) -> Truth:
    for where, one in systems.items():
        if isinstance(one, ListedScores):
            raise ScoresError(f"{where} lists pairs and says not what answers what; {_GIVE}.")
    where, first = next(
        (pair for pair in systems.items() if not isinstance(pair[1], np.ndarray)), next(iter(systems.items()))
    )
    found = numbered(first) if isinstance(first, np.ndarray) else first
    captions, clips = list(found.caption_ids), list(found.video_ids)
    rows, columns = len(captions), len(clips)
    if rows != count * columns or not rows:
        more = f", or --captions-per-clip {rows // columns} if so many rows in turn are captions of one clip"
        wanted = f"{count} rows for each column" if count > 1 else "a square matrix"
        raise ScoresError(
            f"{where} is {_by(rows, columns)}, and without a corpus the truth is the diagonal of {wanted}, a caption a "
            f"row; {_GIVE}{more if columns and rows > columns and not rows % columns else ''}."
        )
    if captions != clips and set(captions) == set(clips):
        raise ScoresError(
            f"{where} has the same ids for rows and columns in two orders, so it has no diagonal; {_GIVE}."
        )
    own = np.repeat(np.arange(columns), count)
    pairs = pl.DataFrame({"caption_id": captions, "clip_id": [clips[place] for place in own], "text": captions})
    answer = "clip i is taken as the answer of query i"
    if count > 1:
        answer = f"{count} rows in turn are taken as the captions of a clip: clip i answers queries {count}i to "
        answer += f"{count}i + {count - 1}, from 0"
    told = f"{rows:,} queries × {columns:,} clips; no corpus given, so {answer}."
    return Truth(make_corpus(pl.DataFrame({"clip_id": clips}), pairs), "clip", DIAGONAL, (told,))


def _by_judgements(systems: Mapping[str, OwnScores], judged: Judgements) -> Truth:
    with_ids = [numbered(one) if isinstance(one, np.ndarray) else one for one in systems.values()]
    sides = [list(dict.fromkeys(one for each in with_ids for one in each.caption_ids)),
             list(dict.fromkeys(one for each in with_ids for one in each.video_ids))]  # fmt: skip
    lists_clips = any(isinstance(one, ListedScores) and one.queries == "v2t" for one in with_ids)
    if judged.are_of_clips(*sides) or (lists_clips and judged.are_of_clips(*sides[::-1]) is False):
        judged = replace(judged, pairs=judged.pairs.rename({"query": "item", "item": "query"}))
    for one in with_ids:
        judged.of(one.caption_ids, one.video_ids)  # refuses what has no id in common
    best = judged.pairs.sort("grade", descending=True, maintain_order=True).unique("query", maintain_order=True)
    captions, clips = (
        list(dict.fromkeys([*side, *judged.pairs[name]])) for side, name in zip(sides, ("query", "item"), strict=True)
    )
    own = dict(best.select("query", "item").iter_rows())
    of_clip = [own.get(one, f"{one} (not judged)") for one in captions]
    pairs = pl.DataFrame({"caption_id": captions, "clip_id": of_clip, "text": captions})
    known = make_corpus({"clip_id": list(dict.fromkeys([*clips, *of_clip]))}, pairs)
    corpus = Corpus(known.clips.head(len(clips)), known.captions)  # what is not judged is of no clip
    told = (
        f"{judged.where} names {judged.pairs.height:,} answers of {len(own):,} queries; no corpus given, so the "
        f"gallery is the {len(clips):,} clips that it and the scores name."
    )
    grades = (
        f"Its grades go up to {judged.highest:g}: nDCG has each as a gain, the others count {judged.highest:g} alone."
    )
    return Truth(corpus, judged, QRELS, (told, grades) if judged.pairs["grade"].n_unique() > 1 else (told,))


def _by(rows: int, columns: int) -> str:
    return f"{rows:,} × {columns:,}"


# Evaluation of scores on a corpus: checks, relevance, protocols, figures of all queries and of groups, notices.


@dataclass(frozen=True)
class GroupFigures:
    """Figures of the queries of one group, such as those about clips of one source."""

    name: str  # value of the column, or a band of it
    queries: int  # number of queries
    drawn: int  # number of clips (or videos) that they are of
    # figure of each metric with its interval, by the metric's name; without metrics that have no value here
    summary: dict[str, Interval]


@dataclass(frozen=True)
class GroupGap:
    """Gap between the best and the worst group in one metric."""

    best: str  # name of the best group
    worst: str  # name of the worst group
    # difference between them, at least 0, with the interval of the largest true difference of any two groups
    gap: Interval
    # chance of a studentised difference as large where no group differs, corrected for the numbers of groups and of
    # columns; None where nothing says how much chance does
    p: float | None
    chance: float | None  # gap that chance alone makes on average where no group differs
    # differences such as `de - en`, of each group and the one that was named (`COLUMN=GROUP`), query by query where a
    # clip has queries in both; their intervals hold for all pairs at once
    against: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnFigures(Shown):
    """Figures of groups by one column.

    Attributes:
        groups: figures of each group.
        gaps: gap of each metric, by its name; empty where fewer than two groups are large enough.
        notices: sentences that belong beside the figures.
    """

    groups: tuple[GroupFigures, ...]
    gaps: dict[str, GroupGap]
    notices: tuple[str, ...] = ()

    def _shown(self) -> Iterable[Sequence[object]]:
        metrics = list(next((one.summary for one in self.groups), {}))
        yield ("group", "queries", *metrics)
        for one in self.groups:
            yield one.name, one.queries, *(f"{figure.value:.2f}" for figure in one.summary.values())

    def to_frame(self) -> pl.DataFrame:
        """Return the groups as a table for a notebook: a row a group and metric, with numbers of queries and clips."""
        rows = [
            (one.name, one.queries, one.drawn, word, figure.value, figure.low, figure.high)
            for one in self.groups
            for word, figure in one.summary.items()
        ]
        names = {"group": pl.String, "queries": pl.Int64, "drawn": pl.Int64, "metric": pl.String}
        return pl.DataFrame(rows, names | dict.fromkeys(("value", "low", "high"), pl.Float64), orient="row")


@dataclass(frozen=True, eq=False)
class DirectionResult(Shown):
    """Figures of one direction over the n queries that have a relevant item.

    Attributes:
        direction: `t2v` or `v2t`.
        protocol: name of the protocol, see `EvaluationSettings`.
        query_ids: n ids of captions, or of clips where a clip is the query.
        groups: (n,) numbers, equal for queries that are resampled together: those of one clip, or of one video. The
            captions of a clip are not independent, so samples are of groups.
        per_query: (n,) columns that the metrics are computed from, and `rank`; shares in percent. Columns that need an
            item of full relevance are NaN for a query that has items of lower degrees only.
        summary: figure of each metric with its interval, by the metric's name.
        gallery_size: items that each query is ranked against.
        gallery_digest: digest of the items' ids, whatever their order; equal for systems that ranked the same items.
        hits: first hits of the queries, their `query` a place in `query_ids`; what `hit_chance` is calculated from.
            Several of a query count on average: a hit a caption under `video-mean` and `every-caption`.
        without_relevant: ids of the queries that have no item of a degree above 0; no figure includes them.
        drawn_by: name for groups in the plural: `clips`, `videos`, or values of a column.
        by: figures of groups of queries by the columns that were asked for (`EvaluationSettings.by`).
    """

    direction: Direction
    protocol: str
    query_ids: Sequence[str]
    groups: NDArray[np.int64]
    per_query: dict[str, NDArray[np.float64]]
    summary: dict[str, Interval]
    gallery_size: int
    gallery_digest: str
    hits: Hits
    without_relevant: tuple[str, ...] = ()
    drawn_by: str = "clips"
    by: dict[str, ColumnFigures] = field(default_factory=dict)

    def _shown(self) -> Iterable[Sequence[object]]:
        yield "metric", self.direction, "interval"
        yield from ((word, *shown_figure(figure)) for word, figure in self.summary.items())
        yield (f"{self.protocol}: {len(self.query_ids):,} queries among {self.gallery_size:,}",)

    @property
    def drawn(self) -> int:
        """Number of groups that intervals and tests draw from."""
        return len(np.unique(self.groups))

    def columns(self) -> dict[str, list[float]]:
        """Return the values of each query as plain lists, by the column's name."""
        return {name: values.tolist() for name, values in self.per_query.items()}

    @property
    def first_rank(self) -> NDArray[np.float64]:
        """Rank (n,) of the first relevant item, from 1; ties are ranked as the settings say."""
        return self.per_query[FIRST_RANK]

    def hit_chance(self, k: int) -> NDArray[np.float64]:
        """Compute `R@k` of each query (n,) for any k: the chance in percent of a relevant item among the first k."""
        return mean_of(self.hits.query, 100 * self.hits.chance(k), len(self.query_ids))


@dataclass(frozen=True, eq=False)
class Evaluation(Shown):
    """Figures of one system on one corpus.

    Attributes:
        directions: results by direction.
        metrics: metrics in the order of the settings.
        ties: how items with equal scores are ranked.
        relevance: name of what counts as relevant.
        confidence: confidence of the intervals.
        uses: what the scores use beside caption and video, `ScoreNotes.uses`.
        notices: sentences that belong beside the figures.
    """

    directions: dict[Direction, DirectionResult]
    metrics: tuple[Metric, ...]
    ties: Ties
    relevance: str
    confidence: float
    uses: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def _shown(self) -> Iterable[Sequence[object]]:
        yield "metric", *(head for one in self.directions for head in (one, f"{100 * self.confidence:g}% interval"))
        for word in map(str, self.metrics):
            yield word, *(cell for one in self.directions.values() for cell in shown_figure(one.summary[word]))
        for one in self.directions.values():
            yield (f"{one.direction} {one.protocol}: {len(one.query_ids):,} queries among {one.gallery_size:,}",)
        yield from ((notice,) for notice in self.notices)

    def to_json(self, *, per_query: bool = False) -> dict[str, Any]:
        """Return the evaluation as a dictionary that JSON can hold; `per_query` adds every query's values."""
        return {
            "metrics": [str(metric) for metric in self.metrics],
            "ties": self.ties,
            "relevance": self.relevance,
            "confidence": self.confidence,
            "uses": list(self.uses),
            "notices": list(self.notices),
            "directions": {
                name: {
                    "protocol": one.protocol,
                    "queries": len(one.query_ids),
                    "gallery_size": one.gallery_size,
                    "interval_over": {"what": one.drawn_by, "count": one.drawn},
                    "without_relevant": list(one.without_relevant),
                    "summary": {word: asdict(figure) for word, figure in one.summary.items()},
                    **({"by": {column: asdict(found) for column, found in one.by.items()}} if one.by else {}),
                    **({"per_query": {"id": list(one.query_ids), **one.columns()}} if per_query else {}),
                }
                for name, one in self.directions.items()
            },
        }

    def to_frame(self) -> pl.DataFrame:
        """Return the figures as a table for a notebook: `direction`, `metric`, `value`, `low` and `high`."""
        rows = [
            (direction, word, figure.value, figure.low, figure.high)
            for direction, result in self.directions.items()
            for word, figure in result.summary.items()
        ]
        names = {"direction": pl.String, "metric": pl.String}
        return pl.DataFrame(rows, names | dict.fromkeys(("value", "low", "high"), pl.Float64), orient="row")


FEWEST, FEWEST_IN_GROUP = 20, 30
"""Over fewer clips, or videos, than the first intervals cover less than they say (`benchmarks/coverage.py`); groups of
fewer than the second are shown, but are in no gap."""


def evaluate(
    scores: ScoresLike,
    corpus: CorpusLike | None = None,
    settings: EvaluationSettings | None = None,
    *,
    relevance: RelevanceLike = "clip",
    captions_per_clip: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate the scores of captions and videos: rank in both directions, and compute metrics with intervals.

    `evaluate(matrix)` takes the diagonal of a square matrix for the truth, and says so: row i is a caption of clip i.

    Nothing of the size Q x V is made: scores are read in bands of `settings.band_bytes`, each score once a direction,
    from the calling thread.

    Args:
        scores: scores of Q captions and V videos: `Scores` or any `ScoreBlocks`, a path, an array, a tensor, a
            DataFrame or a dictionary; see `ScoresLike`.
        corpus: corpus of these captions and clips, of which the split is selected first; its path, or a table of
            captions; see `CorpusLike`. None: the relevance says what answers what.
        settings: metrics, protocols, ties, intervals; see `EvaluationSettings`. None: lists that leave pairs out are
            measured in their own direction alone.
        relevance: a name of `RELEVANCE`, or degrees from 0 to 1, (Q, V) in the order of the scores' ids, as an array or
            a `Relevance`, or as a DataFrame with these ids; or judgements (qrels), whose path may be given, see
            `RelevanceLike`. Without a corpus it is judgements or the diagonal of a matrix.
        captions_per_clip: without a corpus, how many rows that follow each other are captions of one clip.
        progress: called repeatedly with the share that is done, 0 to 1.

    Returns:
        Per-query columns and figures of each direction. Every query counts exactly once; one without anything relevant
        is listed, not counted.

    Raises:
        ScoresError: the scores do not fit the corpus, hold NaN, or leave nothing to compute a metric from.
        CorpusError: the relevance needs classes, and the corpus has none.
        UsageError: an argument is of the wrong kind; the relevance is not known, has another shape, or degrees outside
            0 to 1, or needs a corpus.

    >>> import polars as pl
    >>> from evenreel.corpus import make_corpus
    >>> from evenreel.types import Scores
    >>> corpus = make_corpus(
    ...     pl.DataFrame({"clip_id": ["a", "b"]}),
    ...     pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["a ball", "a box"]}),
    ... )
    >>> found = evaluate(Scores(np.array([[0.9, 0.1], [0.5, 0.5]]), ["0", "1"], ["a", "b"]), corpus)
    >>> found.directions["t2v"].per_query["R@1"].tolist()  # the tie is right half of the time
    [100.0, 50.0]
    >>> evaluate([[0.9, 0.1], [0.5, 0.5]]).directions["t2v"].summary["R@1"].value
    75.0
    """
    check_settings_kind(settings, EvaluationSettings)
    check_progress(progress)
    given, settings = settings, settings or EvaluationSettings()
    notices: list[str] = []
    if not (allowed := whole(1)).holds(captions_per_clip):
        raise UsageError(f"captions_per_clip is {described(captions_per_clip)}; it must be {allowed.words}.")
    if corpus is None:
        where = str(scores) if isinstance(scores, (str, PathLike)) else "scores"
        own = own_scores(scores)
        truth = truth_of({where: own}, relevance, captions_per_clip)
        scores = truth.fitted(own, where, notices.append, partial=settings.partial)
        corpus, relevance, what = truth.corpus, truth.relevance, truth.name
    else:
        if captions_per_clip != 1 or (isinstance(relevance, str) and relevance == DIAGONAL):
            raise UsageError("The corpus says what belongs together; leave it out, or the diagonal and its captions.")
        corpus = as_corpus(corpus, notice=notices.append)
        if not isinstance(scores, Scores):
            scores = as_scores(scores, corpus, partial=settings.partial, notice=notices.append)
        if (judged := judgements_of(relevance)) is not None:
            relevance, what = judged, QRELS
        else:
            what = relevance if isinstance(relevance, str) else "given"
    checked = CheckedScores(scores)
    notices += _misfits(checked, corpus, settings)
    for column in settings.by:
        column_values(corpus, column)  # refuses one that is not there
    clusters = clusters_of(corpus, settings.cluster)
    notices += [clusters.notice] if clusters.chosen and clusters.notice and settings.resamples else []
    clip_of = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
    degrees = relevance_of(relevance, corpus, checked)
    directions: dict[Direction, DirectionResult] = {}
    of_lists = given is None and isinstance(scores, ListedScores)
    wanted = served(scores, notices.append) if of_lists else settings.directions
    for number, direction in enumerate(wanted):
        result = _ranked(direction, checked, degrees, clip_of, settings, part_of(progress, number, len(wanted)))
        drawn = [clip_of[one] for one in result.query_ids] if result.protocol == "caption" else result.query_ids
        result = replace(result, groups=clusters.of(drawn), drawn_by=clusters.word)
        _check_figures(result, settings.metrics)
        figures = figure_intervals(result.per_query, result.groups, settings, result.gallery_size)
        result = replace(result, summary=figures)
        by = {column: _column(result, corpus, column, settings) for column in settings.by}
        directions[direction] = replace(result, by=by)
        notices += _notices(result, settings)
    notices += infinite_scores(checked)
    uses = scores.about.uses
    return Evaluation(directions, settings.metrics, settings.ties, what, settings.confidence, uses, tuple(notices))


def _ranked(
    direction: Direction,
    scores: CheckedScores,
    relevance: Relevance,
    clip_of: Mapping[str, str],
    settings: EvaluationSettings,
    progress: Progress,
) -> DirectionResult:
    """The queries of a direction that have something to find, still without groups and figures."""
    protocol = settings.t2v_protocol if direction == "t2v" else settings.v2t_protocol
    search = Search(scores, relevance, turned=direction == "v2t")
    if protocol == "caption-group":
        groups = CaptionGroups.of([clip_of[caption] for caption in scores.caption_ids])
        search = Search(GroupedScores(scores, groups), group_relevance(relevance, groups), turned=True)
    ranked = rank_all(search, settings, progress, every=protocol == "every-caption")
    found, ids = ranked.found, list(compress(search.query_ids, ranked.found))
    columns = {name: values[found] for name, values in ranked.columns.items()}
    hits = ranked.hits.renumbered(np.cumsum(found) - 1)
    if protocol == "video-mean":  # a row a clip, with the mean over its captions
        number = {clip: place for place, clip in enumerate(dict.fromkeys(clip_of[one] for one in search.query_ids))}
        kept, place = np.unique([number[clip_of[one]] for one in ids], return_inverse=True)
        columns = {name: mean_of(place, values, len(kept)) for name, values in columns.items()}
        ids, hits = [[*number][clip] for clip in kept], hits.renumbered(place)
    without = tuple(compress(search.query_ids, ~found))
    alone = np.arange(len(ids))
    size, digest = search.gallery_size, search.gallery_digest
    return DirectionResult(direction, protocol, ids, alone, columns, {}, size, digest, hits, without)


def _check_figures(result: DirectionResult, metrics: Sequence[Metric]) -> None:
    """Refuse a result in which some metric has nothing to be a figure of."""
    what, items = ("caption", "clip") if result.direction == "t2v" else ("clip", "caption")
    if not result.query_ids:
        raise ScoresError(
            f"No {what} of the scores has a relevant {items} among them, so {result.direction} has no figure; check "
            "that captions and clips are of one split, or use another relevance."
        )
    for metric in metrics:
        if any(np.isnan(result.per_query[column]).all() for column in metric.columns):
            raise ScoresError(
                f"No {what} has a {items} of relevance 1, only of lower degrees, so {metric} has no value in "
                f"{result.direction}; ask for nDCG, which needs none, or use another relevance."
            )


def _notices(result: DirectionResult, settings: EvaluationSettings) -> list[str]:
    """Say which queries do not count, of how few clips (or videos) they are, and which recalls no order could change.

    Clusters of unequal size count as `intervals.effective` says.
    """
    what, notices = "captions" if result.direction == "t2v" else "clips", []
    if missing := result.without_relevant:
        notices.append(
            f"{result.direction}: {len(missing):,} {what} have nothing relevant among the scores and are in no figure, "
            f"the first {missing[0]!r}."
        )
    if unknown := int(np.isnan(result.first_rank).sum()):
        notices.append(
            f"{result.direction}: {unknown:,} of {len(result.query_ids):,} queries have nothing of relevance 1, only "
            "lower degrees; they count in nDCG alone."
        )
    as_many = effective(np.unique(result.groups, return_counts=True)[1].astype(np.float64))
    if settings.resamples and as_many < FEWEST:
        few = f"are too few ({result.drawn})"
        unequal = f"differ so much in size that the {result.drawn:,} are as sure as {as_many:.1f} of one size"
        notices.append(
            f"{result.direction}: the {result.drawn_by} that the queries are of "
            f"{few if result.drawn < FEWEST else unequal}; intervals hold from about {FEWEST} on, so do not rely on "
            "these."
        )
    cuts = {metric: [int(one[2:]) for one in metric.columns if one.startswith("R@")] for metric in settings.metrics}
    if found := ", ".join(str(one) for one, own in cuts.items() if max(own, default=0) >= result.gallery_size):
        notices.append(
            f"{result.direction}: the gallery has {result.gallery_size:,} items, so {found} would count all of them in "
            "any order; choose a k below that."
        )
    return notices


def infinite_scores(scores: CheckedScores) -> list[str]:
    """Name the first score of plus infinity that was read, in a sentence."""
    if scores.infinite is None:
        return []
    caption, video = scores.infinite
    return [
        f"The score of caption {caption!r} and video {video!r} is plus infinity, and others may be: they tie ahead of "
        "all finite ones, in whatever order. Half precision overflows to it; check what calculates the scores."
    ]


def _misfits(scores: CheckedScores, corpus: Corpus, settings: EvaluationSettings) -> list[str]:
    """Notices about what the scores leave out; unknown and repeated ids, and gaps unless `partial`, are errors."""
    notices = []
    for ids, known, what, searched in (
        (scores.caption_ids, corpus.captions["caption_id"].to_list(), "caption", "v2t"),
        (scores.video_ids, corpus.clips["clip_id"].to_list(), "clip", "t2v"),
    ):
        scored, there = set(ids), set(known)
        if strangers := [one for one in ids if one not in there]:
            raise ScoresError(
                f"The scores are of {what} {strangers[0]!r}, which the corpus does not have ({len(strangers):,} such "
                f"{what}s in all); give the corpus, or the split, that they were made for."
            )
        if missing := [one for one in known if one not in scored]:
            sentence = (
                f"{len(missing):,} of {len(known):,} {what}s of the corpus have no scores, the first {missing[0]!r}"
            )
            if not settings.partial:
                scored_parts = ", ".join(map(repr, splits_of(corpus, scores.video_ids)))
                which = f" ({scored_parts})" if scored_parts else ""
                raise ScoresError(
                    f"{sentence}; score them, select the split that was scored{which}, or ask for a partial evaluation."
                )
            smaller = searched in settings.directions
            notices.append(
                f"{sentence}{f'; a smaller gallery makes every figure of {searched} look better' if smaller else ''}."
            )
    return notices


# Groups of queries by a column


def _column(result: DirectionResult, corpus: Corpus, column: str, settings: EvaluationSettings) -> ColumnFigures:
    """Figures of each group of queries, and gaps between the large ones; or a notice why there are none."""
    where = f"{result.direction} by {column}:"
    try:
        found = query_groups(corpus, column, result.query_ids, of_captions=result.protocol == "caption")
    except CorpusError as error:
        return ColumnFigures((), {}, (f"{where} {error}",))
    groups, told = [], []
    for place, name in enumerate(found.names):
        own = found.number == place
        columns = {word: values[own] for word, values in result.per_query.items()}
        known = [one for one in settings.metrics if not any(np.isnan(columns[word]).all() for word in one.columns)]
        asked = replace(settings, metrics=tuple(known)) if known else None
        summary = figure_intervals(columns, result.groups[own], asked, result.gallery_size) if asked else {}
        groups.append(GroupFigures(name, int(own.sum()), len(np.unique(result.groups[own])), summary))
    large = [place for place, one in enumerate(groups) if one.drawn >= FEWEST_IN_GROUP]
    if missing := int((found.number < 0).sum()):
        told.append(f"{where} {missing:,} of {len(found.number):,} queries have no value there and are in no group.")
    if few := [one for one in groups if one.drawn < FEWEST_IN_GROUP]:
        named = ", ".join(f"{one.name} ({one.drawn})" for one in few[:5])
        rest = f" and {len(few) - 5} more" if len(few) > 5 else ""
        told.append(
            f"{where} {named}{rest}: fewer than {FEWEST_IN_GROUP} {result.drawn_by}, so do not rely on these figures; "
            "they are in no gap."
        )
    if len(large) < 2:
        many = "only one group has" if large else "no group has"
        told.append(f"{where} {many} {FEWEST_IN_GROUP} {result.drawn_by}, so there is no gap to compute.")
    if found.against and found.against not in {found.names[place] for place in large}:
        told.append(f"{where} it is no large group, so nothing is compared with it.")
    gaps = {str(one): _gap(one, result, found, large, settings) for one in settings.metrics} if len(large) > 1 else {}
    return ColumnFigures(tuple(groups), {word: gap for word, gap in gaps.items() if gap}, tuple(told))


def _gap(
    metric: Metric, result: DirectionResult, found: QueryGroups, large: list[int], settings: EvaluationSettings
) -> GroupGap | None:
    """The gap of a metric among large groups; None where the metric has no value in one of them.

    Only the mean of values of queries has bands; of medians and geometric means there is the gap alone.
    """
    known = np.isin(found.number, large) & ~np.any([np.isnan(result.per_query[one]) for one in metric.columns], axis=0)
    number = np.searchsorted(large, found.number[known])
    if len(np.unique(number)) < len(large):
        return None
    columns = {name: result.per_query[name][known] for name in metric.columns}
    figures = [
        float(metric.summary({name: values[number == place] for name, values in columns.items()})[0])
        for place in range(len(large))
    ]
    order = np.argsort(figures, kind="stable")[:: -1 if metric.higher_is_better else 1]
    best, worst = int(order[0]), int(order[-1])
    names = found.names[large[best]], found.names[large[worst]]
    gap, bands = abs(figures[best] - figures[worst]), None
    if settings.resamples and metric.is_of_means and metric.name != "GeoR":
        spread = Spread.of(np.sum(list(columns.values()), axis=0), number, result.groups[known])
        confidence = 1 - (1 - settings.confidence) / len(settings.by)
        bands = bands_of(spread, settings.resamples, settings.seed, confidence)
    if bands is None:
        return GroupGap(*names, Interval(gap), None, None)
    low, high = bands.ends
    most = np.inf if metric.is_rank else 100.0 * len(metric.columns)
    differences, every = {}, [found.names[place] for place in large]
    if found.against in every:
        base = every.index(found.against)
        for place, name in enumerate(every):
            apart, wide = figures[place] - figures[base], bands.reach * bands.errors[place, base]
            if place != base:
                differences[f"{name} - {found.against}"] = around(apart, apart - wide, apart + wide, (-most, most))
    p = min(1.0, bands.p * len(settings.by))
    return GroupGap(*names, around(gap, low, high, (0.0, most)), p, bands.chance, differences)
