"""Scenes: sampled without any planted relation, and refused when they cannot be drawn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from evenreel.errors import UsageError
from evenreel.planted import Entity, Scene, SceneRanges, sample_scene, vocabulary

PLAIN = Scene((Entity("star", "red", "large"),), "rests", "beach")


def test_no_attribute_says_anything_about_another() -> None:
    """Chi-square of each pair of attributes stays below what chance exceeds once in a million."""
    rng = np.random.default_rng(0)
    scenes = [sample_scene(rng).attributes for _ in range(4_000)]
    names = list(scenes[0])
    for n, one in enumerate(names):
        for other in names[:n]:
            table = Counter((scene[one], scene[other]) for scene in scenes)
            rows, columns = Counter(s[one] for s in scenes), Counter(s[other] for s in scenes)
            expected = {(a, b): rows[a] * columns[b] / len(scenes) for a in rows for b in columns}
            chi_square = sum((table[cell] - mean) ** 2 / mean for cell, mean in expected.items())
            freedom = (len(rows) - 1) * (len(columns) - 1)
            assert chi_square < freedom + 5 * np.sqrt(2 * freedom) + 10, (one, other)


def test_every_value_occurs() -> None:
    rng = np.random.default_rng(1)
    seen = [sample_scene(rng).attributes for _ in range(600)]
    assert {s["shape"] for s in seen} == set(vocabulary.shapes())
    assert {s["colour"] for s in seen} == set(vocabulary.colours())
    assert {s["activity"] for s in seen} == set(vocabulary.activities())
    assert {s["background"] for s in seen} == set(vocabulary.backgrounds())


def test_the_ranges_are_kept() -> None:
    rng = np.random.default_rng(2)
    ranges = SceneRanges(duration_s=(0.5, 1.0), sign_share=1.0, shake_share=0.0, distractors=0, fps=10)
    for scene in (sample_scene(rng, ranges) for _ in range(50)):
        assert 0.5 <= scene.duration_s <= 1.0
        assert len(scene.signs) == 1
        assert scene.shake == 0
        assert scene.distractors == 0


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"activity": "flies"}, "no activity is called 'flies'"),
        ({"background": "moon"}, "no background is called 'moon'"),
        ({"entities": ()}, "at least one entity"),
        ({"entities": (Entity("blob", "red", "large"),)}, "no shape is called 'blob'"),
        ({"entities": (Entity("star", "beige", "large"),)}, "no colour is called 'beige'"),
        ({"entities": (Entity("star", "red", "huge"),)}, "no size is called 'huge'"),
        ({"width": 321}, "321x240"),
        ({"height": 8}, "320x8"),
        ({"duration_s": 0.0}, "no picture"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(change: dict[str, object], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        replace(PLAIN, **change)  # type: ignore[arg-type]
