"""A small training run in a process of its own: `python -m tests.training.train_once FOLDER SETTINGS [MODEL]`.

With a model, its towers learn too.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenreel.training.run import Outside, train
from tests.training.small_material import recall_at_1, small_material, small_recipe, tower_material


def run(folder: Path, settings: Mapping[str, Any], *, resume: bool = False, pause_s: float = 0.0) -> None:
    """Train by the small recipe with these changes, waiting after each step so that a test can kill it in time."""

    def watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
        time.sleep(pause_s)

    train(small_recipe(**settings), small_material(), folder, Outside(recall_at_1, watch=watch, resume=resume))


def run_with_towers(folder: Path, settings: Mapping[str, Any], model: Path) -> None:
    """The same through the towers of a model."""
    train(small_recipe(**settings), tower_material(model), folder, Outside(recall_at_1))


if __name__ == "__main__":
    place, changes, *models = sys.argv[1:]
    if models:
        run_with_towers(Path(place), json.loads(changes), Path(models[0]))
    else:
        run(Path(place), json.loads(changes))
