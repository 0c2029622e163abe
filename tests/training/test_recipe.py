"""Recipes are read back as they were written, and what is wrong with one is said in a sentence with its place."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from evenreel.matchers.adapter import AdapterSettings
from evenreel.training import RecipeError, find_recipe, load_recipe, recipe_from, recipe_text
from evenreel.training.recipe import Backbone, Loop, Recipe

SMALL: dict[str, Any] = {
    "name": "small",
    "data": {"corpus": "corpus", "features": "features"},
    "matcher": {"name": "mean_pool", "settings": {"temperature": 0.05}},
}


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_text(recipe_from(SMALL)), encoding="utf-8")
    return path


def test_a_recipe_reads_back_as_it_was_written(recipe_file: Path) -> None:
    assert load_recipe(recipe_file) == recipe_from(SMALL)


def test_types_are_those_of_the_fields() -> None:
    values = {**SMALL, "optimiser": {"lr": 1, "betas": [0.9, 0.99], "exempt": ["*bias"]}, "adapter": {"kind": "mlp"}}
    recipe = recipe_from(values)
    assert isinstance(recipe.optimiser.lr, float)
    assert recipe.optimiser.betas == (0.9, 0.99)
    assert recipe.adapter == AdapterSettings(kind="mlp")


def test_a_number_of_yaml_that_python_reads_as_text_is_a_number(recipe_file: Path) -> None:
    assert load_recipe(recipe_file, ["optimiser.lr=1e-4"]).optimiser.lr == 1e-4  # to YAML 1.1 that is a string


def test_set_changes_what_the_file_says(recipe_file: Path) -> None:
    changed = load_recipe(recipe_file, ["loop.batch_size=6", "matcher.settings.temperature=0.5", "adapter.shared=true"])
    assert changed.loop == Loop(batch_size=6)
    assert changed.matcher.settings == {"temperature": 0.5}
    assert changed.adapter == AdapterSettings(shared=True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("loop.batch=3", "There is no setting loop.batch; there are batch_size, "),
        ("loop.batch_size=many", "loop.batch_size is 'many'; it must be a whole number."),
        ("loop.batch_size=true", "loop.batch_size is True; it must be a whole number."),
        ("loop.batch_size=1", "loop.batch_size is 1; it must be 2 or more."),
        ("loop.epochs=1.5", "loop.epochs is 1.5; it must be a whole number or null."),
        ("loop.precision=half", "loop.precision is 'half'; it must be 'float32' or 'bfloat16'."),
        ("loop.devices=3", "loop.batch_size is 128, which 3 devices cannot share equally"),
        ("loop.steps=5", "loop.epochs and loop.steps both say how long to train"),
        ("data.corpus=null", "data.corpus is None; it must be text."),
        ("data.features=null", "either data.features, computed once, or a backbone"),
        ("data.held_out=0.1", "data.validation and data.held_out both say"),
        ("optimiser.lr=.nan", "optimiser.lr is nan; it must be 0 to 10."),
        ("optimiser.eps=0.0", "optimiser.eps is 0.0; it must be 1e-15 to 1."),
        ("optimiser.betas=[0.9]", "optimiser.betas is [0.9]; it must be 2 values, each a number."),
        ("optimiser.exempt=3", "optimiser.exempt is 3; it must be a list of text."),
        ("adapter=3", "adapter is 3; it must be a table of settings."),
        ("adapter.kind=cubic", "adapter.kind is 'cubic'; it must be 'linear' or 'mlp'."),
        ("backbone.train=true", "The setting backbone.model is missing."),
        ("backbone={model: builtin, rule: sometimes}", "backbone.rule: 'sometimes' is not a sampling rule"),
        ("selection.goal=max", "There is no setting selection.goal; there are metric, "),
        ("matcher.settings.kind=ti", "There is no setting matcher.settings.kind; there are temperature."),
        ("matcher.name=none_such", "matcher.name is 'none_such'; the matchers are mean_pool, "),
        ("loop", "--set takes PLACE=VALUE"),
        ("loop.steps=[", "The value of --set 'loop.steps=[' is not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(recipe_file: Path, change: str, sentence: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe_file, [change])
    assert sentence in str(caught.value)


@pytest.mark.parametrize("content", ["a: [", "- 1", "3", "", "name: x\n"])
def test_a_file_that_is_no_recipe(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(RecipeError, match="bad.yaml"):
        load_recipe(path)


def test_a_recipe_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="There is no recipe 'no/such'"):
        find_recipe("no/such")


def test_a_backbone_reads_no_text_on_screen(recipe_file: Path) -> None:
    with pytest.raises(RecipeError, match="adapter.windows needs on-screen text, which only data.features can have"):
        load_recipe(recipe_file, ["data.features=null", "backbone.model=builtin", "adapter.windows=true"])


def test_settings_given_in_python_are_checked_too() -> None:
    with pytest.raises(RecipeError, match="optimiser.lr"):
        replace(recipe_from(SMALL), optimiser=replace(recipe_from(SMALL).optimiser, lr=-1.0))


def documented(kind: type) -> None:
    for one in fields(kind):  # type: ignore[arg-type]
        assert f"        {one.name}: " in (kind.__doc__ or ""), f"{kind.__name__}.{one.name} is not documented"


def test_every_knob_is_documented() -> None:
    documented(Recipe)
    recipe = replace(recipe_from({**SMALL, "data": {"corpus": "corpus"}, "backbone": {"model": "builtin"}}))
    assert isinstance(recipe.backbone, Backbone)
    for one in fields(recipe):
        value = getattr(recipe, one.name)
        if is_dataclass(value):
            documented(type(value))
