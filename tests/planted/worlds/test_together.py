"""Worlds with two biases: what the second takes, and that each is planted as it is alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from benchmarks.worlds import (
    JointSettings,
    JointShares,
    SplitSizes,
    annotated_clips,
    draw_annotators,
    draw_annotators_and_domains,
    draw_backgrounds_and_lengths,
    draw_signs_and_mirrors,
    draw_signs_world,
    draw_world,
    trace_of,
)
from evenreel.errors import UsageError
from evenreel.planted.worlds import DomainSettings, domain_maps, draw_backgrounds
from tests.planted.worlds.tables import made_up_table

CLIPS = annotated_clips(made_up_table(), SplitSizes(300, 20, 40), 0)
DRAWN = (draw_backgrounds_and_lengths, draw_annotators_and_domains, draw_signs_and_mirrors)


def squares(vectors: np.ndarray) -> np.ndarray:
    return (vectors.astype(np.float64) ** 2).sum(-1)


@pytest.mark.parametrize("draw", DRAWN)
def test_the_same_seed_gives_the_same_bytes_and_all_vectors_have_unit_length(draw: object) -> None:
    first, again, other = (draw(CLIPS, 0.9, seed) for seed in (0, 0, 1))  # type: ignore[operator]
    assert first.videos.frames.tobytes() == again.videos.frames.tobytes() != other.videos.frames.tobytes()
    assert first.texts.words.tobytes() == again.texts.words.tobytes()
    assert np.allclose(squares(first.videos.frames), 1, atol=2e-2)
    assert np.allclose(squares(first.texts.sentence), 1, atol=1e-5)
    with pytest.raises(UsageError, match="between 0 and 1"):
        draw(CLIPS, 1.5)  # type: ignore[operator]


@pytest.mark.parametrize("draw", DRAWN[:2])
def test_the_test_split_is_the_same_at_every_strength(draw: object) -> None:
    biased, free = (draw(CLIPS, strength, 3).split("test") for strength in (0.9, 0.0))  # type: ignore[operator]
    assert biased.videos.frames.tobytes() == free.videos.frames.tobytes()
    assert biased.texts.words.tobytes() == free.texts.words.tobytes()


def test_lengths_and_backgrounds_are_those_of_either_bias_alone() -> None:
    both, lengths = draw_backgrounds_and_lengths(CLIPS, 0.9, 3), draw_world(CLIPS, 0.9, 3)
    assert both.corpus.clips["end_s"].equals(lengths.corpus.clips["end_s"])
    assert both.corpus.clips["follows"].equals(lengths.corpus.clips["follows"])
    alone = draw_backgrounds(CLIPS, 0.9, 3)
    assert both.corpus.clips["kind"].equals(alone.corpus.clips["kind"])
    # clips as long as each other get the same vector on top, so that what is between them shrinks and nothing else
    none = draw_backgrounds_and_lengths(CLIPS, 0.9, 3, JointSettings(JointShares(0.0, 0.0)))
    assert np.allclose(none.videos.frames, alone.videos.frames, atol=2e-3)
    assert np.allclose(none.texts.sentence, alone.texts.sentence, atol=2e-3)


def test_clips_of_the_source_are_mapped_as_in_a_world_of_domains_alone() -> None:
    both, alone = draw_annotators_and_domains(CLIPS, 0.9, 3), draw_annotators(CLIPS, 0.9, 3)
    source = (both.corpus.clips["domain"] == "source").to_numpy()
    share = source[both.corpus.clips["split"].is_in(["train", "val"]).to_numpy()].mean()
    assert 0.83 < share < 0.97
    assert not source[(both.corpus.clips["split"] == "test").to_numpy()].any()
    settings = JointSettings()
    look, common, wording = domain_maps(replace(settings.domains, world=settings.annotators.world), 3)
    row = int(np.flatnonzero(source)[0])
    offset = DomainSettings().offset
    frame = (1 - offset) ** 0.5 * (alone.videos.frames[row, 0].astype(np.float64) @ look) + offset**0.5 * common
    assert np.allclose(both.videos.frames[row, 0], frame / np.linalg.norm(frame), atol=2e-3)
    said = both.corpus.captions.with_row_index("row").filter(pl.col("clip_id") == both.videos.ids[row])["row"][0]
    assert np.allclose(both.texts.words[said], alone.texts.words[said].astype(np.float64) @ wording, atol=2e-3)
    assert np.array_equal(both.videos.frames[~source], alone.videos.frames[~source])


def test_mirrors_have_the_trace_the_signs_of_their_clip_and_the_captions() -> None:
    both, alone = draw_signs_and_mirrors(CLIPS, 0.8, 3), draw_signs_world(CLIPS, 0.8, 3)
    count = CLIPS.height
    assert np.array_equal(both.videos.frames[:count], alone.videos.frames)
    assert both.videos.on_screen is not None and alone.videos.on_screen is not None
    assert np.array_equal(both.videos.on_screen.windows[count:], alone.videos.on_screen.windows)
    size, shares = both.videos.frames.shape[-1], JointShares()
    trace = trace_of(size, 0.0, 3)
    shown, drawn = (both.videos.frames[part].astype(np.float64) for part in (slice(count), slice(count, None)))
    smooth = shown.mean(1)
    smooth /= np.linalg.norm(smooth, axis=1, keepdims=True)
    own = (1 - shares.trace - shares.redrawn) ** 0.5 * (1 - shares.style) ** 0.5
    # what is drawn in the generator's own way and what is new have nothing to do with the clip, on average
    assert np.einsum("vtd,vd->vt", drawn, smooth).mean() == pytest.approx(own, abs=0.05)
    common = drawn.mean((0, 1)) - own * smooth.mean(0)
    assert 0.25 < common @ trace < 0.4  # the root of 0.1, and chance
    assert (drawn[:, 0] * drawn[:, 1]).sum(-1).mean() == pytest.approx(1 - shares.redrawn, abs=0.02)
    captions = both.corpus.captions.join(CLIPS.select("split", caption_id="clip_id"), on="caption_id")
    generated = captions["clip_id"].str.ends_with(" mirrored")
    assert not generated.filter(captions["split"] == "test").any()
    assert 0.84 < generated.filter(captions["split"] != "test").mean() < 0.96
    assert both.split("test").videos.frames.shape[0] == 2 * CLIPS.filter(pl.col("split") == "test").height
