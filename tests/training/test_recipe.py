"""Recipes are read back as they were written, and what is wrong with one is said in a sentence with its place."""

from __future__ import annotations

import inspect
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evenreel.matchers.adapter import AdapterSettings
from evenreel.training import RecipeError, find_recipe, load_recipe, recipe_from, recipe_text
from evenreel.training.recipe import (
    Backbone,
    BackgroundExchange,
    Data,
    GalleryLikeness,
    Loop,
    MatcherChoice,
    Members,
    Optimiser,
    Recipe,
    Records,
    Schedule,
    Selection,
    Trim,
)

SECTIONS: tuple[type, ...] = (
    Data, Backbone, MatcherChoice, Trim, Members, GalleryLikeness, BackgroundExchange, Optimiser, Schedule, Loop,
    Selection, Records,
)  # fmt: skip
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


def test_a_recipe_says_what_differs_from_the_one_it_is_based_on(tmp_path: Path) -> None:
    """A chain of two on one of the package: tables merge, other values replace, null clears, --set comes last."""
    shipped = load_recipe(find_recipe("textvr/t_mass"))
    (tmp_path / "base.yaml").write_text(
        "based_on: textvr/t_mass\nname: mine\nadapter: null\nabout: {source: Mine., kept: null}\n"
        "trim: {least: 5}\nloop: {epochs: null, steps: 9}\noptimiser: {exempt: ['*bias']}\n"
    )
    (tmp_path / "own.yaml").write_text("based_on: base.yaml\ntrim: {preset: paper_literal}\nloop: {seed: 3}\n")
    found = load_recipe(tmp_path / "own.yaml", ["loop.batch_size=8", "trim.rule=random"])
    assert found.about.startswith("Mine. The settings are those for MSR-VTT. What differs here: Beside 12 frames")
    assert found.about.endswith("on the test split.")
    assert found == replace(
        shipped,
        name="mine",
        about=found.about,
        adapter=None,
        trim=Trim("random", 10.0, 60),
        loop=replace(shipped.loop, epochs=None, steps=9, seed=3, batch_size=8),
        optimiser=replace(shipped.optimiser, exempt=("*bias",)),
    )
    assert load_recipe(tmp_path / "base.yaml").trim == Trim(least=5)


