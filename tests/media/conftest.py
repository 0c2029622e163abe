"""Here readers are what they are in use: a new Python each."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def forked_readers() -> None:
    """In the place of the one for all other tests."""
