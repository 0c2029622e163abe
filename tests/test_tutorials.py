"""The tutorials say what happens: their commands are run in order, and print what stands below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

TUTORIALS = REPOSITORY / "docs" / "tutorials"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUNS = {"console": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}


@pytest.mark.slow
@pytest.mark.parametrize("names", [["search"], ["fair", "correct"]], ids=" ".join)
@pytest.mark.timeout(900)
def test_what_a_tutorial_shows_is_what_is_printed(names: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"COLUMNS": "600", "XDG_DATA_HOME": str(tmp_path / "data")}
    for name in names:  # the second goes on in the folder of the first
        printed = ""
        for kind, text in BLOCK.findall((TUTORIALS / f"{name}.md").read_text(encoding="utf-8")):
            if kind in RUNS:
                command = [*RUNS[kind], text]
                done = subprocess.run(
                    command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, (text, done.stdout, done.stderr)
                printed = done.stdout.replace(f"{tmp_path}/", "")
            else:
                for line in text.strip("\n").splitlines():
                    assert numberless(line) in numberless(printed), (line, printed)


def numberless(text: str) -> str:
    """Leave out digits, which another machine's rounding may change, and how wide they are."""
    return re.sub(r"\s+", " ", re.sub(r"\d+", "0", text)).strip()