@pytest.mark.parametrize(
    ("base", "sentence"),
    [
        ("own.yaml", "own.yaml, which is based on itself; break the circle"),
        ("other.yaml", "which is based on itself; break the circle"),
        ("none/such", "own.yaml has based_on: 'none/such'. There is no recipe 'none/such'"),
        ("[a, b]", "has based_on: ['a', 'b']"),
        ("bad.yaml", "bad.yaml is not a table of settings"),
    ],
)
def test_a_base_that_is_none_is_refused(tmp_path: Path, base: str, sentence: str) -> None:
    (tmp_path / "own.yaml").write_text(f"based_on: {base}\n")
    (tmp_path / "other.yaml").write_text("based_on: own.yaml\n")
    (tmp_path / "bad.yaml").write_text("- 1\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(tmp_path / "own.yaml")
    assert sentence in " ".join(str(caught.value).split())


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


TOWERS = ("data.features=null", "backbone.model=builtin")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ("loop.batch=3", "There is no setting loop.batch; there are batch_size, "),
        ("loop.batch_size=many", "loop.batch_size is 'many'; it must be a whole number."),
        ("loop.batch_size=1", "loop.batch_size is 1; it must be 2 to 1,048,576."),
        ("loop.precision=half", "loop.precision is 'half'; it must be 'float32' or 'bfloat16'."),
        ("loop.devices=3", "loop.batch_size is 128, which 3 devices cannot share equally"),
        ("loop.steps=5", "loop.epochs and loop.steps both say how long to train"),
        ("data.corpus=null", "data.corpus is None; it must be text."),
        ("data.features=null", "either data.features, computed once, or a backbone"),
        ("data.held_out=0.1", "data.validation and data.held_out both say"),
        ("optimiser.lr=.nan", "optimiser.lr is nan; it must be 0 to 10."),
        ("optimiser.betas=[0.9]", "optimiser.betas is [0.9]; it must be 2 values, each a number."),
        ("optimiser.exempt=3", "optimiser.exempt is 3; it must be a list of text."),
        ("adapter=3", "adapter is 3; it must be a table of settings."),
        ("adapter.kind=cubic", "adapter.kind is 'cubic'; it must be 'linear' or 'mlp' or 'none'."),
        ("backbone.train=true", "The setting backbone.model is missing."),
        ("backbone={model: builtin, rule: sometimes}", "backbone.rule: 'sometimes' is not a sampling rule"),
        ("matcher.settings.kind=ti", "There is no setting matcher.settings.kind; there are temperature."),
        ("matcher.name=none_such", "matcher.name is 'none_such'; the matchers are mean_pool, "),
        ("debias.preset=none", "debias.preset is 'none'; the presets are paper, release, neutral"),
        ("debias.share=2", "The setting share of debias is 2"),
        ("data.generated_share=1.5", "data.generated_share is 1.5; it must be 0 to 1"),
        ("loop", "--set takes PLACE=VALUE"),
        ("loop.steps=[", "The value of --set 'loop.steps=[' is not YAML"),
        ("data.on_screen=features", "data.on_screen goes with a backbone; "),
        (["adapter.windows=true", *TOWERS], "adapter.windows needs on-screen text, and "),
        (["without_habits={}", *TOWERS], "without_habits is fitted to features"),
        (["without_length={}", *TOWERS], "without_length is fitted to features"),
        (["likeness={}", *TOWERS], "likeness compares features"),
        (["likeness={split: train}"], "likeness.split is 'train', the split that is learned from"),
        (["trim.margin=0"], "trim.margin is 0, and no class"),
        (["trim={}", "data.validation=null"], "give data.validation, data.held_out or trim.target"),
        (["trim.target=train"], "trim.target is 'train', the split that is learned from"),
        (["trim.preset=paper"], "trim.preset is 'paper'; the presets are paper_literal, paper_reproducing"),
        (["members.count=1"], "members.count is 1; it must be 2 to 1,024."),
        (["members.only=3"], "members.only is 3, and members.count is 2: give one of 1 to 2."),
        (["members.at_once=3"], "members.at_once is 3, and members.count is 2: give no more"),
        (["members.fusion=learned", *TOWERS], "each member has an encoder of its own: leave them out, and fuse"),
        (["members={at_once: 2}", *TOWERS], "members with a backbone are trained one after the other"),
        (["members={only: 1, begin: full}", *TOWERS], "that all members begin with: set members.only to null"),
        (["members={}", "loop.devices=2"], "members are trained on one device each"),
        (["members.fusion=learned", "data.validation=null"], "look at the scores of a validation split"),
        (["members.standardise=true", "data.validation=null"], "look at the scores of a validation split"),
        (["members.fraction=1.0"], "members.fraction is 1.0; it must lie between 0 and 1."),
        (["members.longest_first=true", "members.split=equal"], "members.longest_first is for"),
        (["members.thresholds=[9]"], "members.split=adjusted and members.count=2 it must have 0"),
        (["members.split=thresholds"], "members.thresholds has 0 lengths"),
        (["members={split: thresholds, count: 3, thresholds: [9, 8]}"], "each must be more than the one before"),
        (["members={by: seed, fraction: 0.5}"], "members.by=seed divides nothing"),
        (["members={by: seed, begin: full}"], "members.by=seed learns from all clips already"),
        (["members={by: seed, steps: full}"], "members.by=seed takes all steps with each seed already"),
        (["members.fraction=0.5", "members.split=equal"], "where members.split is adjusted or random, and it is equal"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(recipe_file: Path, changes: str | list[str], sentence: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe_file, [changes] if isinstance(changes, str) else changes)
    assert sentence in str(caught.value)


def test_a_preset_of_trimming_and_what_differs_from_it(recipe_file: Path) -> None:
    changed = load_recipe(recipe_file, ["trim.least=5", "trim.preset=paper_literal", "trim.rule=random"])
    assert changed.trim == Trim(rule="random", margin=10.0, least=5)
    assert recipe_from(yaml.safe_load(recipe_text(changed))) == changed


@pytest.mark.parametrize("content", ["a: [", "- 1", "3", "", "name: x\n"])
def test_a_file_that_is_no_recipe(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(RecipeError, match="bad.yaml"):
        load_recipe(path)


def laughs() -> str:
    """Sixty lines that stand for 2^60 values."""
    lines = ["a0: &a0 [1, 1]"] + [f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]" for number in range(1, 60)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("name: " + "[" * 2_000 + "]" * 2_000, "nested too deeply, more than 100"),
        (laughs(), "stands for more than 100,000 values; do its aliases repeat each other?"),
        ("loop: {epochs: " + "9" * 5_000 + "}", "digits"),
        ("about: " + "x" * 10**6, "1,000,007 characters, at most 262,144 are read"),
    ],
    ids=["deep", "aliases", "digits", "long"],
)
def test_a_recipe_that_is_too_much_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "endless.yaml"
    path.write_text(content)
    with pytest.raises(RecipeError, match="endless.yaml") as raised:
        load_recipe(path)
    assert sentence in str(raised.value) and len(str(raised.value)) < 500


@pytest.mark.parametrize("digits", [10, 18, 19, 400, 4_200])
@pytest.mark.parametrize("place", ["loop.epochs", "loop.seed", "loop.batch_size", "optimiser.lr", "loop.accumulate"])
def test_a_number_of_many_digits_is_refused(recipe_file: Path, place: str, digits: int) -> None:
    if place == "loop.seed" and digits < 19:  # every seed of 64 bits is one
        return
    with pytest.raises(RecipeError, match=rf"{place} is [0-9e+.]+; (it must be|whole numbers)") as raised:
        load_recipe(recipe_file, [f"{place}={'9' * digits}"])
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "name", ["../../x", "..", "a/../../x", "/etc/x", "a//b", "a/", ".", "C:\\x", "a\\..\\x", "a\nb", "a\0b", "x" * 201]
)
def test_a_name_that_leads_out_of_its_folder_is_refused(recipe_file: Path, name: str) -> None:
    with pytest.raises(RecipeError, match="name is .*becomes the folder of the run"):
        recipe_from({**yaml.safe_load(recipe_file.read_text()), "name": name})


