"""What is measured: worlds with a planted bias, and the rows of each, published methods, controls and corrections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE
from evenreel.papers.cells import Figures
from evenreel.types import Corpus, TextFeatures, VideoFeatures

Kind = Literal["untrained", "baseline", "admission", "control", "published", "ours"]
STRENGTH = 0.9
BASELINE, REFERENCE, AGAIN = "baseline", "reference", "again"
ADMISSION = (REFERENCE, AGAIN, HALF, TWICE, NO_ADAPTER)
"""Rows that the rules of admission need beside the baseline and all of the kind `untrained`."""
METRICS = ("R@1", "mAP")
TRAINING_S, SEARCH_S = "training, s", "search, s"
"""Seconds of processor time: of all trainings of a row, and of scoring the test split."""


class Part(Protocol):
    """A split of a world."""

    @property
    def corpus(self) -> Corpus:
        """Its clips, with one caption each."""

    @property
    def texts(self) -> TextFeatures:
        """Features of the captions."""

    @property
    def videos(self) -> VideoFeatures:
        """Features of the clips."""


class Parts(Protocol):
    """A world: what is learned from, what weights are selected on, what is tested."""

    train: Any
    val: Any
    test: Any


@dataclass(frozen=True)
class Row:
    """One row of a table: how a model is made or read.

    Attributes:
        kind: `untrained` readings; the `baseline`, plain training, which is the oracle where nothing is planted; rows
            for `admission`; a `control` that corrects nothing at the same cost; a method as `published`; `ours`.
        words: what it is, in a sentence of a few words.
        steps: of all trainings together, in times of the baseline's.
        models: kept for search.
        uses: what it is given beyond training pairs and their features, for example `lengths`.
        unavailable: whether users do not have what it uses, so that it is a bound and no answer.
        chosen: whether this is the correction that is recommended, chosen on other seeds than those that are reported.
    """

    kind: Kind
    words: str
    steps: float = 1.0
    models: int = 1
    uses: str = ""
    unavailable: bool = False
    chosen: bool = False


PLAIN_ROWS: Mapping[str, Row] = {
    AGAIN: Row("admission", "the baseline from another start"),
    HALF: Row("admission", "half the steps", steps=0.5),
    TWICE: Row("admission", "twice the steps", steps=2.0),
    NO_ADAPTER: Row("admission", "features as they are"),
}
"""Rows for admission that change nothing but the training of the baseline."""


@dataclass(frozen=True)
class Size:
    """How much is drawn and trained.

    Attributes:
        clips: training clips; clips of all splits of a rendered world.
        test_clips: test clips at most; 0 for as many as a rendered world has.
        steps: of the baseline's training.
    """

    clips: int = 20_000
    test_clips: int = 2_000
    steps: int = 600


class Place(NamedTuple):
    """Which world: seed and strength of what is planted, its size, and the folder of the annotation tables."""

    seed: int
    strength: float
    size: Size
    annotations: Path


@dataclass(frozen=True)
class Evidence:
    """A bias in a world, with all rows that are measured on it.

    Attributes:
        world: `drawn`, `rendered`, or `harder` for rendered videos with `settings`.
        bias: name of the bias.
        rows: by name; the baseline is among them. Names of readings without training begin with `untrained`.
        draw: makes the world of a seed and strength.
        measure: makes some rows on a world that was drawn, each with the figures of `METRICS` in percent and seconds.
        size: how much is drawn.
        oracle: row that the baseline is compared with at full strength, where the bias is a task that needs more
            input; None for the baseline where nothing is planted.
        settings: of a harder rendered world, by name.
        beside: further figures of the rows that the page shows, with the bias and without.
    """

    world: str
    bias: str
    rows: Mapping[str, Row]
    draw: Callable[[Place], Any]
    measure: Callable[[Any, Place, Sequence[str]], Iterator[tuple[str, Figures]]]
    size: Size = Size()
    oracle: str | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of its file and heading."""
        return f"{self.world}-{self.bias}"

    @property
    def untrained(self) -> list[str]:
        """Names of the readings without training."""
        return [name for name, row in self.rows.items() if row.kind == "untrained"]

    @property
    def methods(self) -> list[str]:
        """Names of controls and corrections."""
        return [name for name, row in self.rows.items() if row.kind in ("control", "published", "ours")]


@dataclass(frozen=True)
class Cell:
    """One row on one world: what is measured once and written down."""

    world: str
    bias: str
    seed: int
    strength: float
    row: str
    clips: int
    test_clips: int
    steps: int

    @property
    def corpus(self) -> tuple[str, str, int, float]:
        """The world that it shares with other cells, see `benchmarks.over_seeds`."""
        return self.world, self.bias, self.seed, self.strength

    def __str__(self) -> str:
        return f"{self.world} {self.bias}, seed {self.seed}, strength {self.strength:g}"


def cells_of(evidence: Evidence, seeds: Sequence[int], strength: float, rows: Sequence[str] = ()) -> list[Cell]:
    """All cells of a bias, or those of some rows."""
    size = evidence.size
    return [
        Cell(evidence.world, evidence.bias, seed, one, row, size.clips, size.test_clips, size.steps)
        for seed in seeds
        for one in (strength, 0.0)
        for row in rows or evidence.rows
    ]
