"""Keys of a library's metadata, of which a filter names one or two: these are looked for, and not all of them read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from functools import cached_property

from evenreel.library.store.catalog import metadata_keys


class MetadataKeys(Collection[str]):
    """Collection of the keys that the metadata of a library has; all of them are read only where that is needed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @cached_property
    def _all(self) -> set[str]:
        return metadata_keys(self._connection)

    def __contains__(self, key: object) -> bool:
        # Keys that JSON writes with escapes cannot be named in SQLite's JSON paths.
        if not isinstance(key, str) or json.dumps(key, ensure_ascii=False) != f'"{key}"':
            return key in self._all
        found = "SELECT 1 FROM files WHERE json_type(metadata, ?) IS NOT NULL LIMIT 1"
        return self._connection.execute(found, (f'$."{key}"',)).fetchone() is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
