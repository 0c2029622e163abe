"""Confounders of a domain: vectors of what its clips tend to show (TITAN, MM 2023, section 3.3).

The paper takes features of things and actions that three pretrained detectors find in the clips of a domain, and says
neither how many nor which. Here any table of vectors will do. Made from features alone are the phrases of a scene
dictionary that the domain's clips are most like, which has things and actions too, and the centres of their frames.
Both domains use one method, so that the two dictionaries differ by what is shown and not by how it was found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.corpus.array_files import ArrayArchive, load_array
from evenreel.errors import UsageError
from evenreel.features.scene_elements import EmbeddedDictionary, clip_means, top_of_means
from evenreel.types import FloatArray, VideoFeatures

COUNT = 256
"""Confounders of a domain; the paper does not say how many it has."""

KAPPA = 20
"""Phrases of each kind that a clip has, as in BiMa."""

MOST_FRAMES = 65_536
"""Frames that centres are taken of; of more, so many are drawn."""

SUFFIXES = (".npy", ".npz", ".safetensors")


class Phrases(NamedTuple):
    """Confounders that are phrases of a scene dictionary.

    Attributes:
        vectors: (N, d) vectors of the phrases, of unit length.
        names: the N phrases, the most frequent first.
        clips: for each phrase, number of clips that have it among their nearest.
    """

    vectors: FloatArray
    names: tuple[str, ...]
    clips: tuple[int, ...]


def read_confounders(path: Path, width: int | None = None) -> FloatArray:
    """Read confounders from a `.npy` file, or from the only table of an `.npz` or `.safetensors`; never pickled ones.

    Args:
        path: path of the file.
        width: length d that they must have; None for any.

    Returns:
        (N, d) confounders, float32, of unit length.

    Raises:
        UsageError: the file cannot be read, holds no such table, or a row is zero or not finite.
    """
    table = _table(path)
    if table.ndim != 2 or not table.size or not np.issubdtype(table.dtype, np.number) or np.iscomplexobj(table):
        raise UsageError(
            f"{path} holds an array of {table.dtype} with the shape {table.shape}; confounders are N rows of d numbers."
        )
    if width is not None and table.shape[1] != width:
        raise UsageError(
            f"The confounders in {path} have {table.shape[1]:,} numbers each, and {width:,} are needed, as the "
            "source's have; make both by one method."
        )
    return _unit(table, f"of {path}")


def phrase_confounders(videos: VideoFeatures, embedded: EmbeddedDictionary, count: int = COUNT) -> Phrases:
    """Select the dictionary phrases that most clips of a domain have among their nearest.

    Half are entities and half activities, or more of one kind where there are too few of the other.

    Args:
        videos: features of clips of the domain.
        embedded: a scene dictionary by the encoder of the clips.
        count: number N of phrases; fewer where the clips are near fewer.

    Raises:
        UsageError: the count is less than 1.
        FeaturesError: the dictionary is of another length, or the frames of a clip cancel out.
    """
    _check_count(count)
    top = top_of_means(clip_means(videos), embedded, KAPPA, videos.ids)
    kinds = (
        (top.entities, embedded.entities, embedded.dictionary.entities),
        (top.activities, embedded.activities, embedded.dictionary.activities),
    )
    frequent = [_frequent(places, len(names)) for places, _, names in kinds]
    shares = _halves(count, len(frequent[0]), len(frequent[1]))
    rows = [
        (counts, vectors[place], names[place])
        for (_, vectors, names), found, share in zip(kinds, frequent, shares, strict=True)
        for place, counts in found[:share]
    ]
    rows.sort(key=lambda row: -row[0])
    return Phrases(np.stack([row[1] for row in rows]), tuple(row[2] for row in rows), tuple(row[0] for row in rows))


def frame_confounders(videos: VideoFeatures, count: int = COUNT, seed: int = 0) -> FloatArray:
    """Compute confounders as cluster centres of a domain's frames, by k-means in mini-batches.

    Args:
        videos: features of clips of the domain.
        count: number N of centres; fewer where there are fewer distinct frames.
        seed: seed of the frames that are drawn where there are more than `MOST_FRAMES`, and of initial centres.

    Returns:
        (N, D) centres, float32, of unit length.

    Raises:
        UsageError: the count is less than 1.
    """
    from sklearn.cluster import MiniBatchKMeans

    _check_count(count)
    clips, places = np.nonzero(videos.frame_mask)
    if len(clips) > MOST_FRAMES:
        drawn = np.sort(np.random.default_rng(seed).choice(len(clips), MOST_FRAMES, replace=False))
        clips, places = clips[drawn], places[drawn]
    frames = _unit(videos.frames[clips, places], "of the frames")
    fitted = MiniBatchKMeans(_distinct(frames, count), batch_size=1024, n_init=3, random_state=seed).fit(frames)
    return _unit(fitted.cluster_centers_, "of the centres")


def _distinct(rows: FloatArray, most: int) -> int:
    """How many rows differ; `most` if these are as many or more."""
    seen = set[bytes]()
    for row in rows:
        seen.add(row.tobytes())
        if len(seen) == most:
            break
    return len(seen)


def _table(path: Path) -> NDArray[Any]:
    """The array of a file, whatever it is."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path} ends in none of {', '.join(SUFFIXES)}, so nobody knows how to read it.")
    try:
        if path.suffix == ".safetensors":
            import torch
            from safetensors.torch import load

            tensors = load(path.read_bytes())  # numpy has no bfloat16
            held: dict[str, NDArray[Any]] = {
                name: (rows.float() if rows.dtype == torch.bfloat16 else rows).numpy() for name, rows in tensors.items()
            }
        else:
            if path.suffix == ".npy":
                return load_array(path)
            with ArrayArchive(path) as archive:
                held = archive.read_all()
    except Exception as error:  # a damaged header can fail in any way in the parser
        raise UsageError(f"The confounders in {path} cannot be read ({error}).") from error
    if len(held) != 1:
        raise UsageError(f"{path} holds {len(held)} arrays ({', '.join(sorted(held)[:5])}); give a file with one.")
    return next(iter(held.values()))


def _unit(rows: NDArray[Any], of: str) -> FloatArray:
    values = rows.astype(np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    if len(bad := np.flatnonzero(~np.isfinite(lengths[:, 0]) | ~(lengths[:, 0] > 0))):
        raise UsageError(f"Row {bad[0]:,} {of} is zero or not all numbers; leave it out, or compute it again.")
    return np.asarray(values / lengths, np.float32)


def _frequent(places: NDArray[np.int32], phrases: int) -> list[tuple[int, int]]:
    """Places of the phrases that clips have, and of how many each is, the most frequent first."""
    counts = np.bincount(places.ravel(), minlength=phrases)
    order = np.argsort(-counts, kind="stable")
    return [(int(place), int(counts[place])) for place in order if counts[place]]


def _halves(count: int, first: int, second: int) -> tuple[int, int]:
    """How many of each kind.

    >>> _halves(10, 100, 100), _halves(10, 2, 100), _halves(10, 100, 0), _halves(10, 3, 4)
    ((5, 5), (2, 8), (10, 0), (3, 4))
    """
    of_second = min(second, max(count // 2, count - first))
    return min(first, count - of_second), of_second


def _check_count(count: int) -> None:
    if count < 1:
        raise UsageError(f"The number of confounders is {count}; it must be 1 or more.")
