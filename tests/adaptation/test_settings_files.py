"""Settings of test-time training as files: the shipped ones say what they should, and what is wrong is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from evenreel.adaptation.baselines.ttt_flow import FlowSettings
from evenreel.adaptation.learning import learnable
from evenreel.adaptation.preparing import PrepareSettings
from evenreel.adaptation.settings import AdaptSettings, FitSettings, SafetySettings, naive
from evenreel.adaptation.settings_files import load_prepare_settings, load_settings, shipped_settings
from evenreel.adaptation.titan.causal import CausalSettings
from evenreel.adaptation.titan.counterfactuals import CounterfactualSettings
from evenreel.adaptation.titan.matching import MatchSettings
from evenreel.errors import UsageError
from evenreel.matchers.wti import Wti, WtiSettings
from evenreel.training.recipe.files import settings_text
from evenreel.training.recipe.recipe import RecipeError
from tests.adaptation.shifted import SIZE, adapted

UNSAFE = SafetySettings(keep=1.0, teacher=0.0, held_out=0.0, roll_back=False, drift=False)
PAPER = AdaptSettings(
    objective="pseudo_labels",
    protocol="offline",
    predict="after",
    learns="all",
    lr=1e-5,
    batch_size=128,
    steps=1,
    epochs=1,
    bank=4096,
    ranks="bank",
    matching=MatchSettings("rank_sum", alpha=1.0),
    counterfactuals=CounterfactualSettings(beta=30, theta=0.5, mask="removed"),
    causal=True,
    causal_fit=FitSettings(steps=1000, lr=1e-3, batch_size=128, seed=0),
    decides="correction",
    safety=UNSAFE,
)
PER_BATCH = FitSettings(steps=200, lr=1e-3, batch_size=128, seed=0)
BASELINE = replace(PAPER, counterfactuals=None, causal=False)
SAFE = replace(
    PAPER,
    lr=1e-3,
    epochs=4,
    learns="auto",
    causal=False,
    decides="ranks",
    safety=SafetySettings(keep=0.7, teacher=0.9, held_out=0.25, roll_back=True, drift=True, confidence=0.95),
)
ROTATION = replace(
    BASELINE,
    objective="rotation",
    learns="auto",
    lr=1e-5,
    bank=8192,
    alike=0.75,
    matching=MatchSettings("sinkhorn", temperature=0.02),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("titan/offline", PAPER),
        ("titan/online", replace(PAPER, protocol="online", causal_fit=PER_BATCH)),
        ("titan/naive", replace(BASELINE, matching=MatchSettings("one_way"))),
        ("titan/ttt", replace(BASELINE, objective="ttt")),
        ("titan/ttt-flow", replace(BASELINE, objective="ttt_flow")),
        ("rotation", ROTATION),
        ("safe", SAFE),
        ("safe-online", replace(SAFE, protocol="online", epochs=1, steps=4, causal_fit=PER_BATCH)),
    ],
)
def test_what_comes_along(name: str, expected: AdaptSettings) -> None:
    assert load_settings(name) == expected


def test_the_target_stage_is_set_like_anything_else(tmp_path: Path) -> None:
    changes = ["causal_fit.steps=200", "causal_fit.lr=1e-4", "causal_fit.batch_size=32", "causal_fit.seed=7"]
    assert load_settings("titan/online", changes).causal_fit == FitSettings(200, 1e-4, 32, 7)
    (tmp_path / "own.yaml").write_text("causal_fit: {steps: 0}\n")
    assert load_settings(tmp_path / "own.yaml").causal_fit == FitSettings(steps=0)
    for change, sentence in (
        ("causal_fit.steps=-1", "The setting steps of causal_fit is -1; it must be a whole number, at least 0 and "),
        ("causal_fit.lr=0", "The setting lr of causal_fit is 0.0; it must be a number above 0."),
        ("causal_fit.rate=1", "There is no setting causal_fit.rate; there are steps, lr, batch_size, seed."),
    ):
        with pytest.raises(RecipeError) as refused:
            load_settings("safe", [change])
        assert sentence in str(refused.value)


def test_the_source_stage_has_settings_of_the_same_name(tmp_path: Path) -> None:
    assert load_prepare_settings() == PrepareSettings()
    (tmp_path / "own.yaml").write_text("causal_fit: {steps: 30, lr: 0.01}\ncausal: {eta: 5}\n")
    found = load_prepare_settings(tmp_path / "own.yaml", ["causal_fit.lr=0.1", "seed=3", "flow.steps=4"])
    assert found == PrepareSettings(CausalSettings(eta=5), FitSettings(steps=30, lr=0.1), FlowSettings(steps=4), seed=3)
    for change, sentence in (
        ("causal_fit.steps=many", "causal_fit.steps is 'many'; it must be a whole number."),
        ("seed=-1", "The setting seed of preparation is -1; it must be a whole number, at least 0 and "),
        ("fit.steps=3", "There is no setting fit; there are causal, causal_fit, flow, seed."),
        ("causal_fit.steps", "--set takes PLACE=VALUE"),
    ):
        with pytest.raises(RecipeError) as refused:
            load_prepare_settings(changes=[change])
        assert sentence in str(refused.value)


def test_naive_settings_are_the_same_but_for_their_labels() -> None:
    assert naive(replace(PAPER, lr=1e-3)) == replace(BASELINE, lr=1e-3, matching=MatchSettings("one_way"))


def test_all_that_come_along_are_tested_and_settings_read_back(tmp_path: Path) -> None:
    titan = {f"titan/{name}" for name in ("offline", "online", "naive", "ttt", "ttt-flow")}
    known = {"rotation", "safe", "safe-online"} | titan
    assert set(shipped_settings()) == known
    for number, name in enumerate(known):
        path = tmp_path / f"{number}.yaml"
        path.write_text(settings_text(load_settings(name)))
        assert load_settings(path) == load_settings(name)


def test_settings_of_a_file_and_of_the_command() -> None:
    changes = ["matching.alpha=0.5", "counterfactuals.beta=0.02", "safety.keep=0.5", "steps=3"]
    found = load_settings("titan/offline", changes)
    assert found.matching == MatchSettings(alpha=0.5)
    assert found.counterfactuals == CounterfactualSettings(beta=0.02, theta=0.5)
    assert found.safety == replace(UNSAFE, keep=0.5) and found.steps == 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["safety.kep=0.5"], "There is no setting safety.kep; there are keep"),
        (["lr=-1"], "The setting lr of adaptation is -1.0; it must be a number above 0"),
        (["objective=supervised"], "objective is 'supervised'; it must be 'pseudo_labels' or 'rotation' or 'ttt'"),
        (["lr"], "--set takes PLACE=VALUE"),
        (["causal=maybe"], "causal is 'maybe'; it must be true or false"),
    ],
)
def test_what_is_wrong_is_said(changes: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_settings("safe", changes)
    assert sentence in str(raised.value)


def test_whose_fault_it_is_is_said(tmp_path: Path) -> None:
    """The file's alone, or with what was changed in it; the file of a name is nobody's business."""
    with pytest.raises(RecipeError) as raised:
        load_settings("safe", ["lr=1e-3", "bank=1"])
    first, second = raised.value.args
    assert first == "The file of settings safe, with lr=1e-3, bank=1, cannot be followed:"
    assert (
        second
        == "The setting bank of adaptation is 1; it must be a whole number, at least 2 and at most 1,000,000,000."
    )
    (tmp_path / "own.yaml").write_text("lrr: 1\n")
    with pytest.raises(RecipeError) as raised:
        load_settings(tmp_path / "own.yaml")
    assert raised.value.args[0] == f"The file of settings {tmp_path / 'own.yaml'} cannot be followed:"


def test_no_such_settings(tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match="no file of settings 'titn', neither a file nor one of the package: rotation, safe"
    ):
        load_settings("titn")
    (tmp_path / "list.yaml").write_text(yaml.safe_dump([1, 2]))
    with pytest.raises(RecipeError, match="is not a table of settings"):
        load_settings(tmp_path / "list.yaml")


def test_auto_learns_heads_where_there_are_any() -> None:
    behind = adapted()
    assert learnable(behind, "auto") == learnable(behind, "heads")
    alone = Wti(SIZE, WtiSettings())
    assert learnable(alone, "auto") == learnable(alone, "all")
