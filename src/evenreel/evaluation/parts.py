"""Selection of the scores of a part of a corpus, such as one split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from evenreel.arrays import Indices
from evenreel.corpus.tables import splits_of
from evenreel.errors import ScoresError
from evenreel.evaluation.listed import ListedScores
from evenreel.types import Corpus, Scores
from evenreel.wording import count


def cut_to(
    part: Corpus, scores: Scores | ListedScores, whole: Corpus, path: Path, notice: Callable[[str], object]
) -> Scores | ListedScores:
    """Select the scores of a part of a corpus; captions and clips of other parts are left out.

    Adjacent rows and columns, as those of a split mostly are, are not copied from a memory-mapped table.
    """
    rows = _places(scores.caption_ids, part.captions["caption_id"])
    columns = _places(scores.video_ids, part.clips["clip_id"])
    captions, clips = len(scores.caption_ids) - len(rows), len(scores.video_ids) - len(columns)
    if not captions and not clips:
        return scores
    if not len(rows) or not len(columns):
        raise ScoresError(_of_another_part(path, scores, whole, "captions" if not len(rows) else "clips"))
    notice(_left_out(captions, clips, scores.about.uses))
    return _cut_lists(scores, rows, columns) if isinstance(scores, ListedScores) else _cut_table(scores, rows, columns)


def _places(ids: Sequence[str], kept: pl.Series) -> Indices:
    """Where those that are kept are among the ids, ascending."""
    return np.flatnonzero(pl.Series(ids, dtype=pl.String).is_in(kept.implode()).to_numpy())


def _cut_table(scores: Scores, rows: Indices, columns: Indices) -> Scores:
    values = scores.values[_together(rows)][:, _together(columns)]
    return Scores(values, _chosen(scores.caption_ids, rows), _chosen(scores.video_ids, columns), scores.about)


def _cut_lists(scores: ListedScores, rows: Indices, columns: Indices) -> ListedScores:
    row, column = (
        _new_places(kept, len(ids))[listed]
        for kept, ids, listed in (
            (rows, scores.caption_ids, scores.rows),
            (columns, scores.video_ids, scores.columns),
        )
    )
    kept = (row >= 0) & (column >= 0)
    return replace(
        scores,
        rows=row[kept],
        columns=column[kept],
        values=scores.values[kept],
        caption_ids=_chosen(scores.caption_ids, rows),
        video_ids=_chosen(scores.video_ids, columns),
    )


def _together(places: Indices) -> slice | Indices:
    """The places as a slice where they have no gap, so that numpy makes a view."""
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


def _new_places(kept: Indices, size: int) -> Indices:
    """(size,) the place of each one among those that are kept, -1 for the others."""
    found = np.full(size, -1, dtype=np.int64)
    found[kept] = np.arange(len(kept))
    return found


def _chosen(ids: Sequence[str], places: Indices) -> list[str]:
    return [ids[place] for place in places]


def _left_out(captions: int, clips: int, uses: tuple[str, ...]) -> str:
    others = " and ".join(count(one, word) for one, word in ((captions, "caption"), (clips, "clip")) if one)
    known = " What they use was of the whole gallery, so better score the part alone." if uses else ""
    return f"The file also has scores of {others} of other parts of the corpus, which are left out.{known}"


def _of_another_part(path: Path, scores: Scores | ListedScores, whole: Corpus, what: str) -> str:
    """The sentence for scores of which nothing is left, with the splits that they are of."""
    if what == "clips":
        clips = scores.video_ids
    else:
        asked = pl.col("caption_id").is_in(pl.Series(scores.caption_ids, dtype=pl.String).implode())
        clips = whole.captions.filter(asked)["clip_id"].to_list()
    splits = splits_of(whole, clips)
    of = f"its {what} are of {' and '.join(map(repr, splits))}" if splits else f"its {what} are of other parts"
    return f"{path} has no scores of {what} of the part that is asked for: {of}; choose that, or score this part."
