"""CRC-32 of many rows of bytes at once: a column of all rows after the other, where `zlib` takes a call for each."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import slices

POLYNOMIAL = 0xEDB88320
AT_ONCE = 8192
"""Rows whose states and bytes a core's own cache holds."""


def crc32_of_rows(rows: NDArray[np.uint8], start: int) -> NDArray[np.uint32]:
    """Compute the CRC-32 of each row, (R,), as `zlib.crc32(row, start)` does."""
    found = np.empty(len(rows), np.uint32)
    for part in slices(len(rows), AT_ONCE):
        found[part] = _states(np.ascontiguousarray(rows[part].T), np.uint32(start ^ 0xFFFFFFFF))
    return found ^ np.uint32(0xFFFFFFFF)


def _states(columns: NDArray[np.uint8], start: np.uint32) -> NDArray[np.uint32]:
    """The states after the bytes (L, R), two columns at a time."""
    of_two, one = _table(), np.uint32(0xFF)
    states = np.full(columns.shape[1], start, np.uint32)
    if len(columns) % 2:
        states = _byte_table()[(states ^ columns[0]) & one] ^ (states >> np.uint32(8))
        columns = columns[1:]
    for low, high in zip(columns[::2], columns[1::2], strict=True):
        pair = states ^ (low | (high.astype(np.uint32) << np.uint32(8)))
        states = of_two[pair & np.uint32(0xFFFF)] ^ (states >> np.uint32(16))
    return states


@cache
def _byte_table() -> NDArray[np.uint32]:
    """State after one byte, by the lowest byte of the state before: (256,)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & np.uint32(1), (table >> np.uint32(1)) ^ np.uint32(POLYNOMIAL), table >> np.uint32(1))
    return table.astype(np.uint32)


@cache
def _table() -> NDArray[np.uint32]:
    """State after two bytes, by the lowest two bytes of the state before: (65536,)."""
    table, of_one = np.arange(65_536, dtype=np.uint32), _byte_table()
    for _ in range(2):
        table = of_one[table & np.uint32(0xFF)] ^ (table >> np.uint32(8))
    return table
