"""What tests of libraries begin with; where nothing hangs on the words, they are read at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.library.damage import without_models
from tests.library.videos import write_folder


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """A folder with four videos of two seconds."""
    write_folder(tmp_path / "videos", 4)
    return tmp_path / "videos"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Where a library is to be."""
    return tmp_path / "library"


@pytest.fixture(scope="module")
def no_models() -> Iterator[None]:
    with without_models():
        yield


@pytest.fixture
def quick_text() -> Iterator[None]:
    """The words on screen come from a stub instead of models that take seconds to load."""
    with pytest.MonkeyPatch.context() as patch:  # of its own: a test may undo its patches halfway
        patch.setattr("evenreel.library.index.run.READER", "tests.library.stub_reader:QuickReader")
        yield
