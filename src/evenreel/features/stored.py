"""Features that somebody else computed, in files of many forms, stored as a folder of features."""

from __future__ import annotations

import hashlib
import importlib
import json
import shlex
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.config import as_path, check_corpus, check_kind
from evenreel.corpus.array_files import ArrayArchive, check_unpacked, map_array
from evenreel.corpus.imported import some
from evenreel.documents import parse_json
from evenreel.errors import FeaturesError, MediaError, UsageError
from evenreel.extras import needed_extra
from evenreel.features.manifest import (
    MANIFEST,
    CorpusClip,
    FeatureReport,
    FeatureSet,
    FeatureStream,
    Manifest,
    clips_of,
    manifest_beside,
    put_manifest,
    remove_leftovers,
    store,
)
from evenreel.features.pool import SetAside, writer_lock
from evenreel.features.settings import FLOAT32, STORED, stored_rule
from evenreel.files import replacing
from evenreel.language.tokens import split_words
from evenreel.progress import Progress
from evenreel.types import Corpus, Shown, TextFeatures, VideoFeatures

# Arrays that others computed, one for each clip, in the file forms in which they are published.
#
# Pickles are not read: reading one can run code.

TORCH = frozenset((".bin", ".pt", ".pth"))
PICKLES = TORCH | frozenset((".pickle", ".pkl"))
FORMS = "a folder of CLIP_ID.npy, an .npz, an .npy with --ids, or an .hdf5"
IDS = "ids"
"""The array of an `.npz` that names the rows of the other one."""

Array = NDArray[Any]

ArrayPlace = Callable[[str], "Array | None"]
"""Reads the array of a clip as it was stored, by the clip's id; None where there is none."""


@contextmanager
def opened(path: Path, ids_files: Sequence[Path] = ()) -> Iterator[ArrayPlace]:
    """Open a place of arrays until the `with` ends; the end of its name says its form.

    Args:
        path: a folder of `CLIP_ID.npy`; an `.npz` with an array a clip, or with one (N, ...) beside `ids`; an `.npy`
            (N, ...); an `.hdf5` with a dataset a clip. In names of files and datasets `_` may stand for `/`.
        ids_files: names of the rows of an `.npy`, a line each (`.txt`), a JSON list, or an `.npy` of text. It takes the
            one with as many names as it has rows, else the one beside it: `NAME_ids.txt`, `NAME_names.npy`, ...
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        yield lambda clip_id: _numpy_file(file) if (file := path / f"{_flat(clip_id)}.npy").is_file() else None
    elif not path.is_file():
        raise UsageError(f"There is nothing at {path}; arrays come as {FORMS}.")
    elif suffix in PICKLES:
        raise FeaturesError(_is_pickle(path))
    elif suffix == ".npy":
        array = np.atleast_1d(_numpy_file(path))
        yield _of_rows(path, array, _ids_of(path, len(array), ids_files))
    elif suffix == ".npz":
        with _reading(path, str(path)):
            archive = ArrayArchive(path)
        with archive:
            yield _of_archive(path, archive)
    elif suffix in (".hdf5", ".h5"):
        try:
            hdf5 = importlib.import_module("h5py").File(path, "r")
        except ModuleNotFoundError as error:
            raise UsageError(needed_extra(error, str(path))) from error
        except OSError as error:
            raise FeaturesError(f"{path} cannot be read as HDF5 ({error}); get or make it again.") from error
        with hdf5:
            yield lambda clip_id: _dataset(path, hdf5, clip_id)
    else:
        raise UsageError(f"{path} has a form that is not read; arrays come as {FORMS}.")


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Say which file could not be read: a damaged one can fail in any way."""
    try:
        yield
    except Exception as error:
        with path.open("rb") as file:
            pickled = file.read(1) == b"\x80"
        if pickled or any(words in str(error) for words in ("Object arrays", "Python objects")):  # as numpy says it
            raise FeaturesError(_is_pickle(path)) from error
        raise FeaturesError(f"{what} cannot be read ({error}); get or make it again.") from error


def _numpy_file(path: Path) -> Array:
    """An array, mapped and not read."""
    with _reading(path, str(path)):
        return map_array(path)


def _dataset(path: Path, hdf5: Any, clip_id: str) -> Array | None:
    with _reading(path, f"The dataset {clip_id!r} of {path}"):  # it may need a filter that is not there
        found = (hdf5.get(name) for name in (clip_id, _flat(clip_id)))
        dataset = next((one for one in found if hasattr(one, "shape")), None)  # a group has none
        if dataset is None:
            return None
        check_unpacked(f"the dataset {dataset.name}", dataset.id.get_storage_size(), dataset.nbytes)
        return np.asarray(dataset[()])


