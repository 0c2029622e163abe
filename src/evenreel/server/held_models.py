"""Models that the threads of a server share; one that failed to load is kept as such."""

from __future__ import annotations

import time
from typing import NamedTuple

from evenreel.server.batched_encoder import BatchedEncoder
from evenreel.server.library_version import Version

RETRY_S = 300.0
"""Seconds after which a further model that could not be loaded is tried again."""


class OwnModel(NamedTuple):
    """The model of a library that is served, as it stands; replaced as a whole, so that no thread sees half of it.

    Attributes:
        number: another one for each change.
        encoder: the model; None where it is not loaded.
        state: `loading`, `ready`, `none` where words alone are searched, or `failed`.
        trouble: why it failed to load.
    """

    number: int = 0
    encoder: BatchedEncoder | None = None
    state: str = "loading"
    trouble: str = ""

    def changed(self, state: str, encoder: BatchedEncoder | None = None, trouble: str = "") -> OwnModel:
        """Return what it is from now on, with a number of its own where that is anything else."""
        same = (encoder, state, trouble) == self[1:]
        return self if same else OwnModel(self.number + 1, encoder, state, trouble)


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
