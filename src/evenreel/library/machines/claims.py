"""Claims of workers on contents, so that none is read twice and not too much is under way."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenreel.features.clip_reader import WantedStages
from evenreel.library.index.plan import still_wanted
from evenreel.library.machines.orders import MOST_DEATHS, MOST_UNDER_WAY, WorkOrder
from evenreel.library.store import catalog

_DONE = "SELECT has_vision, has_text FROM clips WHERE clip_id = ?"


class Claims:
    """Keeps who reads which content in a round, beside the catalog, which it only reads.

    Nothing is lost where it dies: content may then be read twice, and is stored once.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        made = WorkOrder.from_json(order)
        self._wanted = made.wanted
        self._catalog = catalog.open_for_reading(Path(made.library))
        self._begin()

    def begin(self) -> None:
        """Begin another round, with tasks numbered anew."""
        self._begin()

    def _begin(self) -> None:
        self._starts: Counter[int] = Counter()
        self._under_way: set[int] = set()
        self._claims: dict[str, int] = {}

    def enter(self, number: int) -> str:
        """Return whether a task may begin: `go`, `wait` while much is under way, `died` where workers died of it."""
        if number not in self._under_way and len(self._under_way) >= MOST_UNDER_WAY:
            return "wait"
        self._under_way.add(number)
        self._starts[number] += 1
        return "died" if self._starts[number] > MOST_DEATHS else "go"

    def settle(self, number: int) -> None:
        """Note that the outcome of a task is stored."""
        self._under_way.discard(number)

    def claim(self, clip_id: str, number: int) -> dict[str, bool] | None:
        """Return the stages to do of a content; None where there are none, or another task has it."""
        if self._claims.setdefault(clip_id, number) != number:
            return None
        row = self._catalog.execute(_DONE, (clip_id,)).fetchone()
        if row is None:
            return asdict(self._wanted)
        wanted = still_wanted(self._wanted, WantedStages(bool(row[0]), bool(row[1])))
        return asdict(wanted) if wanted else None
