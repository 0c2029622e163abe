"""Things taken out of frames: the right patches, as many elsewhere, and the colour of what is left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.edits.removal import (
    MaskSettings,
    PatchMask,
    above_mean,
    best_patches,
    paint_over,
    patch_cosines,
    patches_of,
    remove,
    shifted,
    without_motion,
)
from evenreel.encoders.loading import LoadedEncoder
from evenreel.errors import UsageError
from evenreel.types import FloatArray, Pixels


def test_patches_are_painted_in_the_colour_of_the_rest() -> None:
    """Two by two patches of a frame of 4 x 6; the left half is 10, the right 30, the patch that goes 200."""
    frame = np.full((3, 4, 6), 10, np.uint8)
    frame[:, :, 3:] = 30
    frame[:, :2, 3:] = 200
    mask = np.array([[[False, True], [False, False]]] * 2)
    painted = paint_over(np.stack([frame, frame]), mask)
    expected = frame.copy()
    expected[:, :2, 3:] = round((12 * 10 + 6 * 30) / 18)
    assert np.array_equal(painted, np.stack([expected, expected]))
    everything = paint_over(frame[None], np.ones((1, 2, 2), bool))
    assert np.array_equal(everything[0], np.full_like(frame, round(frame[0].mean())))


@given(height=st.integers(3, 20), width=st.integers(3, 20), rows=st.integers(1, 7), seed=st.integers(0, 9))
def test_every_pixel_belongs_to_the_patch_that_its_middle_lies_in(
    height: int, width: int, rows: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    mask = random.random((1, rows, rows + 1)) < 0.5
    pixels = random.integers(0, 256, (1, 3, height, width), dtype=np.uint8)
    places = [(y, x) for y in range(height) for x in range(width)]
    gone = {(y, x): mask[0, int((y + 0.5) / height * rows), int((x + 0.5) / width * (rows + 1))] for y, x in places}
    left = [pixels[0, :, y, x] for y, x in places if not gone[y, x]] or [pixels[0, :, y, x] for y, x in places]
    colour = np.rint(np.mean(left, axis=0))
    for (y, x), seen in zip(places, paint_over(pixels, mask)[0].reshape(3, -1).T, strict=True):
        assert np.array_equal(seen, colour if gone[y, x] else pixels[0, :, y, x])


@given(seed=st.integers(0, 1000), rows=st.integers(1, 5), columns=st.integers(1, 5), share=st.floats(0.01, 1.0))
def test_the_control_paints_as_many_patches_of_each_frame(seed: int, rows: int, columns: int, share: float) -> None:
    random = np.random.default_rng(seed)
    fit = random.random((3, rows, columns)).astype(np.float32)
    mask = best_patches(fit, share)
    assert mask.sum() == max(1, round(share * fit.size))
    assert fit[mask].min() >= fit[~mask].max(initial=0.0)
    control = shifted(mask, seed)
    assert np.array_equal(control.sum(axis=(1, 2)), mask.sum(axis=(1, 2)))
    assert np.array_equal(shifted(mask, seed), control)
    one = np.zeros((1, rows, columns), bool)
    one[0, 0, 0] = True
    assert rows * columns == 1 or not (shifted(one, seed) & one).any()


def test_a_phrase_is_held_against_its_mean_over_the_clip() -> None:
    """Of the first phrase the mean is 0.5, of the second 0: where it has 0.3 the second fits better."""
    cosines = np.array([[[[0.9, 0.1], [0.4, 0.3]]], [[[0.2, -0.4], [0.5, 0.0]]]], np.float32)
    assert above_mean(cosines).ravel().tolist() == pytest.approx([0.4, 0.3, -0.3, 0.0])


def test_patches_of_a_long_clip_are_looked_at_a_few_frames_at_a_time(
    builtin: LoadedEncoder, circles: tuple[Pixels, PatchMask], monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures, words = circles[0][:5], ["a red circle", "a forest"]
    expected = builtin.encode_patches(pictures, whole=True) @ builtin.encode_text(words).sentence.T
    seen, whole_encoder = list[int](), builtin.encode_patches

    def counted(pixels: Pixels, *, whole: bool) -> FloatArray:
        seen.append(len(pixels))
        return whole_encoder(pixels, whole=whole)

    monkeypatch.setattr(builtin, "encode_patches", counted)
    monkeypatch.setattr("evenreel.edits.removal._FRAMES", 2)
    np.testing.assert_allclose(patch_cosines(pictures, builtin, words), expected, atol=1e-5)
    assert seen == [2, 2, 1]


def test_without_motion_all_frames_are_the_middle_one() -> None:
    pixels = np.arange(4, dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 2, 2), np.uint8)
    assert without_motion(pixels).tolist() == pixels[[1, 1, 1, 1]].tolist()
    assert without_motion(pixels[:3]).tolist() == pixels[[1, 1, 1]].tolist()


def test_what_is_named_goes_and_the_rest_stays(builtin: LoadedEncoder, circles: tuple[Pixels, PatchMask]) -> None:
    """More of the circle than of the frame goes; the frame says less of it then, and less so by the control."""
    pictures, on_it = circles
    settings = MaskSettings(share=0.2)
    mask = np.concatenate([patches_of(one[None], builtin, ["a red circle"], settings) for one in pictures])
    assert mask[on_it].mean() > 3 * mask[~on_it].mean()  # the pictures are square, so nothing is cut off
    text = builtin.encode_text(["a red circle"]).sentence[0]
    before, gone, control = (
        float((builtin.encode_windows(one[:, None]) @ text).mean())
        for one in (pictures, paint_over(pictures, mask), paint_over(pictures, shifted(mask, 0)))
    )
    assert before - gone > 2 * (before - control)
    assert np.array_equal(remove(pictures[:1], builtin, ["a red circle"], settings)[0], paint_over(pictures, mask)[0])


def test_what_another_phrase_fits_better_stays(builtin: LoadedEncoder, circles: tuple[Pixels, PatchMask]) -> None:
    """Without a limit on the share, much of the circle goes and little else."""
    pictures, on_it = circles
    words, others = ["a red circle"], ("a forest", "a beach", "a meadow", "a city", "the sea")
    assert patches_of(pictures[:2], builtin, words, MaskSettings(share=1.0)).all()
    settings = MaskSettings(share=1.0, others=others)
    mask = np.concatenate([patches_of(one[None], builtin, words, settings) for one in pictures])
    assert mask[on_it].mean() > 0.6 and mask[~on_it].mean() < 0.3
    assert not patches_of(pictures[:2], builtin, words, MaskSettings(share=1.0, others=("a red circle",))).any()


def test_wrong_usage_is_said(builtin: LoadedEncoder) -> None:
    pixels = np.zeros((2, 3, 8, 8), np.uint8)
    with pytest.raises(UsageError, match="at least one thing"):
        remove(pixels, builtin, [])
    with pytest.raises(UsageError, match="share of patches to paint over is 0"):
        MaskSettings(share=0)
    with pytest.raises(UsageError, match="2 frames .* not 1"):
        paint_over(pixels, np.ones((1, 2, 2), bool))
