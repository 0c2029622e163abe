"""What tests of indexing on many machines begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import evenreel.encoders
from evenreel.config import Machines
from evenreel.library import index_folders
from evenreel.library.index import spread
from evenreel.library.index.scan import IndexReport
from tests.library.machines import here
from tests.library.s3 import s3_server

__all__ = ["s3_server"]


@pytest.fixture(autouse=True)
def stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models and readers that are there at once, here and on other machines."""
    monkeypatch.setattr(evenreel.encoders, "load_encoder", here.load)
    monkeypatch.setattr(spread, "LOADER", here.LOADER)
    monkeypatch.setattr("evenreel.library.index.run.READER", here.READER)


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """Machines that are this process."""
    monkeypatch.setattr(spread, "driven", here.driven)
    yield Machines(ray="local")
    for one in (here.rounds, here.lost, here.told):
        one.clear()


@pytest.fixture
def plain(tmp_path: Path, videos: Path) -> tuple[Path, IndexReport]:
    """The library of a run on this machine alone, and its report."""
    return tmp_path / "plain", index_folders([videos], tmp_path / "plain", here.SETTINGS)
