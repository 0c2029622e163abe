"""Storing features that others computed in a folder that is read like one of our own.

One or several streams (RGB, flow, audio, ...) stand side by side in every frame. Captions have no features there: they
are for matchers that read the words themselves.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from evenreel.config import as_path, check_corpus, check_kind
from evenreel.errors import FeaturesError, MediaError
from evenreel.features.folder import remove_leftovers, store
from evenreel.features.manifest import (
    MANIFEST,
    FeatureReport,
    FeatureSet,
    FeatureStream,
    Manifest,
    clips_of,
    manifest_beside,
    put_manifest,
)
from evenreel.features.pool import SetAside, writer_lock
from evenreel.features.settings import FLOAT32, STORED, stored_rule
from evenreel.features.stored.clips import INDEX, MATRICES, MatrixRows, StoredIndex, joined, read_index
from evenreel.features.stored.files import ArrayPlace, opened
from evenreel.files import replacing
from evenreel.progress import Progress
from evenreel.types import Corpus

_LOOKED_AT = 25
"""Clips whose arrays are looked at for the length that those of a stream have."""


@dataclass(frozen=True)
class StoredSettings:
    """Settings of storing arrays as features.

    Attributes:
        name: name of the features; test features have the same name as those that were trained on.
        streams: places of each stream's arrays by its name, see `evenreel.features.stored.files.opened`; of two places
            that have a clip the first one is used. Columns go by name, in whatever order the streams are given.
        frames: most frames of a clip, `round(linspace(0, T - 1, frames))` of its T, as HGR does; None for all.
        ids: files that name the rows of arrays, see `opened`.
    """

    name: str
    streams: Mapping[str, Sequence[Path]]
    frames: int | None = None
    ids: tuple[Path, ...] = ()


def store_features(
    corpus: Corpus, folder: str | PathLike[str], settings: StoredSettings, progress: Progress = lambda share: None
) -> FeatureReport:
    """Write the arrays of a corpus's clips into a folder of features, whole or not at all.

    Rows of each stream are brought to unit length, and those of all streams together again, so that each has the same
    share whatever numbers it is given in, and leaving one out (`data.streams` of a recipe) keeps the others' shares.
    One vector (D,) of a whole clip stands in each of its frames. Frames that are zero in all streams are padding and no
    frames. A clip is set aside that has no array in one of the streams, rows of another length than most, numbers that
    are not finite, or streams of unequally many frames. One clip is held at a time.

    Args:
        corpus: the clips.
        folder: folder of the features; those of the same name and streams that are there are replaced.
        settings: the arrays.
        progress: called with the share of the clips that are done.

    Raises:
        FeaturesError: no clip can be used, the folder holds other features, or cannot be written.
        UsageError: a place of arrays has no known form.
    """
    check_corpus(corpus)
    folder = as_path(folder, "folder")
    check_kind(settings, StoredSettings, "settings", "give StoredSettings(...)")
    started = time.monotonic()
    with _opened(settings) as places, writer_lock(folder, FeaturesError, "name another --out"):
        source = _ArraySource(places, _dimensions(corpus, places), settings.frames)
        manifest = _manifest(settings, source)
        manifest_beside(folder, manifest)
        remove_leftovers(folder)
        index = _write_matrix(folder, corpus, source, progress)
        _commit(folder, manifest, index)
    return FeatureReport(
        str(folder),
        manifest.encoder_id,
        computed=len(index.clips),
        frames=sum(rows.frames for rows in index.clips.values()),
        set_aside=[
            SetAside(clip.clip_id, clip.path, *index.aside[clip.clip_id])
            for clip in clips_of(corpus)
            if clip.clip_id in index.aside
        ],
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True)
class _ArraySource:
    """Arrays of all streams.

    Attributes:
        places: places of each stream.
        dimensions: D of each stream.
        frames: most frames of a clip; None for all.
    """

    places: Mapping[str, Sequence[ArrayPlace]]
    dimensions: Mapping[str, int]
    frames: int | None

    def clip(self, clip_id: str) -> NDArray[np.float16]:
        """Return the frames (T, D) of a clip, the streams side by side.

        Raises:
            MediaError: the clip cannot be used.
        """
        arrays = self._arrays(clip_id)
        if len({len(array) for array in arrays}) == 1:
            real = np.any([array.any(axis=1) for array in arrays], axis=0)
            if not real.any():
                raise MediaError("bad_features", "all its frames are zero in every stream")
            arrays = [array[real] for array in arrays]
        arrays = [_sampled(array, self.frames) for array in arrays]
        if len({len(array) for array in arrays}) > 1:
            counts = ", ".join(f"{name} {len(array)}" for name, array in zip(self.places, arrays, strict=True))
            raise MediaError(
                "bad_features",
                f"its streams have unequally many frames ({counts}); --frames {min(map(len, arrays))} makes them equal",
            )
        rows = joined(arrays)
        if not rows.any(axis=1).all():
            raise MediaError("bad_features", "one of its frames is zero in every stream")
        return rows

    def _arrays(self, clip_id: str) -> list[NDArray[np.float32]]:
        """Return (T, D) of each stream; the one vector of a clip as often as the others have frames."""
        arrays = [self._array(name, clip_id) for name in self.places]
        frames = max((len(array) for array in arrays if array.ndim == 2), default=1)
        return [array if array.ndim == 2 else np.tile(array, (frames, 1)) for array in arrays]

    def _array(self, name: str, clip_id: str) -> NDArray[np.float32]:
        """Return (T, D) or (D,) of one stream."""
        found = _first(self.places[name], clip_id)
        if found is None:
            raise MediaError("unreadable", f"there is no array of it in the stream {name}")
        if found.size == 0:
            raise MediaError("bad_features", f"its array in {name} is empty")
        if found.dtype.kind not in "fiu" or found.ndim not in (1, 2):
            raise MediaError(
                "bad_features",
                f"its array in {name} is {found.dtype} of shape {found.shape}; numbers (T, D) are needed",
            )
        with np.errstate(over="ignore"):  # it is looked for below
            rows = found.astype(np.float32)
        if rows.shape[-1] != self.dimensions[name]:
            raise MediaError(
                "bad_features",
                f"its array in {name} has rows of {rows.shape[-1]}, those of others have {self.dimensions[name]}",
            )
        if not np.isfinite(rows).all():
            raise MediaError("bad_features", f"its array in {name} holds a value that is not a number")
        return rows


def _first(places: Sequence[ArrayPlace], clip_id: str) -> NDArray[Any] | None:
    """Return the array of a clip in the first place that has one.

    Raises:
        MediaError: the array cannot be read.
    """
    try:
        return next((array for place in places if (array := place.get(clip_id)) is not None), None)
    except FeaturesError as error:
        raise MediaError("unreadable", str(error)) from error


def _sampled(array: NDArray[np.float32], frames: int | None) -> NDArray[np.float32]:
    """Return at most `frames` of the rows, evenly, the first and the last among them."""
    if frames is None or len(array) <= frames:
        return array
    rows: NDArray[np.float32] = array[np.round(np.linspace(0, len(array) - 1, frames)).astype(np.int64)]
    return rows


@contextmanager
def _opened(settings: StoredSettings) -> Iterator[dict[str, list[ArrayPlace]]]:
    """The places of every stream; by name, so that features are the same in whatever order streams are given."""
    with ExitStack() as stack:
        yield {
            name: [stack.enter_context(opened(path, settings.ids)) for path in paths]
            for name, paths in sorted(settings.streams.items())
        }


def _dimensions(corpus: Corpus, places: Mapping[str, Sequence[ArrayPlace]]) -> dict[str, int]:
    """Return D of each stream: that of most of the first arrays.

    Raises:
        FeaturesError: a stream has no array of any clip, or none that can be used.
    """
    return {name: _dimension(corpus, name, of) for name, of in places.items()}


def _dimension(corpus: Corpus, name: str, places: Sequence[ArrayPlace]) -> int:
    seen: Counter[int] = Counter()
    trouble = ""
    for clip_id in corpus.clips["clip_id"]:
        try:
            array = _first(places, clip_id)
        except MediaError as error:
            trouble = trouble or str(error)
            continue
        if array is not None and array.ndim in (1, 2):
            seen[array.shape[-1]] += 1
        elif array is not None:
            trouble = trouble or f"that of {clip_id} has the shape {array.shape}, and (T, D) or (D,) is needed."
        if seen.total() == _LOOKED_AT:
            break
    if not seen:
        raise FeaturesError(_no_array(corpus, name, trouble))
    return seen.most_common(1)[0][0]


def _no_array(corpus: Corpus, name: str, trouble: str) -> str:
    if trouble:
        return f"The stream {name} has no array that can be used: {trouble}"
    first = next(iter(corpus.clips["clip_id"]), "")
    return (
        f"The stream {name} has an array of none of the {corpus.clips.height:,} clips of the corpus, the first of "
        f"which is called {first[:60]!r}; arrays have to be called by the ids of clips."
    )


def _manifest(settings: StoredSettings, source: _ArraySource) -> Manifest:
    streams = tuple(FeatureStream(*pair) for pair in source.dimensions.items())
    named = json.dumps([settings.name, streams])
    return Manifest(
        encoder_id=f"{STORED}{settings.name}",
        weights_hash=hashlib.sha256(named.encode()).hexdigest(),
        dimension=sum(stream.dimension for stream in streams),
        precision=FLOAT32,
        videos="",
        sets=(FeatureSet(stored_rule(settings.frames)),),
        streams=streams,
    )


def _write_matrix(folder: Path, corpus: Corpus, source: _ArraySource, progress: Progress) -> StoredIndex:
    """Write the frames of all clips under a name that no index has yet."""
    name = _free_name(folder)
    clips: dict[str, MatrixRows] = {}
    aside: dict[str, tuple[str, str]] = {}
    clip_ids = corpus.clips["clip_id"].to_list()
    try:
        with replacing(folder / name) as part, part.open("wb") as file:
            count, width = 0, sum(source.dimensions.values())
            _write_head(file, count, width)
            for number, clip_id in enumerate(clip_ids):
                try:
                    rows = source.clip(clip_id)
                except MediaError as error:
                    aside[clip_id] = (error.reason, str(error))
                else:
                    payload = rows.tobytes()
                    file.write(payload)
                    clips[clip_id] = MatrixRows(count, len(rows), zlib.crc32(payload))
                    count += len(rows)
                progress((number + 1) / len(clip_ids))
            _check_some(clips, aside)
            file.seek(0)
            _write_head(file, count, width)
    except OSError as error:
        raise FeaturesError(
            f"{folder / name} cannot be written ({error.strerror or error}); nothing is kept."
        ) from error
    return StoredIndex(name, clips, aside)


def _free_name(folder: Path) -> str:
    """The name of a matrix that the folder's index, if there is one, does not name."""
    try:
        used = read_index(folder).matrix
    except FeaturesError:
        return MATRICES[0]
    return next(name for name in MATRICES if name != used)


def _write_head(file: BinaryIO, rows: int, width: int) -> None:
    """The header of the `.npy`, which numpy makes equally long whatever the number of rows."""
    np.lib.format.write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": (rows, width)})


def _check_some(clips: Mapping[str, MatrixRows], aside: Mapping[str, tuple[str, str]]) -> None:
    if clips:
        return
    clip_id, (_, sentence) = next(iter(aside.items()))
    raise FeaturesError(f"Not one of the {len(aside):,} clips can be used; of {clip_id}: {sentence}.")


def _commit(folder: Path, manifest: Manifest, index: StoredIndex) -> None:
    """Make the written matrix that of the folder; without a manifest a folder holds nothing."""
    (folder / MANIFEST).unlink(missing_ok=True)
    store(folder / INDEX, index.to_json().encode())
    put_manifest(folder, manifest)
    for name in MATRICES:
        if name != index.matrix:
            (folder / name).unlink(missing_ok=True)