def _of_archive(path: Path, archive: Mapping[str, Any]) -> ArrayPlace:
    def member(name: str) -> Array:
        with _reading(path, f"The array {name!r} of {path}"):
            return np.asarray(archive[name])

    if IDS not in archive:
        return lambda clip_id: next((member(name) for name in (clip_id, _flat(clip_id)) if name in archive), None)
    names = [name for name in archive if name != IDS]
    if len(names) != 1:
        raise UsageError(f"{path} has {len(names)} arrays beside '{IDS}'; one is needed, a row for each id.")
    ids, array = _names(member(IDS)), np.atleast_1d(member(names[0]))
    if len(array) != len(ids):
        raise UsageError(f"{path} has {len(array):,} rows and {len(ids):,} ids; they have to be as many.")
    return _of_rows(path, array, ids)


def _of_rows(path: Path, array: Array, ids: Sequence[str]) -> ArrayPlace:
    positions = {clip_id: row for row, clip_id in enumerate(ids)}
    if len(positions) < len(ids):
        raise UsageError(f"The names of the rows of {path} are not all different; each clip has one row.")
    return lambda clip_id: np.asarray(array[positions[clip_id]]) if clip_id in positions else None


def _flat(clip_id: str) -> str:
    """Return the id as the name of a file or dataset, which no `/` can lead elsewhere."""
    return clip_id.replace("/", "_")


def _ids_of(path: Path, count: int, ids_files: Sequence[Path]) -> list[str]:
    """The names of the rows of an array, from the files that were given or the one beside it."""
    stems = dict.fromkeys(
        (path.stem, path.stem.removesuffix("_ft"))
    )  # HGR's `trn_ft.npy` has its own in `trn_names.npy`
    beside = (
        path.with_name(f"{stem}_{what}{suffix}")
        for stem in stems
        for what in ("ids", "names")
        for suffix in (".txt", ".json", ".npy")
    )
    files = ids_files or [file for file in beside if file.is_file()]
    listed = ", ".join(map(str, files))
    fitting = list(dict.fromkeys(ids for file in files if len(ids := _read_ids(file)) == count))
    if len(fitting) == 1:
        return list(fitting[0])
    if fitting:
        raise UsageError(
            f"{path} has {count:,} rows, and several of {listed} have so many ids; put the right ones into "
            f"{path.stem}_ids.txt beside it, and leave --ids out."
        )
    none = f"none of {listed} has" if files else f"no {path.stem}_ids.txt or {path.stem}_names.npy beside it has"
    raise UsageError(
        f"{path} has {count:,} rows, and {none} so many ids; name with --ids a file with one clip id a line, in the "
        "order of the rows."
    )


def _read_ids(file: Path) -> tuple[str, ...]:
    if file.suffix.lower() == ".npy":
        return _names(_numpy_file(file))
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The ids in {file} cannot be read ({error}).") from error
    if file.suffix.lower() != ".json":
        return tuple(line.strip() for line in text.splitlines() if line.strip())
    listed: object = None
    with suppress(ValueError):
        listed = parse_json(text)
    if not isinstance(listed, list):
        raise UsageError(f"{file} is no JSON list; ids are given as a list, or as text with one a line.")
    return tuple(str(one) for one in listed)


def _names(array: Array) -> tuple[str, ...]:
    """The texts of an array, which may be bytes."""
    names = np.ravel(array).tolist()
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names)


def _is_pickle(path: Path) -> str:
    """Return the sentence that refuses a pickle, with the line of Python that makes arrays of a table in it."""
    package, load, table = "numpy", "numpy.load(sys.argv[1], allow_pickle=True)", "numpy.ravel(read)[0]"
    if path.suffix.lower() in TORCH:
        package, load, table = "torch", "torch.load(sys.argv[1], map_location='cpu', weights_only=True)", "read"
    return (
        f"{path} is a pickle, which can run anything when it is read, so it is not. If you trust who made it, convert "
        f'it once; of a table of arrays: python -c "import sys, numpy, {package}; read = {load}; [numpy.save(str(name)'
        f".replace('/', '_'), array) for name, array in {table}.items() if hasattr(array, 'shape')]\" "
        f"{shlex.quote(str(path))}"
    )


# Features that others computed, loaded from the folder that `evenreel.features.stored` made of them.
#
# All frames of all clips are rows of one float16 matrix, an `.npy` that is mapped and not read into memory: clips that
# lie there in the order in which they are loaded are not even copied.

INDEX = "frames.json"
MATRICES = ("frames.npy", "frames-2.npy")
"""Names of the matrix; a new one takes the name that the old one has not."""

