"""What clips prefer, by a slow loop from the formula, and what cannot change it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits.composition.choices import Choices, Flatness, measured_choices
from evenreel.audits.edits.perturbed import Perturbed
from tests.audits.composition.small_readers import OWN, Table, content, corpus, heard, odd, of, said

BYTES = 2**20


def choices(true: Table, edited: Table, band_bytes: int = BYTES) -> Choices:
    perturbed = Perturbed.of(of(true), corpus(), {"edit": of(edited)})
    return measured_choices(perturbed, "edit", band_bytes)


def slowly(true: Table, edited: Table) -> dict[str, list[float]]:
    """The formulas of the method page, a caption and a clip at a time."""
    true, edited = true.astype(np.float32).astype(float), edited.astype(np.float32).astype(float)
    ratios, slopes = [], []
    for q in OWN:
        others = [w for w in range(len(true)) if w != q]
        ratios.append(np.std(edited[q, others]) / np.std(true[q, others]))
        slopes.append(np.polyfit(true[q, others], edited[q, others], 1)[0])
    flat, slope = min(1.0, float(np.median(ratios))), min(1.0, float(np.median(slopes)))
    found: dict[str, list[float]] = {"chosen": [], "beyond": [], "margin": [], "blurred": []}
    for q in OWN:
        others = [w for w in range(len(true)) if w != q]
        found["chosen"].append(100.0 * (true[q, q] > edited[q, q]))
        for name, weight in (("beyond", flat), ("blurred", slope)):
            own, equal = weight * true[q, q] - edited[q, q], 1e-5 * np.std(true[q, others])
            apart = [own - (weight * true[q, w] - edited[q, w]) for w in others]
            found[name].append(100 * np.mean([0.5 if abs(one) <= equal else one > 0 for one in apart]))
        gaps = [flat * true[q, q] - edited[q, q] - (flat * true[q, w] - edited[q, w]) for w in others]
        found["margin"].append(float(np.mean(gaps) / np.std(true[q, others])))
    return found


@pytest.mark.parametrize("edit", [odd, heard])
def test_choices_are_those_of_a_slow_loop(edit: Callable[[Table], Table]) -> None:
    true = said(content(), 0)
    edited = edit(content())
    found, expected = choices(true, edited, band_bytes=5000), slowly(true, edited)
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(found, name), values, atol=1e-9)


@given(st.floats(-50, 50), st.floats(0.1, 1.0), st.floats(0.1, 1.0), st.integers(0, 9))
def test_what_all_clips_prefer_and_hubs_change_no_choice(liked: float, flatter: float, hubs: float, seed: int) -> None:
    """A caption that all clips like better, scores nearer together, or clips liked by all are no reading."""
    random = np.random.default_rng(seed)
    true = content(seed)
    edited = heard(true)
    found = choices(true, edited)
    shift = liked * random.random((len(true), 1))
    np.testing.assert_allclose(choices(true, edited + shift).beyond, found.beyond, atol=0.9)
    same = choices(true, flatter * true + shift)
    np.testing.assert_allclose((same.beyond, same.margin), (np.full(len(true), 50), np.zeros(len(true))), atol=1e-3)
    more = hubs * random.exponential(size=true.shape[1])
    level = Flatness()
    one = Choices.of(true, edited, OWN, level)
    np.testing.assert_allclose(Choices.of(true + more, edited + more, OWN, level).beyond, one.beyond, atol=0.9)


def test_clips_that_are_not_retrieved_take_no_part() -> None:
    true = np.array([[2.0, 1.0, -np.inf, 0.0], [1.0, -np.inf, 0.0, 0.5], [0.0, 1.0, 2.0, 3.0]])
    edited = np.array([[1.0, 1.0, 5.0, 0.0], [0.0, 1.0, 0.0, 0.5], [0.0, 1.0, 2.0, 3.0]])
    found = Choices.of(true, edited, np.arange(3), Flatness())
    assert found.chosen.tolist()[0] == found.beyond.tolist()[0] == 100.0
    assert np.isnan([found.chosen[1], found.beyond[1], found.margin[1], found.blurred[1]]).all()
    assert (found.chosen[2], found.beyond[2], found.margin[2]) == (50.0, 50.0, 0.0)
    assert found.margin[0] == pytest.approx(1.0 / 0.5)  # one more than the others, which have 1 and 0


def test_a_caption_without_other_clips_takes_no_part() -> None:
    found = Choices.of(np.array([[1.0, -np.inf]]), np.array([[0.0, 1.0]]), np.array([0]), Flatness())
    assert np.isnan([found.chosen[0], found.beyond[0]]).all()
