"""Clips or files read in parallel by killable readers; those that cannot be read are set aside, the rest goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from evenreel.errors import MediaError
from evenreel.features.pool import Item, Reader, ReaderPool
from evenreel.progress import Progress


class ClipRun(ReaderPool[Reader, Item]):
    """A run over some clips or files, each done with one of several readers."""

    def __init__(
        self,
        new_reader: Callable[[], Reader],
        work: Callable[[Reader, Item], None],
        set_aside: Callable[[Item, MediaError], None],
        readers: int,
        progress: Progress,
    ) -> None:
        super().__init__(new_reader, self._attempt, readers)
        self._work, self._set_aside, self._progress = work, set_aside, progress
        self._items = self._done = 0
        self._counting = threading.Lock()

    def run(self, items: Sequence[Item]) -> None:
        """Process all items; call it once."""
        self._items = len(items)
        super().run(items)

    def _attempt(self, reader: Reader, item: Item) -> None:
        try:
            self._work(reader, item)
        except MediaError as error:
            if self.stopping:  # a worker that was ended by us is no fault of the item
                return
            self._set_aside(item, error)
        with self._counting:
            self._done += 1
            self._progress(self._done / self._items)
