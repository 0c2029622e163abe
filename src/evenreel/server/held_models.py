"""Further models that the threads of a server share; one that failed to load is kept as such."""

from __future__ import annotations

import time
from typing import NamedTuple

from evenreel.server.batched_encoder import BatchedEncoder

RETRY_S = 300.0
"""Seconds after which a further model that could not be loaded is tried again."""
Version = tuple[tuple[int, int, int], ...]
"""Inode, size and time of change of files."""


class HeldModel(NamedTuple):
    """A further model of a library that is served.

    Attributes:
        folder: name of the folder of its vectors.
        encoder: the model; None where it could not be loaded.
        trouble: why it could not be loaded.
        vectors: state of its vectors as that was tried.
        tried_s: seconds of the monotonic clock as that was tried.
    """

    folder: str
    encoder: BatchedEncoder | None
    trouble: str = ""
    vectors: Version = ()
    tried_s: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it could not be loaded and some minutes have gone by since."""
        return self.encoder is None and time.monotonic() - self.tried_s >= RETRY_S
