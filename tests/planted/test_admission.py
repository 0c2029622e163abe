"""Admission of planted biases: what was measured stands in the package, and nothing that was not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evenreel.planted import Admission, PlantSettings, admission_line, admission_of, plan_corpus
from evenreel.planted import folder as module
from evenreel.planted.biases import Harder
from evenreel.planted.folder import read_admissions, save_admission, world_of


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "admission.json"
    path.write_text("[]", encoding="utf-8")
    monkeypatch.setattr(module, "SHIPPED", path)
    return path


def measured(*broken: str, strength: float = 0.9) -> Admission:
    return Admission(
        bias="visual",
        strength=strength,
        world=world_of("visual", strength),
        seeds=(10, 11, 12, 13, 14),
        clips=1_500,
        steps=500,
        means={"biased": 60.0, "oracle": 80.0},
        rules={"learning is needed": "2.0 [1.0, 3.0]", "the bias costs": "20.0 [18.0, 22.0]"},
        broken=broken,
    )


def test_what_was_saved_is_found_by_bias_and_strength_and_replaced() -> None:
    save_admission(measured("learning is needed", strength=0.5))
    save_admission(measured("learning is needed"))
    save_admission(measured())
    assert [(one.strength, one.admitted) for one in read_admissions()] == [(0.5, False), (0.9, True)]
    plan = plan_corpus("visual", 0.9, clips=10, seed=3)
    assert admission_of(plan) == measured()
    assert admission_of(plan_corpus("visual", 0.8, clips=10)) is None
    assert admission_of(plan_corpus("textual", 0.9, clips=10)) is None


def test_another_world_was_not_measured() -> None:
    save_admission(measured())
    own = plan_corpus("visual", 0.9, clips=10, settings=PlantSettings(captions=3))
    assert admission_of(own) is None
    save_admission(replace(measured(), world=world_of("visual", 0.8)))  # as if its scenes had been others then
    assert admission_of(plan_corpus("visual", 0.9, clips=10)) is None


def test_a_harder_world_has_a_verdict_of_its_own() -> None:
    harder = Harder(difficulty=1.0)
    found = replace(measured("learning is needed"), harder={"difficulty": 1.0}, world=world_of("visual", 0.9, harder))
    save_admission(measured())
    save_admission(found)
    assert len(read_admissions()) == 2
    assert admission_of(plan_corpus("visual", 0.9, clips=10, settings=PlantSettings(harder=harder))) == found
    assert admission_of(plan_corpus("visual", 0.9, clips=10)) == measured()
    half = PlantSettings(harder=Harder(difficulty=0.5))
    assert admission_of(plan_corpus("visual", 0.9, clips=10, settings=half)) is None


def test_the_line_says_yes_no_or_not_measured() -> None:
    assert "not measured" in admission_line(None)
    assert "yes (at strength 0.9, seeds 10, 11, 12, 13, 14)" in admission_line(measured())
    failed = admission_line(measured("learning is needed"))
    assert ": no (" in failed and "learning is needed (2.0 [1.0, 3.0])" in failed and "bias costs" not in failed