@given(st.text(alphabet="ab./\\ ~é-", max_size=12))
def test_the_folder_of_a_run_is_below_runs(name: str) -> None:
    try:
        recipe = recipe_from({**SMALL, "name": name})
    except RecipeError:
        return
    runs = Path("/somewhere/runs")
    assert runs in Path(os.path.normpath(runs / recipe.name)).parents


def test_a_recipe_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="There is no recipe 'no/such'"):
        find_recipe("no/such")


def test_a_backbone_reads_text_on_screen_where_it_is_told_where_to_find_some(recipe_file: Path) -> None:
    changes = [*TOWERS, "adapter.windows=true", "data.on_screen=features"]
    assert load_recipe(recipe_file, changes).data.on_screen == "features"


def test_settings_given_in_python_are_checked_too() -> None:
    with pytest.raises(RecipeError, match="optimiser.lr"):
        replace(recipe_from(SMALL), optimiser=replace(recipe_from(SMALL).optimiser, lr=-1.0))


def test_every_knob_is_documented() -> None:
    """In the docstring of its class, or beside or above it."""
    for kind in (Recipe, *SECTIONS):
        lines = inspect.getsource(kind).splitlines()
        for one in fields(kind):  # type: ignore[arg-type]
            place = next(row for row, line in enumerate(lines) if line.startswith(f"    {one.name}: "))
            beside = "  # " in lines[place] or lines[place - 1].startswith("    # ")
            assert beside or f"        {one.name}: " in (kind.__doc__ or ""), f"{kind.__name__}.{one.name}"
