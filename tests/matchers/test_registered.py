"""A matcher of one's own is known by its name to recipes and checkpoints, and to no other process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from evenreel import load_matcher
from evenreel.checkpoint import About, EncoderNote, MatcherSpec, Pretrained, save_pretrained
from evenreel.errors import CheckpointError, UsageError
from evenreel.matchers import MATCHERS, Entry, build_matcher, register_matcher, registry
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.training import recipe_from
from evenreel.training.recipe import RecipeError


@dataclass(frozen=True)
class OwnSettings(MeanPoolSettings):
    shift: float = 0.0


class Shifted(MeanPool):
    def __init__(self, dimension: int, settings: OwnSettings) -> None:
        super().__init__(dimension, settings)
        self.shift = torch.nn.Parameter(torch.tensor(settings.shift))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_OWN", {})
    register_matcher("shifted", Entry(Shifted, OwnSettings))


def recipe(**matcher: object) -> dict[str, object]:
    return {"name": "own", "data": {"corpus": "c", "features": "f"}, "matcher": matcher}


def test_recipes_know_it_and_check_its_settings(registered: None) -> None:
    made = recipe_from(recipe(name="shifted", settings={"shift": 2}))
    assert made.matcher.settings == {"shift": 2.0}
    with pytest.raises(RecipeError, match=r"no setting matcher\.settings\.shifts"):
        recipe_from(recipe(name="shifted", settings={"shifts": 2}))
    assert list(MATCHERS)[-1] == "shifted"
    assert len(MATCHERS) == len(list(MATCHERS)) > 9


def test_a_checkpoint_of_it_is_loaded_where_it_is_registered_and_refused_where_not(
    registered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = MatcherSpec("shifted", {"shift": 0.5})
    matcher = build_matcher("shifted", 8, spec.settings)
    save_pretrained(tmp_path / "own", Pretrained(matcher, spec, About(EncoderNote("an encoder", "0" * 64, 8))))
    loaded = load_matcher(tmp_path / "own")
    assert isinstance(loaded.matcher, Shifted)
    assert loaded.matcher.shift.item() == 0.5
    monkeypatch.setattr(registry, "_OWN", {})
    with pytest.raises(CheckpointError, match="shifted"):
        load_matcher(tmp_path / "own")


def test_a_name_of_the_package_no_word_and_settings_that_are_no_dataclass_are_refused(registered: None) -> None:
    with pytest.raises(UsageError, match="'wti' is a matcher of the package"):
        register_matcher("wti", Entry(Shifted, OwnSettings))
    with pytest.raises(UsageError, match="no single word"):
        register_matcher("my matcher", Entry(Shifted, OwnSettings))
    with pytest.raises(UsageError, match="no dataclass"):
        register_matcher("other", Entry(Shifted, dict))
    assert "other" not in MATCHERS


def test_registering_again_replaces_it(registered: None) -> None:
    register_matcher("shifted", Entry(MeanPool, MeanPoolSettings))
    assert type(build_matcher("shifted", 8)) is MeanPool
