"""Hazard 34: a small count of `scripts.damage_catalog`, the same damage each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import damage_catalog
from scripts.damage_catalog import Made, flip_bit, hurt_file, hurt_page, try_both
from tests.library.damage import without_models


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with without_models():
        yield damage_catalog.make(tmp_path_factory.mktemp("made") / "place", clips=3)


@pytest.mark.slow
def test_random_bits_pages_and_logs(made: Made, tmp_path: Path) -> None:
    """No error that is no sentence, no wrong answer that `verify` does not find, all repaired; much of it is found."""
    damages = [damage for damage in (flip_bit, hurt_page, hurt_file) for _ in range(5)]
    outcomes = [try_both(made, tmp_path / "damaged", damage, str(seed)) for seed, damage in enumerate(damages)]
    assert [outcome for outcome in outcomes if outcome.verdict.isupper()] == []
    assert sum(outcome.found for outcome in outcomes) >= 5
