"""Scores of a bank of other captions with the clips of the gallery, for corrections such as QB-Norm."""

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
    """Scores of N bank captions (queries other than those to be ranked) with the V clips of a gallery.

    Attributes:
        values: (N, V) scores, columns in the order of the gallery.
        caption_ids: N ids; None where the file names none.
    """

    values: NDArray[Any]
    caption_ids: tuple[str, ...] | None = None

    def notice(self, asked: Sequence[str]) -> str:
        """Return a sentence if some captions of the bank are among the queries (`asked`, ids); empty otherwise."""
        own = set(self.caption_ids or ()).intersection(asked)
        if not own:
            return ""
        return (
            f"Of {len(self.values):,} captions of the bank {len(own):,} are captions that are evaluated, the first "
            f"{next(one for one in asked if one in own)!r}: the correction has seen the queries of the test, which "
            "makes its figures too good; give a bank of other captions, such as those of training."
        )


def load_bank(path: Path, video_ids: Sequence[str]) -> Bank:
    """Load the scores of a bank's captions, with columns in the order of `video_ids`.

    Args:
        path: `.npz` with `values` and `video_ids`, whose columns are put in order by their ids, and perhaps
            `caption_ids`; or `.npy`, whose columns must be in this order already.
        video_ids: V ids of the gallery.

    Raises:
        ScoresError: the file cannot be read, holds no numbers, or lacks a clip of the gallery.
    """
    check_file(path)
    if path.suffix.lower() == ".npy":
        return Bank(read_matrix(path))
    arrays = read_arrays(path)
    if "values" not in arrays or "video_ids" not in arrays:
        raise ScoresError(f"{path} has no arrays values and video_ids (it has: {', '.join(arrays) or 'none'}).")
    check_matrix(path, arrays["values"])
    place = {one: column for column, one in enumerate(row_of_text(path, "video_ids", arrays["video_ids"]))}
    if missing := [one for one in video_ids if one not in place]:
        raise ScoresError(f"{path} has no scores for the clip {missing[0]!r} ({len(missing):,} missing in all).")
    if arrays["values"].shape[1] != len(place):
        raise ScoresError(f"{path} has values of {arrays['values'].shape} for {len(place):,} different video ids.")
    captions = row_of_text(path, "caption_ids", arrays["caption_ids"]) if "caption_ids" in arrays else None
    values = np.asarray(arrays["values"][:, [place[one] for one in video_ids]])
    return Bank(values, None if captions is None else tuple(captions))
