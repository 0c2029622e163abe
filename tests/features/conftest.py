"""Readers of these tests start in hundredths of a second."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def readers(forked_readers: None) -> None:
    """For every test of this folder."""
