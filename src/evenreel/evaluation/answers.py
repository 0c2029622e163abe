"""What answers a caption: the rules by name, degrees that were given, or the diagonal of a square table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, cast

import polars as pl
from numpy.typing import ArrayLike, NDArray

from evenreel.config import described
from evenreel.corpus.accepted import HOW_CORPUS, CorpusLike
from evenreel.corpus.dataframes import ArrowTable, as_dataframe, is_dataframe
from evenreel.corpus.relevance import Relevance, class_relevance, own_clip, same_text
from evenreel.corpus.tables import make_corpus
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.accepted import ScoresLike, numbered_scores
from evenreel.evaluation.blocks import CheckedScores, GivenRelevance, aligned
from evenreel.evaluation.fitted import from_table, lists_pairs
from evenreel.evaluation.matrices import as_table
from evenreel.types import Corpus, ScoreBlocks, Scores

RelevanceName = Literal["clip", "text", "classes", "classes-iou"]

RelevanceLike: TypeAlias = (
    "RelevanceName | Literal['diagonal'] | Relevance | ArrayLike | pl.DataFrame | pl.LazyFrame | ArrowTable"
)
"""What is taken for relevance: a name of `RELEVANCE`, `diagonal`, a `Relevance`, or degrees (Q, V) from 0 to 1 as an
array, a tensor, a list of lists, or a table with the ids of the scores."""

RELEVANCE: dict[RelevanceName, Callable[[Corpus, Sequence[str], Sequence[str]], Relevance]] = {
    "clip": own_clip,
    "text": same_text,
    "classes": class_relevance,
    "classes-iou": lambda corpus, captions, videos: class_relevance(corpus, captions, videos, "iou"),
}
"""What answers a caption: its own clip; every clip with a caption of the same text; degrees from verb and noun
classes, verbs equal or by intersection over union."""

DIAGONAL = "diagonal"
"""Relevance of a square table of scores without a corpus: row and column of one number belong together."""

_HOW = f"give one of {', '.join(RELEVANCE)}, or degrees from 0 to 1, a caption a row and a video a column"


def relevance_of(relevance: RelevanceLike, corpus: Corpus, scores: CheckedScores) -> Relevance:
    """Return the relevance (Q, V) of the captions and videos of scores, in their order.

    Raises:
        UsageError: it is not known, has another shape than the scores, or degrees outside 0 to 1.
        ScoresError: it is a table that lacks a caption or a video of the scores, or holds no numbers.
    """
    if isinstance(relevance, str):
        if relevance not in RELEVANCE:
            raise UsageError(f"{relevance!r} is no kind of relevance; there are: {', '.join(RELEVANCE)}.")
        return RELEVANCE[relevance](corpus, scores.caption_ids, scores.video_ids)
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
        if lists_pairs(table):  # what is not listed would be of no known degree
            raise UsageError(f"relevance is a table with a row a pair; {_HOW}.")
        found = from_table("relevance", table, None)
        if not isinstance(found, Scores):
            return cast("NDArray[Any]", found)
        whole = slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids))
        return aligned(found, scores).block(*whole)
    is_table = isinstance(given, (list, tuple)) or any(hasattr(given, part) for part in ("__array__", "detach"))
    if not is_table or isinstance(given, type):
        raise UsageError(f"relevance is {described(given)}; {_HOW}.")
    return as_table(given, "The degrees of relevance")


def on_diagonal(scores: ScoresLike, corpus: CorpusLike | None, relevance: object) -> tuple[ScoreBlocks, Corpus]:
    """Return square scores with the corpus that their diagonal means: each row's caption is of its column's video.

    Rows and columns without ids are called by their numbers, `0`, `1` and so on.

    Raises:
        UsageError: there is a corpus, which says what belongs together; or the relevance is another one.
        ScoresError: the scores are not square.
    """
    if not (isinstance(relevance, str) and relevance == DIAGONAL):
        raise UsageError(
            f"corpus is None; {HOW_CORPUS}; or say relevance={DIAGONAL!r} where the caption of each row is of the "
            "video in the column of the same number."
        )
    if corpus is not None:
        raise UsageError(f"The corpus says what belongs together; leave it out, or relevance={DIAGONAL!r}.")
    found = numbered_scores(scores)
    captions, videos = list(found.caption_ids), list(found.video_ids)
    if len(captions) != len(videos):
        raise ScoresError(
            f"The scores are of {len(captions):,} captions and {len(videos):,} videos, and only a square table has a "
            "diagonal; give a corpus, which says what belongs together."
        )
    pairs = pl.DataFrame({"caption_id": captions, "clip_id": videos, "text": captions})
    return found, make_corpus(pl.DataFrame({"clip_id": videos}), pairs)
