"""Worlds that cannot be drawn, and settings that contradict themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from benchmarks.worlds import (
    AnnotatorSettings,
    MirrorShares,
    SignSettings,
    SplitSizes,
    annotated_clips,
    draw_annotators,
    draw_mirrored_world,
    draw_signs_world,
    draw_world,
)
from evenreel.errors import UsageError
from evenreel.planted.worlds import (
    BackgroundSettings,
    DomainSettings,
    FrameShares,
    WordShares,
    WorldSettings,
    draw_backgrounds,
    draw_domains,
)
from tests.planted.worlds.tables import made_up_table

CLIPS = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)
BIASED = (draw_annotators, draw_backgrounds, draw_domains, draw_world, draw_signs_world, draw_mirrored_world)


@pytest.mark.parametrize("draw", BIASED)
def test_a_strength_is_a_share_of_clips_to_learn_from(draw: Callable[..., Any]) -> None:
    for strength in (-0.1, 1.1):
        with pytest.raises(UsageError, match="between 0 and 1"):
            draw(CLIPS, strength)
    if draw not in (draw_signs_world, draw_mirrored_world):
        with pytest.raises(UsageError, match="split train"):
            draw(CLIPS.filter(pl.col("split") == "test"), 0.5)


@pytest.mark.parametrize(
    ("settings", "wrong", "told"),
    [
        (AnnotatorSettings, {"habit": 0.9}, "together"),
        (AnnotatorSettings, {"groups": 1}, "groups"),
        (BackgroundSettings, {"kind": 0.9}, "together"),
        (BackgroundSettings, {"kinds": 1}, "kinds"),
        (DomainSettings, {"turned": 0.6, "damped": 0.6}, "above 1"),
        (DomainSettings, {"wording": 100.0}, "wording"),
        (FrameShares, {"action": 0.6, "instance": 0.6}, "together"),
        (WordShares, {"annotator": 0.6, "noise": 0.6}, "together"),
        (WorldSettings, {"strata": 1}, "strata"),
        (WorldSettings, {"dimension": 8, "harmonics": 5}, "10 dimensions"),
        (SignSettings, {"words": 11}, "need 12 words"),
        (MirrorShares, {"style": 1.5}, "style"),
    ],
)
def test_settings_that_contradict_themselves(settings: Callable[..., Any], wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        settings(**wrong)


def test_shares_of_a_mirror_are_at_most_all_of_it() -> None:
    with pytest.raises(UsageError, match="at most 1"):
        draw_mirrored_world(CLIPS, 0.5, 0, WorldSettings(16, 3), MirrorShares(action=0.5, trace=0.5))
