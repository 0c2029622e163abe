"""Data sets of the Hugging Face hub: by id, as a downloaded snapshot, or as a folder of `save_to_disk`.

Only tables are read (parquet, arrow, csv, jsonl, json), never a loading script. Columns are those of `plain_tables`.
The package `datasets` is not needed. Of a data set with several configurations one is read, since the same captions may
be in several.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from evenreel.corpus.formats.plain_tables import (
    SUFFIXES,
    from_captions,
    is_split,
    read_table,
    select_light,
    split_of,
    tables_among,
    with_split,
)
from evenreel.corpus.given_files import field, optional, read_json, read_text
from evenreel.corpus.imported import Imported
from evenreel.documents import brief
from evenreel.errors import CorpusError

CONVERTED = "refs/convert/parquet"
"""Branch where the hub keeps every public data set as parquet."""

_CONFIGURATION = re.compile(r"""\bconfig_name:[ ]*["']?([^\s"']+)""")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read_hugging_face(paths: Sequence[Path]) -> Imported:
    """Read one data set of the Hugging Face hub."""
    if len(paths) != 1:
        raise CorpusError(f"A Hugging Face data set is one folder or one id; {len(paths)} were given.")
    source = paths[0] if paths[0].exists() else _download(paths[0].as_posix())
    tables = [source] if source.is_file() else _tables(source)
    if not tables:
        raise CorpusError(f"{source} holds no table ({', '.join((*SUFFIXES, '.json', '.arrow'))}).")
    if len(several := _configurations(source, tables)) > 1:
        raise CorpusError(
            f"{source} has several configurations: {', '.join(several)}; give one of them by its folder or file there, "
            "since the captions of one may be in another too."
        )
    return from_captions({str(path): with_split(_read(path), _split(path, source)) for path in tables})


def _tables(folder: Path) -> list[Path]:
    """Tables of a snapshot or of `save_to_disk`, which names its own."""
    arrow = [path for state in sorted(folder.rglob("state.json")) for path in _saved(state)]
    return arrow or tables_among(path for path in sorted(folder.rglob("*")) if path.is_file())


def _saved(state: Path) -> list[Path]:
    """The files that a `state.json` names beside it; none where it is that of another program."""
    files = []
    for n, entry in enumerate(optional(read_json(state), "_data_files", list, str(state)) or [], start=1):
        where = f"{state}, _data_files entry {n},"
        name = field(entry, "filename", str, where)
        if name in ("", ".", "..") or Path(name).name != name:
            raise CorpusError(f"{where} names {brief(name)}, which is no file of its folder.")
        files.append(state.parent / name)
    return files


def _configurations(source: Path, tables: Sequence[Path]) -> list[str]:
    """Configurations that the data set's card names, or else the folders that tables of several are in."""
    card = source / "README.md"
    if source.is_dir() and card.is_file():
        header = read_text(card).partition("---")[2].partition("\n---")[0]
        if named := set(_CONFIGURATION.findall(header)):
            return sorted(named)
    shared = len(Path(os.path.commonpath([path.parent for path in tables])).parts)
    below = [path.parts[shared:] for path in tables]
    return sorted({parts[0] for parts in below if len(parts) > 1 and _is_configuration(parts[0], parts[1:])})


def _is_configuration(folder: str, below: Sequence[str]) -> bool:
    """Whether a folder is more than that of a split: `train_9k/train/0000.parquet`, and not `train_9k/0000.parquet`."""
    return not is_split(folder) if any(map(split_of, below)) else split_of(folder) is None


def _split(path: Path, root: Path) -> str | None:
    """The split that the file, or else a folder between it and the root, is called after."""
    names = [path.name] if path == root else [path.name, *reversed(path.relative_to(root).parts[:-1])]
    return next((split for name in names if (split := split_of(name))), None)


def _read(path: Path) -> pl.DataFrame:
    if path.suffix != ".arrow":
        return read_table(path)
    try:
        return select_light(pl.read_ipc_stream(path).lazy()).collect()
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"{path} cannot be read as an arrow stream ({error}).") from error


def _download(hub_id: str) -> Path:
    if not _HUB_ID.fullmatch(hub_id):
        raise CorpusError(f"{hub_id} is neither a folder or table that exists nor a hub id such as owner/name.")
    folder = _snapshot(hub_id, "main")
    return folder if _tables(folder) else _snapshot(hub_id, CONVERTED)


def _snapshot(hub_id: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["README.md", "*.json", *(f"*{suffix}" for suffix in SUFFIXES)]
    try:
        return Path(snapshot_download(hub_id, repo_type="dataset", revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CorpusError(
            f"The data set {hub_id} cannot be downloaded ({first}); check its id and the network."
        ) from error
