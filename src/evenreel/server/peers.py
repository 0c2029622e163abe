"""What the processes that serve one library know of each other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Peers:
    """The other processes of a server.

    Attributes:
        shared: folder that all of them can write to, which lasts as long as the server; None for a single process.
        all_ready: whether each has loaded its model once, or failed to; until then the server's model is loading.
    """

    shared: Path | None = None
    all_ready: bool = False

    @contextlib.contextmanager
    def only_one(self, name: str) -> Iterator[bool]:
        """Hold a lock of all processes for the block; True if none of them holds it already.

        It is let go when the process that holds it ends, however it ends.
        """
        if self.shared is None:
            yield True
            return
        import fcntl

        file = os.open(self.shared / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(file)