FORMAT = 1
_AGAIN = "run `evenreel features --stored` again"
_SILENT = "one of its frames is zero in every stream that is used"


class MatrixRows(NamedTuple):
    """Rows of the matrix that are the frames of a clip, and their CRC-32."""

    first: int
    frames: int
    checksum: int


@dataclass(frozen=True)
class StoredIndex:
    """Rows of each clip in the matrix."""

    matrix: str  # name of the matrix's file
    clips: Mapping[str, MatrixRows]  # rows by clip id
    aside: Mapping[str, tuple[str, str]]  # reason and sentence of each clip without rows


def read_index(folder: Path) -> StoredIndex:
    """Read the index of a folder of stored features."""
    path = folder / INDEX
    try:
        fields = parse_json(path.read_text(encoding="utf-8"))
        clips = {name: MatrixRows(*rows) for name, rows in fields["clips"].items()}
        index = StoredIndex(
            str(fields["matrix"]), clips, {name: (code, why) for name, (code, why) in fields["aside"].items()}
        )
        newer = fields["format"] > FORMAT
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FeaturesError(f"{path} is gone or damaged; {_AGAIN}.") from error
    if newer:
        raise FeaturesError(f"The features in {folder} were made by a later version; update evenreel to read them.")
    if index.matrix not in MATRICES:
        raise FeaturesError(f"{path} is damaged; {_AGAIN}.")
    return index


@dataclass(frozen=True)
class StoredClips(Shown):
    """Clips of a corpus in a folder of stored features; used as `evenreel.features.FoundClips` is.

    Attributes:
        folder: folder of the features.
        manifest: name and streams of the folder.
        made: how frames were sampled of the arrays.
        streams: streams that are used, in the order of their columns.
        index: rows of all clips of the folder.
        clips: clips of the corpus, in its order.
    """

    folder: Path
    manifest: Manifest
    made: FeatureSet
    streams: tuple[FeatureStream, ...]
    index: StoredIndex
    clips: tuple[CorpusClip, ...]

    @property
    def dimension(self) -> int:
        """D, columns of all streams that are used."""
        return sum(stream.dimension for stream in self.streams)

    def load(self) -> tuple[VideoFeatures, tuple[SetAside, ...]]:
        """Load the features of the clips that have some; return the clips that were set aside too.

        Frames are a view of the matrix on the disk where all streams are used and the clips lie there one after the
        other with equally many frames.

        Raises:
            FeaturesError: a clip was not in the corpus when the features were stored; a file is damaged.
        """
        there: list[CorpusClip] = []
        aside: list[SetAside] = []
        missing: list[str] = []
        for clip in self.clips:
            if clip.clip_id in self.index.clips:
                there.append(clip)
            elif trouble := self.index.aside.get(clip.clip_id):
                aside.append(SetAside(clip.clip_id, clip.path, *trouble))
            else:
                missing.append(clip.clip_id)
        if missing:
            named = some([repr(name[:60]) for name in missing], 5)
            raise FeaturesError(
                f"{len(missing):,} of {len(self.clips):,} clips were not in the corpus when the features in "
                f"{self.folder} were stored ({named}); {_AGAIN} for this corpus."
            )
        matrix = self._matrix()
        frames = self._view(matrix, there)
        if frames is None:
            there, frames, silent = self._copied(matrix, there)
            aside += silent
        counts = np.array([self.index.clips[clip.clip_id].frames for clip in there], np.int64)
        mask = np.arange(frames.shape[1]) < counts[:, None]
        return VideoFeatures(tuple(clip.clip_id for clip in there), frames, mask, _times(there, mask)), tuple(aside)

    def fingerprint(self) -> dict[str, str | int | None]:
        """Return the identity of the loaded features, as plain data to record and to compare; reads no frame.

        Returns:
            The keys of `FoundClips.fingerprint`, and `streams`: names of those used. `clips` is a digest over the
            ids and the content of the clips.
        """
        rows = [(clip.clip_id, self.index.clips.get(clip.clip_id, (0, 0, 0))[1:]) for clip in self.clips]
        return {
            "encoder_id": self.manifest.encoder_id,
            "weights_hash": self.manifest.weights_hash,
            "precision": self.manifest.precision,
            **asdict(self.made),
            "streams": ", ".join(stream.name for stream in self.streams),
            "clips": hashlib.blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest(),
        }

    def _matrix(self) -> NDArray[np.float16]:
        path = self.folder / self.index.matrix
        try:
            matrix = map_array(path)
        except (OSError, ValueError) as error:
            raise FeaturesError(f"{path} is gone or damaged ({error}); {_AGAIN}.") from error
        rows = max((one.first + one.frames for one in self.index.clips.values()), default=0)
        if matrix.dtype != np.float16 or matrix.shape != (rows, self.manifest.dimension):
            raise FeaturesError(f"{path} is not the matrix that was written; {_AGAIN}.")
        return matrix

    def _view(self, matrix: NDArray[np.float16], clips: Sequence[CorpusClip]) -> NDArray[np.float16] | None:
        """Return (V, T, D) of the clips without a copy; None where they do not lie so, or a stream is left out."""
        rows = [self.index.clips[clip.clip_id] for clip in clips]
        if not rows or len(self.streams) < len(self.manifest.streams):
            return None
        start, count = rows[0].first, rows[0].frames
        if any(one[:2] != (start + number * count, count) for number, one in enumerate(rows)):
            return None
        for clip in clips:
            self._checked(matrix, clip)
        return matrix[start : start + len(rows) * count].reshape(len(rows), count, matrix.shape[1])

    def _copied(
        self, matrix: NDArray[np.float16], clips: Sequence[CorpusClip]
    ) -> tuple[list[CorpusClip], NDArray[np.float16], list[SetAside]]:
        """Copy the frames of clips to (V, T, D), padded; return clips without frames in the streams used too."""
        longest = max((self.index.clips[clip.clip_id].frames for clip in clips), default=0)
        padded = np.zeros((len(clips), longest, self.dimension), np.float16)
        kept: list[CorpusClip] = []
        aside: list[SetAside] = []
        columns = self._columns()
        for clip in clips:
            rows = self._checked(matrix, clip)
            used = rows if columns is None else _unit(rows[:, columns].astype(np.float32))
            if columns is not None and not used.any(axis=1).all():
                aside.append(SetAside(clip.clip_id, clip.path, "bad_features", _SILENT))
                continue
            padded[len(kept), : len(used)] = used
            kept.append(clip)
        return kept, padded[: len(kept)], aside

    def _columns(self) -> NDArray[np.bool_] | None:
        """(D,) True = a column of a stream that is used; None for all."""
        if len(self.streams) == len(self.manifest.streams):
            return None
        used = [np.full(stream.dimension, stream in self.streams) for stream in self.manifest.streams]
        return np.concatenate(used)

    def _checked(self, matrix: NDArray[np.float16], clip: CorpusClip) -> NDArray[np.float16]:
        first, count, checksum = self.index.clips[clip.clip_id]
        rows = matrix[first : first + count]
        if zlib.crc32(rows.data) != checksum:
            path = self.folder / self.index.matrix
            raise FeaturesError(f"{path} is damaged at clip {clip.clip_id}; {_AGAIN}.")
        return rows


