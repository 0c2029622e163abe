"""Scripts that no test runs can be imported: a name that has moved is noticed here, as well as by mypy."""

from __future__ import annotations

import importlib

import pytest

from tests.conftest import REPOSITORY
from tests.each import check_each


def test_benchmarks_and_scripts_find_what_they_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts" / "same_outputs"))  # run by the name of its folder
    files = [path for folder in ("benchmarks", "scripts") for path in (REPOSITORY / folder).rglob("*.py")]
    names = [".".join(path.relative_to(REPOSITORY).with_suffix("").parts) for path in sorted(files)]
    check_each(names, importlib.import_module)
