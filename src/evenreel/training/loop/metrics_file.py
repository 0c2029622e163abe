"""metrics.csv: a row for every figure of a run, in the order that they came."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from evenreel.documents import whole_number
from evenreel.files import sync_file, write_durably
from evenreel.training.loop.run_folder import writing

COLUMNS = ("step", "epoch", "name", "value")


class MetricsFile:
    """The figures of a run, written at once; a resumed run takes back those that came after its checkpoint.

    Whatever writes raises `RunFolderError` where the disk refuses.

    Args:
        path: the file; made with the first row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, step: int, epoch: float, figures: Mapping[str, float]) -> None:
        """Append a row for each figure, every value so that it reads back as the same number."""
        new = not self.path.exists()
        with writing(self.path.parent), self.path.open("a", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            if new:
                rows.writerow(COLUMNS)
            rows.writerows((step, f"{epoch:.6g}", name, repr(float(value))) for name, value in figures.items())

    def make_durable(self) -> None:
        """Flush to disk, so that rows survive a power cut."""
        if self.path.exists():
            with writing(self.path.parent):
                sync_file(self.path)

    def of_step(self, step: int) -> dict[str, float]:
        """Return the figures of one step by name."""
        return {row[2]: float(row[3]) for row in self._rows() if int(row[0]) == step}

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """(step, value) points by the name of the figure, in the order that the figures came."""
        found: dict[str, list[tuple[float, float]]] = {}
        for step, _, name, value in self._rows():
            found.setdefault(name, []).append((float(step), float(value)))
        return found

    def cut_after(self, step: int) -> None:
        """Keep the rows up to a step; a row that a crash cut short goes with the rest."""
        kept = [row for row in self._rows() if int(row[0]) <= step]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *kept])
        with writing(self.path.parent):
            write_durably(self.path, text.getvalue().encode())

    def _rows(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
        whole = csv.reader(line for line in lines if line.endswith("\n"))
        return [row for row in whole if len(row) == len(COLUMNS) and whole_number(row[0]) is not None]
