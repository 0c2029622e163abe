"""`benchmarks/evidence`: shares closed, harm and admission on figures made by hand; the page is what the files say."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE
from benchmarks.evidence import __main__ as command
from benchmarks.evidence.page import Measured, evidence_page, reaches, read, section, summary
from benchmarks.evidence.registry import EVIDENCE
from benchmarks.evidence.rows import AGAIN, BASELINE, REFERENCE, Cell, Evidence, Place, Row, cells_of
from benchmarks.evidence.work import WORLD, of_world
from evenreel.errors import EvenreelError
from evenreel.papers.cells import Figures
from tests.conftest import REPOSITORY

SEEDS = range(10, 15)
WAVE = dict(zip(SEEDS, (1.0, -1.0, 0.5, -0.5, 0.0), strict=True))
"""What the seeds differ by."""
FIGURES = {
    "untrained, mean": (20.0, 20.0),
    BASELINE: (60.0, 80.0),
    REFERENCE: (80.0, 80.0),
    AGAIN: (60.0, 80.0),
    HALF: (58.0, 78.0),
    TWICE: (61.0, 81.0),
    NO_ADAPTER: (40.0, 41.0),
    "half": (71.0, 79.9),
    "harmful": (75.0, 70.0),
}
"""R@1 of each row with the bias and without it."""


def evidence(**changed: Any) -> Evidence:
    """A bias with a correction that closes 55 % and one that does harm."""
    rows = {name: Row("admission", "a row.") for name in FIGURES}
    rows |= {"untrained, mean": Row("untrained", "the mean frame."), BASELINE: Row("baseline", "plain training.")}
    rows |= {"half": Row("ours", "half.", chosen=True), "harmful": Row("published", "harmful.", steps=2.0, models=2)}
    return Evidence("drawn", "length", rows, drawn, measured_rows, **changed)


def drawn(place: Place) -> Any:
    """A world of five numbers."""
    one = SimpleNamespace(
        videos=SimpleNamespace(frames=np.full(3, place.seed + place.strength)),
        texts=SimpleNamespace(words=np.ones(2)),
    )
    return SimpleNamespace(train=one, val=one, test=one)


def measured_rows(_: Any, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The figures of the table, a little more or less by the seed."""
    for row in rows:
        value = FIGURES[row][0 if place.strength else 1] + WAVE[place.seed] * (row == "half")
        yield row, {"R@1": value, "mAP": value / 2, "training, s": 2.0, "search, s": 0.5}


def written(folder: Path, asked: Evidence, strength: float = 0.9) -> None:
    """Write the figures of all cells as the engine does."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells_of(asked, list(SEEDS), strength):
        groups.setdefault(cell.corpus, []).append(cell)
    lines = [{"run": asdict(cell), "rows": rows} for own in groups.values() for cell, rows in of_world(folder, own)]
    (folder / f"{asked.name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """The bias with all its figures."""
    asked = evidence()
    monkeypatch.setattr("benchmarks.evidence.work.EVIDENCE", (asked,))
    written(tmp_path, asked)
    return read(asked, tmp_path, list(SEEDS), 0.9)


def test_shares_and_harm_are_what_one_calculates_by_hand(made: Measured) -> None:
    assert made.closed("half").mean == pytest.approx(100 * 11 / 20)
    # Student's t of 4 degrees of freedom is 2.776; the values -1, 1, .5, -.5, 0 have a deviation of .7906
    half_width = 2.776 * 0.7906 / 5**0.5
    assert made.closed("half").low == pytest.approx(55 - 100 * half_width / 20, abs=0.01)
    assert made.harm("half") == pytest.approx((-0.1, -0.1 - half_width, -0.1 + half_width), abs=1e-3)
    assert made.harm("harmful").mean == -10
    assert [rule.holds for rule in made.rules() or []] == [True] * 5


def test_a_correction_is_worth_using_only_where_it_does_no_harm(made: Measured) -> None:
    assert not reaches(made, "harmful")
    assert not reaches(made, "half")  # its harm may be more than a point
    steady = Measured(made.evidence, made.biased, made.free | {"half": made.free[BASELINE]})
    assert reaches(steady, "half")
    weak = Measured(made.evidence, made.biased | {"half": made.biased[HALF]}, steady.free)
    assert not reaches(weak, "half")


def test_the_page_has_every_row_with_its_costs(made: Measured) -> None:
    page = section(made)
    assert "| **`half`** | ours | 71.0 | 55.0 [50.1, 59.9] | -0.1 [-1.1, 0.9] | 44.5 [44.5, 44.5] | ×1 | 1 |" in page
    assert "| `harmful` | published | 75.0 | 75.0 [75.0, 75.0] | -10.0 [-10.0, -10.0] | -25.0 [-25.0, -25.0] |" in page
    assert "gap: R@1 20.0 [20.0, 20.0]" in page
    assert "| yes | `harmful`: closes 75.0 [75.0, 75.0], left -25.0 [-25.0, -25.0] | `half`" in summary([made])


def test_a_row_that_misses_a_seed_is_not_shown(tmp_path: Path, made: Measured) -> None:
    lines = (tmp_path / "drawn-length.jsonl").read_text().splitlines()
    kept = [line for line in lines if not ('"half"' in line and '"seed": 12' in line)]
    (tmp_path / "drawn-length.jsonl").write_text("\n".join(kept) + "\n")
    assert "`half`" not in section(read(made.evidence, tmp_path, list(SEEDS), 0.9))


def test_rows_of_different_worlds_are_not_compared(tmp_path: Path, made: Measured) -> None:
    path = tmp_path / "drawn-length.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[3]["rows"] = {name: {**figures, WORLD: 1} for name, figures in lines[3]["rows"].items()}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(EvenreelError, match="different worlds"):
        read(made.evidence, tmp_path, list(SEEDS), 0.9)


def test_the_page_in_the_docs_is_what_the_files_say() -> None:
    page = evidence_page(EVIDENCE, REPOSITORY / "benchmarks" / "results", SEEDS, 0.9)
    shown = (REPOSITORY / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert shown == page, "python -m benchmarks.evidence --page docs/evidence.md"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--seeds", "1"], "at least 2"),
        ([], "--annotations"),
    ],
)
def test_wrong_options_get_a_sentence(
    options: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evidence", *options])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err
