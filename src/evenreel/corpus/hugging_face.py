"""Data sets of the Hugging Face hub: by id, as a downloaded snapshot, or as a folder of `save_to_disk`.

Only tables are read (parquet, arrow, csv, jsonl), never a loading script. Columns are those of `plain_tables`. The
package `datasets` is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from evenreel.corpus.given import read_json
from evenreel.corpus.imported import Imported
from evenreel.corpus.plain_tables import SUFFIXES, from_captions, read_table, select_light, split_of, with_split
from evenreel.errors import CorpusError

CONVERTED = "refs/convert/parquet"
"""Branch where the hub keeps every public data set as parquet."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read_hugging_face(paths: Sequence[Path]) -> Imported:
    """Read one data set.

    Args:
        paths: one folder, one table, or one hub id such as `owner/name`; an id is downloaded.

    Raises:
        CorpusError: it is neither, it cannot be downloaded, or it holds no captions.
    """
    if len(paths) != 1:
        raise CorpusError(f"A Hugging Face data set is one folder or one id; {len(paths)} were given.")
    source = paths[0] if paths[0].exists() else _download(paths[0].as_posix())
    tables = [source] if source.is_file() else _tables(source)
    if not tables:
        raise CorpusError(f"{source} holds no table ({', '.join((*SUFFIXES, '.arrow'))}).")
    return from_captions({str(path): with_split(_read(path), _split(path, source)) for path in tables})


def _tables(folder: Path) -> list[Path]:
    """Tables of a snapshot or of `save_to_disk`, which names its own."""
    arrow = [
        state.parent / entry["filename"]
        for state in sorted(folder.rglob("state.json"))
        for entry in read_json(state).get("_data_files", [])
    ]
    return arrow or sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def _split(path: Path, root: Path) -> str | None:
    """The split that the file, or else a folder between it and the root, is called after."""
    names = [path.name] if path == root else [path.name, *reversed(path.relative_to(root).parts[:-1])]
    return next((split for name in names if (split := split_of(name))), None)


def _read(path: Path) -> pl.DataFrame:
    if path.suffix != ".arrow":
        return read_table(path)
    try:
        return select_light(pl.read_ipc_stream(path).lazy()).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"{path} cannot be read as an arrow stream ({error}).") from error


def _download(hub_id: str) -> Path:
    if not _HUB_ID.fullmatch(hub_id):
        raise CorpusError(f"{hub_id} is neither a folder or table that exists nor a hub id such as owner/name.")
    folder = _snapshot(hub_id, "main")
    return folder if _tables(folder) else _snapshot(hub_id, CONVERTED)


def _snapshot(hub_id: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = [f"*{suffix}" for suffix in SUFFIXES]
    try:
        return Path(snapshot_download(hub_id, repo_type="dataset", revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CorpusError(
            f"The data set {hub_id} cannot be downloaded ({first}); check its id and the network."
        ) from error