def unread_captions(corpus: Corpus) -> TextFeatures:
    """Return captions without features: (Q, W, 0) with W words each, since no text tower has read them."""
    texts = corpus.captions["text"].to_list()
    counts = np.array([max(1, len(split_words(text))) for text in texts], np.int64)
    mask = np.arange(counts.max(initial=0)) < counts[:, None]
    words, sentence = np.zeros((*mask.shape, 0), np.float16), np.zeros((len(texts), 0), np.float16)
    return TextFeatures(tuple(corpus.captions["caption_id"]), words, mask, sentence)


def joined(streams: Sequence[NDArray[np.float32]]) -> NDArray[np.float16]:
    """Join the frames of several streams side by side, each stream at unit length, and the whole again.

    Every stream has the same share of a frame then, whatever numbers its network gives; a frame that is zero in one of
    them is a frame of the others, and that of the rest stays right where a stream is left out.

    Args:
        streams: (T, D) each.

    Returns:
        (T, sum of D) with rows of unit length, and of zeros where all streams are zero.

    >>> joined([np.array([[3.0, 4.0]], np.float32), np.array([[0.0]], np.float32)]).round(3).tolist()
    [[0.60009765625, 0.7998046875, 0.0]]
    """
    whole = np.concatenate([_unit(rows) for rows in streams], axis=1)
    return np.asarray(_unit(whole).astype(np.float16))


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to unit length; those of zeros stay so. Scaled first, since squares of large numbers are infinite."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, np.float32(1))
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled /= np.where(lengths > 0, lengths, np.float32(1))
    return np.asarray(scaled)


