"""Settings of test-time training as files: the shipped ones say what they should, and what is wrong is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenreel.adaptation.baselines.ttt import TTTSettings
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
from evenreel.training.recipe import RecipeError, settings_text
from tests.adaptation.shifted import SIZE, adapted

TITAN = replace(
    AdaptSettings(causal_fit=FitSettings(steps=1000, lr=1e-3, batch_size=128)),
    lr=1e-5, batch_size=128, bank=4096, matching=MatchSettings("rank_sum", alpha=1.0), causal=True,
    counterfactuals=CounterfactualSettings(beta=30, theta=0.5, mask="removed"),
    safety=SafetySettings(keep=1.0, teacher=0.0, held_out=0.0, roll_back=False, drift=False),
)  # fmt: skip
"""Section 4.1 of the paper, with nothing of ours."""


def test_what_comes_along_is_the_papers_and_ours_beside_it() -> None:
    assert {load_settings(name).objective for name in shipped_settings()} == {
        "pseudo_labels", "ttt", "ttt_flow", "rotation"
    }  # fmt: skip
    assert load_settings("titan/offline") == TITAN
    online, naive_one, safe = (load_settings(name) for name in ("titan/online", "titan/naive", "safe"))
    assert replace(online, protocol="offline", causal_fit=TITAN.causal_fit) == TITAN
    assert (naive_one.causal, naive_one.counterfactuals, naive_one.matching.match) == (False, None, "one_way")
    assert (safe.causal, safe.safety.drift, safe.safety.roll_back) == (False, True, True)


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
    assert naive(TITAN) == load_settings("titan/naive")


def test_all_that_come_along_are_read_back(tmp_path: Path) -> None:
    for number, name in enumerate(shipped_settings()):
        path = tmp_path / f"{number}.yaml"
        path.write_text(settings_text(load_settings(name)))
        assert load_settings(path) == load_settings(name)


def test_settings_of_a_file_and_of_the_command() -> None:
    changes = ["matching.alpha=0.5", "counterfactuals.beta=0.02", "safety.keep=0.5", "steps=3"]
    found = load_settings("titan/offline", changes)
    assert found.matching == MatchSettings(alpha=0.5)
    assert found.counterfactuals == CounterfactualSettings(beta=0.02, theta=0.5)
    assert found.safety == replace(TITAN.safety, keep=0.5) and found.steps == 3


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


NAN = float("nan")


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        *((CausalSettings, one) for one in ({"eta": 0}, {"hidden": 1}, {"aggregate": "softmax"}, {"mutual": "mine"})),
        *((CounterfactualSettings, one) for one in ({"beta": -1}, {"beta": NAN}, {"theta": "half"}, {"mask": "no"})),
        *((CounterfactualSettings, one) for one in ({"parts": ()}, {"parts": ("adverb",)}, {"seed": -1})),
        *((MatchSettings, one) for one in ({"match": "best"}, {"alpha": -0.5}, {"alpha": NAN}, {"alpha": "1"})),
        *((MatchSettings, one) for one in ({"capacity": 0}, {"capacity": 1.5}, {"temperature": None})),
        *((MatchSettings, one) for one in ({"temperature": 0.0}, {"iterations": 0}, {"iterations": 2.5})),
        *((TTTSettings, one) for one in ({"lambda_mean": -1.0}, {"drop": 1.0}, {"noise": -0.1}, {"queue": 2.5})),
        *((TTTSettings, one) for one in ({"temperature": 0.0}, {"relative": 1}, {"lambda_contrastive": NAN})),
        (TTTSettings, {"lambda_contrastive": 0.0, "lambda_mean": 0.0, "lambda_covariance": 0.0}),
        *((FlowSettings, one) for one in ({"layers": -1}, {"hidden": 0}, {"steps": 1.5}, {"lr": 0.0}, {"batch": 0})),
        *((FlowSettings, one) for one in ({"noise": -1.0}, {"held_out": 1.0}, {"seed": -1})),
    ],
)
def test_values_out_of_their_range_are_refused(settings: Callable[..., Any], wrong: dict[str, Any]) -> None:
    value = next(iter(wrong.values()))
    with pytest.raises(UsageError) as refused:
        settings(**wrong)
    named = len(wrong) > 1 or any(one in str(refused.value) for one in (*wrong, repr(value), "name one or more of"))
    assert named, refused.value
