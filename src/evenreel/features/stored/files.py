"""Arrays that others computed, one for each clip, in the file forms in which they are published.

Pickles are not read: reading one can run code.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenreel.corpus.array_files import ArrayArchive, check_unpacked, map_array
from evenreel.documents import parse_json
from evenreel.errors import FeaturesError, UsageError
from evenreel.extras import needed_extra

TORCH = frozenset((".bin", ".pt", ".pth"))
PICKLES = TORCH | frozenset((".pickle", ".pkl"))
FORMS = "a folder of CLIP_ID.npy, an .npz, an .npy with --ids, or an .hdf5"
IDS = "ids"
"""The array of an `.npz` that names the rows of the other one."""

Array = NDArray[Any]


class ArrayPlace(Protocol):
    """A place of arrays on the disk, one for each clip."""

    def get(self, clip_id: str) -> Array | None:
        """Read the array of a clip as it was stored; None where there is none.

        Raises:
            FeaturesError: it cannot be read.
        """


@contextmanager
def opened(path: Path, ids_files: Sequence[Path] = ()) -> Iterator[ArrayPlace]:
    """Open a place of arrays until the `with` ends; the end of its name says its form.

    Args:
        path: a folder of `CLIP_ID.npy`; an `.npz` with an array a clip, or with one (N, ...) beside `ids`; an `.npy`
            (N, ...); an `.hdf5` with a dataset a clip. In names of files and datasets `_` may stand for `/`.
        ids_files: names of the rows of an `.npy`, a line each (`.txt`), a JSON list, or an `.npy` of text. It takes the
            one with as many names as it has rows, else the one beside it: `NAME_ids.txt`, `NAME_names.npy`, ...

    Raises:
        FeaturesError: the place cannot be read, or is a pickle.
        UsageError: it has another form, rows have no names, or a package for it is missing.
    """
    with ExitStack() as stack:
        yield _open(path, ids_files, stack)


def _open(path: Path, ids_files: Sequence[Path], stack: ExitStack) -> ArrayPlace:
    suffix = path.suffix.lower()
    if path.is_dir():
        return _Folder(path)
    if not path.is_file():
        raise UsageError(f"There is nothing at {path}; arrays come as {FORMS}.")
    if suffix in PICKLES:
        raise FeaturesError(_is_pickle(path))
    if suffix == ".npz":
        archive = stack.enter_context(_archive_file(path))
        return _rows_of_archive(path, archive) if IDS in archive else _Archive(path, archive)
    if suffix == ".npy":
        array = np.atleast_1d(_numpy_file(path))
        return _Rows(array, _positions(_ids_of(path, len(array), ids_files), path))
    if suffix in (".hdf5", ".h5"):
        return _Hdf5(path, stack.enter_context(_hdf5_file(path)))
    raise UsageError(f"{path} has a form that is not read; arrays come as {FORMS}.")


@dataclass(frozen=True)
class _Folder:
    path: Path

    def get(self, clip_id: str) -> Array | None:
        file = self.path / f"{_flat(clip_id)}.npy"
        return _numpy_file(file) if file.is_file() else None


@dataclass(frozen=True)
class _Archive:
    path: Path
    arrays: Mapping[str, Any]

    def get(self, clip_id: str) -> Array | None:
        for name in (clip_id, _flat(clip_id)):
            if name in self.arrays:
                return _member(self.path, self.arrays, name)
        return None


@dataclass(frozen=True)
class _Hdf5:
    path: Path
    file: Any

    def get(self, clip_id: str) -> Array | None:
        try:
            found = (self.file.get(name) for name in (clip_id, _flat(clip_id)))
            dataset = next((one for one in found if hasattr(one, "shape")), None)  # a group has none
            if dataset is None:
                return None
            check_unpacked(f"the dataset {dataset.name}", dataset.id.get_storage_size(), dataset.nbytes)
            return np.asarray(dataset[()])
        except Exception as error:  # a damaged file, or a filter that is not there
            raise _unread(self.path, error, f"The dataset {clip_id!r} of {self.path}") from error


@dataclass(frozen=True)
class _Rows:
    array: Array
    row_of: Mapping[str, int]

    def get(self, clip_id: str) -> Array | None:
        row = self.row_of.get(clip_id)
        return None if row is None else np.asarray(self.array[row])


def _flat(clip_id: str) -> str:
    """Return the id as the name of a file or dataset, which no `/` can lead elsewhere."""
    return clip_id.replace("/", "_")


def _numpy_file(path: Path) -> Array:
    """An array, mapped and not read."""
    try:
        return map_array(path)
    except Exception as error:  # a damaged file can fail in any way
        raise _unread(path, error, str(path)) from error


def _archive_file(path: Path) -> ArrayArchive:
    """An archive of arrays."""
    try:
        return ArrayArchive(path)
    except Exception as error:  # likewise
        raise _unread(path, error, str(path)) from error


def _member(path: Path, arrays: Mapping[str, Any], name: str) -> Array:
    try:
        return np.asarray(arrays[name])
    except Exception as error:  # likewise
        raise _unread(path, error, f"The array {name!r} of {path}") from error


def _hdf5_file(path: Path) -> Any:
    try:
        return importlib.import_module("h5py").File(path, "r")
    except ModuleNotFoundError as error:
        raise UsageError(needed_extra(error, str(path))) from error
    except OSError as error:
        raise FeaturesError(f"{path} cannot be read as HDF5 ({error}); get or make it again.") from error


def _rows_of_archive(path: Path, archive: Mapping[str, Any]) -> _Rows:
    names = [name for name in archive if name != IDS]
    if len(names) != 1:
        raise UsageError(f"{path} has {len(names)} arrays beside '{IDS}'; one is needed, a row for each id.")
    ids = _names(_member(path, archive, IDS))
    array = np.atleast_1d(_member(path, archive, names[0]))
    if len(array) != len(ids):
        raise UsageError(f"{path} has {len(array):,} rows and {len(ids):,} ids; they have to be as many.")
    return _Rows(array, _positions(ids, path))


def _positions(ids: Sequence[str], path: Path) -> dict[str, int]:
    positions = {clip_id: row for row, clip_id in enumerate(ids)}
    if len(positions) < len(ids):
        raise UsageError(f"The names of the rows of {path} are not all different; each clip has one row.")
    return positions


def _ids_of(path: Path, count: int, ids_files: Sequence[Path]) -> list[str]:
    """The names of the rows of an array, from the files that were given or the one beside it."""
    files = ids_files or _beside(path)
    fitting = list(dict.fromkeys(ids for file in files if len(ids := _read_ids(file)) == count))
    if len(fitting) == 1:
        return list(fitting[0])
    if fitting:
        raise UsageError(
            f"{path} has {count:,} rows, and several of {_listed(files)} have so many ids; put the right ones into "
            f"{path.stem}_ids.txt beside it, and leave --ids out."
        )
    beside = f"no {path.stem}_ids.txt or {path.stem}_names.npy beside it has"
    raise UsageError(
        f"{path} has {count:,} rows, and {f'none of {_listed(files)} has' if files else beside} so many ids; name with "
        "--ids a file with one clip id a line, in the order of the rows."
    )


def _listed(files: Sequence[Path]) -> str:
    return ", ".join(str(file) for file in files)


def _beside(path: Path) -> list[Path]:
    """Return files that may name the rows: `trn_ft.npy` has its names in `trn_names.npy`, as those of HGR."""
    stems = dict.fromkeys((path.stem, path.stem.removesuffix("_ft")))
    names = (
        f"{stem}_{what}{suffix}" for stem in stems for what in ("ids", "names") for suffix in (".txt", ".json", ".npy")
    )
    return [file for name in names if (file := path.with_name(name)).is_file()]


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


def _unread(path: Path, error: Exception, what: str) -> FeaturesError:
    with path.open("rb") as file:
        pickled = file.read(1) == b"\x80"
    if pickled or any(words in str(error) for words in ("Object arrays", "Python objects")):  # as numpy says it
        return FeaturesError(_is_pickle(path))
    return FeaturesError(f"{what} cannot be read ({error}); get or make it again.")


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
