"""Shipped measurements of planted biases, by which a bias is admitted (can tell methods apart) or not.

They are made by `benchmarks/evidence`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenreel.files import write_durably
from evenreel.planted.biases import BiasName
from evenreel.planted.folder import RENDERER, page_of
from evenreel.planted.harder import Harder
from evenreel.planted.plan import PlantedCorpus, plan_corpus
from evenreel.planted.shots import PlantSettings
from evenreel.types import Shown

SHIPPED = Path(str(files("evenreel.planted").joinpath("admission.json")))
"""File in the package that `python -m benchmarks.evidence --save-admissions` writes."""
FEW_CLIPS = 40
"""Clips of a plan that stands for its world."""


@dataclass(frozen=True)
class Admission(Shown):
    """Measurements of a planted bias at one strength, by which it is admitted or not.

    Attributes:
        bias: name of the bias.
        strength: strength of the bias in training, 0 to 1.
        world: renderer and digest of what was rendered, see `world_of`.
        seeds: seeds of the corpora and trainings.
        clips: number of clips of each corpus, in all splits.
        steps: number of steps of each training.
        means: mean R@1 of each row (baseline, oracle, ...), in percent.
        rules: figure of each rule of admission, in words, by its name.
        broken: names of the rules that are not met.
        harder: settings of a harder world that are not the default, by name.
    """

    bias: BiasName
    strength: float
    world: str
    seeds: tuple[int, ...]
    clips: int
    steps: int
    means: dict[str, float]
    rules: dict[str, str]
    broken: tuple[str, ...]
    harder: dict[str, float] = field(default_factory=dict)

    @property
    def admitted(self) -> bool:
        """Whether every rule of admission is met."""
        return not self.broken


def admission_of(plan: PlantedCorpus) -> Admission | None:
    """Return the measurements of a planned corpus's bias at its strength; None where there are none.

    There are none either where the plan has settings of its own, other than those of a harder world, or where the
    renderer has changed since.
    """
    harder = plan.settings.harder
    if plan.settings != PlantSettings(harder=harder):
        return None
    world, key = world_of(plan.bias, plan.strength, harder), (plan.bias, plan.strength, harder.changed)
    return next((one for one in read_admissions() if _key(one) == key and one.world == world), None)


def admission_line(found: Admission | None) -> str:
    """Return a line that says whether a bias was admitted."""
    if found is None:
        return "Admitted as a benchmark: not measured for this bias, strength and settings."
    measured = f"at strength {found.strength:g}, seeds {', '.join(map(str, found.seeds))}"
    if found.admitted:
        return f"Admitted as a benchmark: yes ({measured})."
    failed = "; ".join(f"{rule} ({found.rules[rule]})" for rule in found.broken)
    return f"Admitted as a benchmark: no ({measured}); does not hold: {failed}."


def world_of(bias: BiasName, strength: float, harder: Harder | None = None) -> str:
    """Return an identifier of a planted world: the renderer's version, and a digest of what is planned by default."""
    settings = PlantSettings(harder=harder or Harder())
    return f"{RENDERER} {page_of(plan_corpus(bias, strength, FEW_CLIPS, settings=settings))['digest']}"


def read_admissions() -> list[Admission]:
    """Read the measurements of all planted biases and strengths."""
    entries: list[dict[str, Any]] = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return [Admission(**{**one, "seeds": tuple(one["seeds"]), "broken": tuple(one["broken"])}) for one in entries]


def save_admission(found: Admission) -> None:
    """Save measurements of a planted bias, in place of earlier ones of the same bias, strength and settings."""
    kept = [one for one in read_admissions() if _key(one) != _key(found)]
    entries = sorted([*kept, found], key=lambda one: (one.bias, one.strength, sorted(one.harder.items())))
    write_durably(SHIPPED, (json.dumps([asdict(one) for one in entries], indent=2) + "\n").encode())


def _key(found: Admission) -> tuple[BiasName, float, dict[str, float]]:
    """What one admission is of."""
    return found.bias, found.strength, found.harder
