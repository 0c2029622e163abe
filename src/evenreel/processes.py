"""Processes of ours: started so that no file of the current folder is taken for a module, and what one died of."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_RUN = (
    "import sys; sys.path[:] = filter(None, sys.path); del sys.argv[0]; import runpy; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours; every process of ours is started by it.

    `python -m` would look into the current folder first, where a `numpy.py` of anybody may lie. This is `python -P -m`,
    which Python 3.10 lacks.
    """
    return [sys.executable, "-c", _RUN, module, *arguments]


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Have what others start within the `with` look past the current folder too; Python 3.10 cannot do that."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def last_words(said: bytes) -> str:
    """Return the last line of what a process wrote to standard error: the error that it died of, or nothing.

    >>> last_words(b"Traceback (most recent call last):\\n  ...\\nImportError: no numpy\\n")
    'ImportError: no numpy'
    """
    return (said.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
