"""What answers a caption: rules by name, degrees or judgements that were given, or the diagonal of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from evenreel.config import described
from evenreel.corpus.accepted import HOW_CORPUS
from evenreel.corpus.dataframes import ArrowTable, as_dataframe, is_dataframe
from evenreel.corpus.relevance import GradedPairs, Relevance, RelevantPairs, class_relevance, own_clip, same_text
from evenreel.corpus.tables import make_corpus
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.ranking import CheckedScores, GivenRelevance, aligned, as_table
from evenreel.evaluation.scores import (
    ITEM_NAMES,
    JUDGED,
    QUERY_NAMES,
    ListedScores,
    Notice,
    OwnScores,
    column_of,
    from_table,
    lists_pairs,
    numbered,
    read_document,
    tell_of_gaps,
    words_of,
)
from evenreel.types import Corpus, ScoreBlocks, Scores

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

DIAGONAL = "diagonal"
"""Relevance of a matrix of scores without a corpus: row and column of one number belong together."""

QRELS = "qrels"
"""Relevance by judgements."""

_GRADES = ("grade", "relevance", "rel", "label", "score")
_HOW = (
    f"give one of {', '.join(RELEVANCE)}, degrees from 0 to 1, a caption a row and a video a column, or judgements: "
    "the path of a file, a table with a row a pair, {query: {item: grade}}"
)
_GIVE = "give --qrels FILE or --corpus FOLDER (in Python relevance=FILE, or a corpus)"


@dataclass(frozen=True, eq=False)
class Judgements:
    """Relevance judgements (qrels): a degree of relevance for each pair that was judged relevant; others have none.

    Attributes:
        pairs: a row a pair, `query`, `item` and `grade`, a whole number from 1, or another number above 0.
        where: name of the judgements, for messages.
    """

    pairs: pl.DataFrame
    where: str

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
        from evenreel.corpus.formats.plain_tables import read_table  # few judgements are one

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
    degrees = cast("Relevance", relevance) if own else GivenRelevance(_degrees(relevance, scores))
    size = (len(scores.caption_ids), len(scores.video_ids))
    if degrees.shape != size:
        raise UsageError(f"The relevance has the shape {degrees.shape}; it must be that of the scores, {size}.")
    return degrees


def _degrees(given: object, scores: CheckedScores) -> NDArray[Any]:
    """Degrees (Q, V) in the order of the scores."""
    if is_dataframe(given):
        table = as_dataframe(given, "relevance", _HOW, keep_index=True)
        found = from_table("relevance", table, None)
        if not isinstance(found, Scores):
            return cast("NDArray[Any]", found)
        whole = slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids))
        return aligned(found, scores).block(*whole)
    is_table = isinstance(given, (list, tuple)) or any(hasattr(given, part) for part in ("__array__", "detach"))
    if not is_table or isinstance(given, type):
        raise UsageError(f"relevance is {described(given)}; {_HOW}.")
    return as_table(given, "The degrees of relevance")


@dataclass(frozen=True, eq=False)
class Truth:
    """What answers what where there is no corpus: by the diagonal of a matrix, or by judgements.

    Attributes:
        corpus: captions and clips of the scores and of the judgements, each called by its id.
        relevance: what `evaluate` takes with it.
        name: name of that relevance, a key of `evenreel.report.words.RELEVANCES`.
        notices: sentences on what was taken for the truth.
    """

    corpus: Corpus
    relevance: RelevanceName | Judgements
    name: str
    notices: tuple[str, ...]

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
