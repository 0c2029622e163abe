"""Verdicts on rendered worlds, as the package ships them for `evenreel planted`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from benchmarks.admission_rules import figures
from benchmarks.evidence.page import Measured
from evenreel.planted import BiasName
from evenreel.planted.admission import Admission, save_admission, world_of
from evenreel.planted.harder import Harder


def save_admissions(found: Sequence[Measured], seeds: Sequence[int], strength: float) -> list[str]:
    """Write the verdict on each rendered world that has all figures into the package.

    Args:
        found: figures of biases; drawn ones are left out, since nobody plants them in videos.
        seeds: they are of.
        strength: of the biases.

    Returns:
        Names of what was written.
    """
    written = []
    for one in found:
        rules, rows = one.rules(), one.as_admission()
        if one.evidence.world == "drawn" or rules is None or rows is None:
            continue
        bias, harder = cast("BiasName", one.evidence.bias), Harder(**one.evidence.settings)  # type: ignore[arg-type]
        verdict = Admission(
            bias=bias,
            strength=strength,
            world=world_of(bias, strength, harder),
            seeds=tuple(seeds),
            clips=one.evidence.size.clips,
            steps=one.evidence.size.steps,
            means=figures(rows),
            rules={rule.rule: rule.figure for rule in rules},
            broken=tuple(rule.rule for rule in rules if not rule.holds),
            harder=dict(one.evidence.settings),
        )
        save_admission(verdict)
        written.append(one.evidence.name)
    return written
