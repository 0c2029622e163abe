"""The example of the docs page runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checkpoints.md"


def test_the_whole_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (whole,) = (block for block in blocks if "assert" in block)
    exec(whole, {})
    assert (tmp_path / "checkpoint" / "README.md").is_file()
