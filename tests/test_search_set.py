"""The search set says which figure falls, and whose answers changed."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.search_set import compare

BEFORE: dict[str, Any] = {
    "60 said: right": {"figures": {"questions": 4, "MRR": 0.75, "R@1": 0.5, "R@10": 1.0}, "answers": {"ba": "1, 2"}},
    "60 seen": {"figures": {"questions": 4, "MRR": 0.75, "R@1": 0.5, "R@10": 1.0}, "answers": {"a": "1, 2"}},
    "60 moments: said": {"figures": {"questions": 2, "lands": 1.0, "off_s": 0.5}, "answers": {"do": "3"}},
}


@pytest.mark.parametrize(
    ("name", "figures", "falls"),
    [
        ("60 said: right", {}, False),
        ("60 said: right", {"MRR": 0.7499}, True),
        ("60 said: right", {"MRR": 0.8}, False),
        ("60 said: right", {"questions": 3}, True),
        ("60 seen", {"R@1": 0.25}, False),
        ("60 seen", {"R@1": 0.0}, True),
        ("60 moments: said", {"off_s": 0.6}, True),
    ],
)
def test_a_lower_figure_falls(name: str, figures: dict[str, float], falls: bool) -> None:
    now = BEFORE | {name: {"figures": BEFORE[name]["figures"] | figures, "answers": BEFORE[name]["answers"]}}
    assert compare(BEFORE, now) is falls


def test_a_set_that_is_gone_falls() -> None:
    assert compare(BEFORE, {name: own for name, own in BEFORE.items() if name != "60 seen"})


def test_another_order_is_said_and_does_not_fall(capsys: pytest.CaptureFixture[str]) -> None:
    assert not compare(BEFORE, BEFORE | {"60 seen": BEFORE["60 seen"] | {"answers": {"a": "2, 1"}}})
    assert "answers changed: 1" in capsys.readouterr().out
