"""Work on many pictures or captions in batches, which halve where memory runs out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from evenreel.errors import EncoderError

log = logging.getLogger("evenreel")

Made = TypeVar("Made")


class HalvingBatches:
    """Batch size of an encoder, which halves each time that memory does not suffice.

    Attributes:
        size: pictures or captions at a time at present.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, count: int, work: Callable[[slice], Made], item: int = 1) -> list[Made]:
        """Do the work on slices of 0 ... count, one after another, on smaller ones from where memory runs out."""
        results, start = list[Made](), 0
        while start < count:
            stop = min(start + max(1, self.size // item), count)
            try:
                results.append(work(slice(start, stop)))
            except MemoryError as error:
                self._halve(error)
                continue
            start = stop
        return results

    def _halve(self, error: MemoryError) -> None:
        if self.size <= 1:
            raise EncoderError("Memory does not suffice to encode a single frame or caption.") from error
        self.size //= 2
        log.warning("memory ran out, going on with %d at a time", self.size)
