"""The benchmarks in miniature, made once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from evenreel.types import Corpus

from .tiny_benchmarks import BENCHMARKS, make_benchmark


@dataclass(frozen=True, eq=False)
class Miniatures:
    """The folder that the benchmarks lie in, each under its name, and their corpora."""

    root: Path
    corpora: dict[str, Corpus]


@pytest.fixture(scope="session")
def miniatures(tmp_path_factory: pytest.TempPathFactory) -> Miniatures:
    root = tmp_path_factory.mktemp("benchmarks")
    return Miniatures(root, {name: make_benchmark(name, root / name) for name in BENCHMARKS})
