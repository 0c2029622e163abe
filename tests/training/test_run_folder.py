"""A folder is claimed before anything is read, kept from others, and refused where something else would be lost."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from lightning.fabric.utilities.rank_zero import rank_zero_only

from evenreel.errors import CorpusError, UsageError
from evenreel.training import RecipeError, load_recipe
from evenreel.training.loop import best_weights
from evenreel.training.run_folder import (
    CLIPS_READ,
    DATA,
    LAST,
    METRICS,
    RECIPE,
    TENSORBOARD,
    VERSIONS,
    MetricsFile,
    RunFolderError,
    claim,
    held,
    remember,
)
from tests.training.small_material import small_recipe

OTHER = small_recipe(optimiser={"lr": 0.5})
FULL_DISK = Path("/dev/full")


def begin(folder: Path) -> None:
    """What the first steps of a run leave, up to its first checkpoint."""
    claim(folder, small_recipe(), resume=False)
    remember(folder, {"rule": "2 midpoints", "windows": None})
    MetricsFile(folder / METRICS).add(1, 0.5, {"loss": 1.0})
    (folder / LAST).parent.mkdir()
    (folder / LAST).touch()


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_without_a_checkpoint_is_begun_again(tmp_path: Path, resume: bool) -> None:
    begin(tmp_path)
    (tmp_path / LAST).unlink()
    best_weights(tmp_path, 7).touch()
    for logs in (TENSORBOARD, "wandb"):
        (tmp_path / logs).mkdir()
        (tmp_path / logs / "events.1").touch()
    claim(tmp_path, OTHER, resume=resume)
    assert not best_weights(tmp_path, 7).exists()
    assert not (tmp_path / TENSORBOARD).exists(), "its curves would be drawn over those of the run that is begun"
    remember(tmp_path, {"rule": "3 midpoints"})
    assert load_recipe(tmp_path / RECIPE) == OTHER
    assert json.loads((tmp_path / DATA).read_text()) == {"rule": "3 midpoints"}


@pytest.mark.parametrize("left", [left for count in range(5) for left in combinations(range(4), count)])
def test_whatever_a_killed_claim_left_can_be_begun(tmp_path: Path, left: tuple[int, ...]) -> None:
    names = (VERSIONS, DATA, CLIPS_READ, Path(".recipe.yaml.0123.tmp"))
    for number in left:
        (tmp_path / names[number]).touch()
    claim(tmp_path, small_recipe(), resume=False)


def test_a_run_with_a_checkpoint_is_only_resumed(tmp_path: Path) -> None:
    begin(tmp_path)
    with pytest.raises(UsageError, match="holds a run already; add --resume"):
        claim(tmp_path, small_recipe(), resume=False)
    with pytest.raises(RecipeError) as caught:
        claim(tmp_path, OTHER, resume=True)
    again = f"evenreel train {tmp_path / RECIPE} --out {tmp_path} --resume"
    assert "another recipe: optimiser.lr was 0.01 and is 0.5; give another" in str(caught.value)
    assert str(caught.value).endswith(f"resume it with: {again}")
    assert load_recipe(tmp_path / RECIPE) == small_recipe()


@pytest.mark.parametrize(
    "changes",
    [
        {"records": {"every_steps": 7}},
        {"out": "elsewhere"},
        {"loop": {"workers": 3}},
        {"data": {"corpus": "moved", "features": "moved too", "videos": "also"}},
    ],
)
def test_what_a_resumed_run_may_have_otherwise(tmp_path: Path, changes: dict[str, Any]) -> None:
    begin(tmp_path)
    claim(tmp_path, small_recipe(**changes), resume=True)
    assert load_recipe(tmp_path / RECIPE) == small_recipe(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loop": {"batch_size": 4}}, "recipe: loop.batch_size was 8 and is 4; give"),
        ({"matcher": {"settings": {"temperature": 0.5}}}, "matcher.settings.temperature was null and is 0.5; give"),
        (
            {"adapter": None, "data": {"train": "b"}},
            'data.train was "train" and is "b", adapter was a table and is null',
        ),
    ],
)
def test_what_it_may_not_is_named(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    begin(tmp_path)
    with pytest.raises(RecipeError, match=sentence):
        claim(tmp_path, small_recipe(**changes), resume=True)


@pytest.mark.parametrize("name", ["letter.txt", str(METRICS), "checkpoints"])
def test_a_folder_of_other_things_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    """Another program also writes metrics.csv: without a recipe beside it, it is none of ours."""
    (tmp_path / name).write_text("dear")
    with pytest.raises(UsageError, match="holds other things than a run"), held(tmp_path, OTHER, resume=False):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_resumed_run_has_the_data_that_it_began_with(tmp_path: Path) -> None:
    begin(tmp_path)
    remember(tmp_path, {"rule": "2 midpoints", "windows": None})
    with pytest.raises(CorpusError) as caught:
        remember(tmp_path, {"rule": "3 midpoints", "windows": 4})
    assert "other data: rule was 2 midpoints and is 3 midpoints, windows was None and is 4; put" in str(caught.value)
    (tmp_path / DATA).write_text("{")
    with pytest.raises(RunFolderError, match="nobody knows what data the run had"):
        remember(tmp_path, {})


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        held(tmp_path / "run", small_recipe(), resume=False),
        pytest.raises(UsageError, match="is being written by process .*give another folder with --out"),
        held(tmp_path / "run", small_recipe(), resume=True),
    ):
        pass
    with held(tmp_path / "run", small_recipe(), resume=False):
        assert (tmp_path / "run" / RECIPE).is_file()


def test_the_processes_of_other_devices_claim_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    begin(tmp_path / "run")
    with held(tmp_path / "run", OTHER, resume=False):
        pass
    assert load_recipe(tmp_path / "run" / RECIPE) == small_recipe()


@pytest.mark.parametrize(("place", "sentence"), [("file", "is a file; give a folder"), ("file/run", "Not a directory")])
def test_a_place_where_no_folder_can_be(tmp_path: Path, place: str, sentence: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=sentence), held(tmp_path / place, OTHER, resume=False):
        pass


@pytest.mark.skipif(not FULL_DISK.exists(), reason="there is no disk here that is always full")
def test_a_full_disk_is_said_in_a_sentence() -> None:
    with pytest.raises(RunFolderError, match="cannot be written .No space left on device.; mend that"):
        MetricsFile(FULL_DISK).add(1, 0.5, {"loss": 1.0})
