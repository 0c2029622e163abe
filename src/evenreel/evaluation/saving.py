"""Scores of any system, written to files."""

from __future__ import annotations

import zipfile
from os import PathLike
from typing import IO

import numpy as np

from evenreel.config import as_path
from evenreel.errors import UsageError
from evenreel.evaluation.accepted import ScoresLike, as_scores
from evenreel.evaluation.blocks import as_blocks
from evenreel.evaluation.trec import check_numbers, query_bands
from evenreel.files import output_file
from evenreel.progress import Progress
from evenreel.types import ScoreBlocks


def save_scores(scores: ScoresLike, path: str | PathLike[str], progress: Progress = lambda share: None) -> None:
    """Save scores to an `.npz`, with ids and what the scores use, or the values alone to an `.npy`.

    Scores are read and written a band of captions at a time, so the table may be larger than memory. An existing file
    is replaced whole.

    Args:
        scores: scores to write, with their ids; see `ScoresLike`.
        path: path of the file.
        progress: called repeatedly with the share that is done, 0 to 1.

    Raises:
        ScoresError: a score is NaN.
        OutputError: the file cannot be written.
        UsageError: an argument is of the wrong kind; the name ends neither in `.npz` nor in `.npy`, or in `.npy` though
            the scores use something.
    """
    path = as_path(path, "path")
    scores = as_blocks(as_scores(scores))
    if path.suffix not in (".npz", ".npy"):
        raise UsageError(f"{path} ends neither in .npz nor in .npy, which is what scores are saved as.")
    uses = scores.about.uses
    if uses and path.suffix == ".npy":
        raise UsageError(
            f"The scores use {' and '.join(uses)}, which an .npy cannot say; save them as .npz, not {path}."
        )
    with output_file(path) as part, part.open("wb") as file:
        if path.suffix == ".npy":
            _write_values(file, scores, progress)
        else:
            _write_arrays(file, scores, progress)


def _write_arrays(file: IO[bytes], scores: ScoreBlocks, progress: Progress) -> None:
    """What `np.savez` writes, which would need all values at once."""
    words = (scores.caption_ids, scores.video_ids, scores.about.uses)
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open("values.npy", "w", force_zip64=True) as member:
            _write_values(member, scores, progress)
        for name, row in zip(("caption_ids", "video_ids", "uses"), words, strict=True):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.array(row, dtype=np.str_), allow_pickle=False)


def _write_values(file: IO[bytes], scores: ScoreBlocks, progress: Progress) -> None:
    queries, items = scores.caption_ids, scores.video_ids
    kind = scores.block(slice(0, 0), slice(0, len(items))).dtype
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (len(queries), len(items))}
    np.lib.format.write_array_header_1_0(file, header)
    for start, band in query_bands(scores.block, (len(queries), len(items))):
        check_numbers(band, start, queries, items)
        file.write(np.ascontiguousarray(band).data)
        progress((start + len(band)) / len(queries))
