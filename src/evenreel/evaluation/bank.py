"""Scores of a bank of other captions, or other clips, for corrections such as QB-Norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import ScoresError
from evenreel.evaluation.scores import check_file, check_matrix, read_arrays, read_matrix, row_of_text


@dataclass(frozen=True, eq=False)
class Bank:
    """Scores of captions with clips of which one side, or both, are others than those that are evaluated.

    Attributes:
        values: (captions, clips) scores.
        caption_ids: ids of the rows; None where the file names none.
        video_ids: ids of the columns; None where the file names none.
    """

    values: NDArray[Any]
    caption_ids: tuple[str, ...] | None = None
    video_ids: tuple[str, ...] | None = None

    def notice(self, asked: Sequence[str], what: str = "caption") -> str:
        """Return a sentence if some queries of the bank are among those that are evaluated; empty otherwise."""
        ids = self.caption_ids if what == "caption" else self.video_ids
        own = set(ids or ()).intersection(asked)
        if not own:
            return ""
        return (
            f"Of {len(ids or ()):,} {what}s of the bank {len(own):,} are {what}s that are evaluated, the first "
            f"{next(one for one in asked if one in own)!r}: the correction has seen the queries of the test, which "
            f"makes its figures too good; give a bank of other {what}s, such as those of training."
        )


def load_bank(path: Path, video_ids: Sequence[str] | None = None, caption_ids: Sequence[str] | None = None) -> Bank:
    """Load the scores of a bank, with rows and columns in the order of the ids that are given."""
    check_file(path)
    if path.suffix.lower() == ".npy":
        return Bank(read_matrix(path))
    arrays, wanted = read_arrays(path), {"caption_ids": caption_ids, "video_ids": video_ids}
    asked = ["values", *(name for name, ids in wanted.items() if ids is not None)]
    if any(name not in arrays for name in asked):
        raise ScoresError(f"{path} has no arrays {' and '.join(asked)} (it has: {', '.join(arrays) or 'none'}).")
    check_matrix(path, arrays["values"])
    values, found = arrays["values"], {}
    for axis, (name, ids) in enumerate(wanted.items()):
        if name in arrays:
            own = row_of_text(path, name, arrays[name])
            values, found[name] = _in_order(path, values, axis, own, ids)
    return Bank(np.asarray(values), found.get("caption_ids"), found.get("video_ids"))


def _in_order(
    path: Path, values: NDArray[Any], axis: int, own: list[str], wanted: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """The values with one axis in the order that is wanted, and its ids."""
    what, place = ("caption", "clip")[axis], {one: number for number, one in enumerate(own)}
    if missing := [one for one in wanted or () if one not in place]:
        raise ScoresError(f"{path} has no scores for the {what} {missing[0]!r} ({len(missing):,} missing in all).")
    if values.shape[axis] != len(place):
        side = ("caption", "video")[axis]
        raise ScoresError(f"{path} has values of {values.shape} for {len(place):,} different {side} ids.")
    if wanted is None:
        return values, tuple(own)
    return values.take([place[one] for one in wanted], axis=axis), tuple(wanted)
