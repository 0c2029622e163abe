"""Where nothing hangs on the words, they are read at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from evenreel.library import ingest


@pytest.fixture
def quick_text() -> Iterator[None]:
    """The words on screen come from a stub instead of models that take seconds to load."""
    quick = partial(ingest.IndexJob, reader="tests.library.stub_reader:QuickReader")
    with pytest.MonkeyPatch.context() as patch:  # of its own: a test may undo its patches halfway
        patch.setattr(ingest, "IndexJob", quick)
        yield