def _times(clips: Sequence[CorpusClip], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return (V, T) middles of equal parts of each clip, as times are not stored; seconds without a known length."""
    counts = mask.sum(axis=1)
    lengths_s = [
        float(count) if clip.part.end_s is None else clip.part.end_s - (clip.part.start_s or 0.0)
        for clip, count in zip(clips, counts.tolist(), strict=True)
    ]
    steps = np.array(lengths_s) / counts
    return np.asarray(np.where(mask, (np.arange(mask.shape[1]) + 0.5) * steps[:, None], 0.0))


# Storing features that others computed in a folder that is read like one of our own.
#
# One or several streams (RGB, flow, audio, ...) stand side by side in every frame. Captions have no features there:
# they are for matchers that read the words themselves.

_LOOKED_AT = 25
"""Clips whose arrays are looked at for the length that those of a stream have."""


@dataclass(frozen=True)
class StoredSettings:
    """Settings of storing arrays as features.

    Attributes:
        name: name of the features; test features have the same name as those that were trained on.
        streams: places of each stream's arrays by its name, see `evenreel.features.stored.opened`; of two places
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
    with ExitStack() as stack:
        places = {  # by name, so that features are the same in whatever order streams are given
            name: [stack.enter_context(opened(path, settings.ids)) for path in paths]
            for name, paths in sorted(settings.streams.items())
        }
        stack.enter_context(writer_lock(folder, FeaturesError, "name another --out"))
        dimensions = {name: _dimension(corpus, name, of) for name, of in places.items()}
        source = _ArraySource(places, dimensions, settings.frames)
        streams = tuple(FeatureStream(*pair) for pair in dimensions.items())
        manifest = Manifest(
            encoder_id=f"{STORED}{settings.name}",
            weights_hash=hashlib.sha256(json.dumps([settings.name, streams]).encode()).hexdigest(),
            dimension=sum(dimensions.values()),
            precision=FLOAT32,
            videos="",
            sets=(FeatureSet(stored_rule(settings.frames)),),
            streams=streams,
        )
        manifest_beside(folder, manifest)
        remove_leftovers(folder)
        index = _write_matrix(folder, corpus, source, progress)
        (folder / MANIFEST).unlink(missing_ok=True)  # without it a folder holds nothing
        named = {"format": FORMAT, "matrix": index.matrix, "clips": index.clips, "aside": index.aside}
        store(folder / INDEX, json.dumps(named).encode())
        put_manifest(folder, manifest)
        for name in MATRICES:
            if name != index.matrix:
                (folder / name).unlink(missing_ok=True)
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
    """Arrays of all streams."""

    places: Mapping[str, Sequence[ArrayPlace]]  # places of each stream
    dimensions: Mapping[str, int]  # D of each stream
    frames: int | None  # most frames of a clip; None for all

    def clip(self, clip_id: str) -> NDArray[np.float16]:
        """Return the frames (T, D) of a clip, the streams side by side."""
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
    """Return the array of a clip in the first place that has one."""
    try:
        return next((array for place in places if (array := place(clip_id)) is not None), None)
    except FeaturesError as error:
        raise MediaError("unreadable", str(error)) from error


def _sampled(array: NDArray[np.float32], frames: int | None) -> NDArray[np.float32]:
    """Return at most `frames` of the rows, evenly, the first and the last among them."""
    if frames is None or len(array) <= frames:
        return array
    rows: NDArray[np.float32] = array[np.round(np.linspace(0, len(array) - 1, frames)).astype(np.int64)]
    return rows


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
        first = next(iter(corpus.clips["clip_id"]), "")
        none = (
            f"The stream {name} has an array of none of the {corpus.clips.height:,} clips of the corpus, the first of "
            f"which is called {first[:60]!r}; arrays have to be called by the ids of clips."
        )
        raise FeaturesError(f"The stream {name} has no array that can be used: {trouble}" if trouble else none)
    return seen.most_common(1)[0][0]


def _write_matrix(folder: Path, corpus: Corpus, source: _ArraySource, progress: Progress) -> StoredIndex:
    """Write the frames of all clips under a name that no index has yet."""
    name = MATRICES[0]
    with suppress(FeaturesError):  # there is no index yet
        name = next(one for one in MATRICES if one != read_index(folder).matrix)
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
            if not clips:
                clip_id, (_, sentence) = next(iter(aside.items()))
                raise FeaturesError(f"Not one of the {len(aside):,} clips can be used; of {clip_id}: {sentence}.")
            file.seek(0)
            _write_head(file, count, width)
    except OSError as error:
        raise FeaturesError(
            f"{folder / name} cannot be written ({error.strerror or error}); nothing is kept."
        ) from error
    return StoredIndex(name, clips, aside)


def _write_head(file: BinaryIO, rows: int, width: int) -> None:
    """The header of the `.npy`, which numpy makes equally long whatever the number of rows."""
    np.lib.format.write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": (rows, width)})
