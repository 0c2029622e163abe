"""Hazard 33: kill -9 at random points, then go on; the end state is that of an undisturbed run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_killing_the_indexer_at_twenty_random_points_changes_nothing() -> None:
    command = [sys.executable, "-m", "tests.library.killed_rounds", "--rounds", "20", "--clips", "4"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) >= 20, done.stdout
    assert ", 0 in another state" in done.stdout
