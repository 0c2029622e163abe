"""Things taken out of frames and of clips: what goes, what stays, as many elsewhere, and what cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import load_corpus, make_corpus
from evenreel.edits.clips import ClipEditReport, edit_clips
from evenreel.edits.removal import (
    MaskSettings,
    PatchMask,
    Removal,
    above_mean,
    best_patches,
    caption_entities,
    paint_over,
    patch_cosines,
    patches_of,
    remove,
    shifted,
    without_motion,
)
from evenreel.edits.settings import ClipEditSettings, RemovalSettings
from evenreel.encoders.loading import LoadedEncoder
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import CorpusError, UsageError
from evenreel.language import load_tagger
from evenreel.media import open_video, parse_rule
from evenreel.planted import write_clip
from evenreel.types import Corpus, FloatArray, Pixels, TextEmbedding


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


RED, GREEN, GREY = (220, 20, 20), (20, 160, 20), (120, 120, 120)
COLOURS = {"ball": RED, "meadow": GREEN}
SIDE, BALL = 64, slice(16, 48)


class ColourTower:
    """Sees of a patch how much of each colour is in it; a word is the colour that it stands for."""

    encoder_id = weights_hash = "colours"

    def encode_patches(self, pixels: Pixels, *, whole: bool) -> FloatArray:
        assert whole
        patches = pixels.reshape(len(pixels), 3, 4, SIDE // 4, 4, SIDE // 4).mean(axis=(3, 5)).transpose(0, 2, 3, 1)
        return unit(patches)

    def encode_text(self, texts: Sequence[str]) -> TextEmbedding:
        vectors = unit(np.array([next(rgb for word, rgb in COLOURS.items() if word in text) for text in texts]))
        return TextEmbedding(vectors[:, None], np.ones((len(texts), 1), np.bool_), vectors)


def unit(values: np.ndarray) -> FloatArray:
    """Rows of unit length, from which grey was taken: no colour is nearer to another for being bright."""
    centred = values - values.mean(axis=-1, keepdims=True) + 1e-3
    return np.asarray(centred / np.linalg.norm(centred, axis=-1, keepdims=True), np.float32)


TOWER = cast("TowerEncoder", ColourTower())


def picture(shift: int) -> Pixels:
    """A red ball, a square one, on a meadow."""
    pixels = np.full((SIDE, SIDE, 3), GREEN, np.uint8)
    pixels[BALL, 16 + shift : 48 + shift] = RED
    return pixels


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    write_clip(folder / "a.mp4", [picture(4 * number) for number in range(4)], fps=2)
    (folder / "broken.mp4").write_bytes(b"this is no video")
    return folder


def corpus(*clips: str) -> Corpus:
    texts = {"a": "we see a red ball on a meadow", "broken": "a ball", "mute": "a video"}
    paths = {"a": "a.mp4", "broken": "broken.mp4", "mute": "a.mp4"}
    return make_corpus(
        pl.DataFrame({"clip_id": clips, "path": [paths[one] for one in clips], "split": "test"}),
        pl.DataFrame({"caption_id": clips, "clip_id": clips, "text": [texts[one] for one in clips]}),
    )


def frames(path: Path) -> list[Pixels]:
    with open_video(path) as video:
        return [frame.pixels for frame in video.frames(parse_rule("every 0.01 s"))]


def near(pixels: Pixels, colour: tuple[int, int, int]) -> np.ndarray:
    return np.asarray((np.abs(pixels.astype(int) - colour) < 40).all(axis=-1))


Edited = Callable[..., tuple[Corpus, list[Pixels]]]


@pytest.fixture
def edited(videos: Path, tmp_path: Path) -> Edited:
    """Edits clip a and gives the new corpus and its frames."""

    def run(**changes: object) -> tuple[Corpus, list[Pixels]]:
        given = RemovalSettings("entity", places=("meadow",), share=0.75)
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        removal = Removal(TOWER, {"a": ("red ball",)}, replace(given, **changes))  # type: ignore[arg-type]
        report = edit_clips(corpus("a"), out, removal, ClipEditSettings(videos))
        assert (report.written, report.unchanged, report.set_aside) == (1, 0, [])
        new = load_corpus(out)
        return new, frames(out / new.clips["path"][0])

    return run


def test_the_thing_goes_and_its_background_stays(edited: Edited) -> None:
    new, shown = edited(removed="entity")
    assert new.clips.select("frame_count", "fps", "start_s", "end_s").row(0) == (4, 2.0, None, None)
    assert new.captions.equals(corpus("a").captions)
    assert len(shown) == 4
    assert not any(near(one, RED).any() for one in shown[:1])
    assert near(shown[0], GREEN).all()  # painted in the mean of what is left


def test_the_background_goes_and_the_thing_stays(edited: Edited) -> None:
    _, shown = edited(removed="background")
    assert near(shown[0], RED).all()


def test_a_control_paints_as_much_elsewhere(edited: Edited) -> None:
    _, shown = edited(removed="entity", control=True)
    first = near(shown[0], RED)
    assert 0 < first.mean() < 0.9
    assert not np.array_equal(shown[0], edited(removed="entity")[1][0])


def test_without_motion_every_frame_is_the_middle_one(edited: Edited) -> None:
    _, shown = edited(removed="motion", places=())
    assert all(np.abs(one.astype(int) - shown[0]).mean() < 3 for one in shown)
    _, moving = edited(removed="motion", control=True, places=())
    assert np.abs(moving[0].astype(int) - moving[-1]).mean() > 10
    assert np.abs(shown[0].astype(int) - moving[1]).mean() < 3


def test_what_is_there_is_kept_and_what_cannot_be_used_is_set_aside(videos: Path, tmp_path: Path) -> None:
    some, settings = corpus("a", "broken", "mute"), ClipEditSettings(videos, fps=1.0)
    things = caption_entities(some, load_tagger("pattern"))
    assert things == {"a": ("red ball", "meadow"), "broken": ("ball",), "mute": ()}

    def run(clips: Corpus, name: str, share: float = 0.5) -> ClipEditReport:
        removal = Removal(TOWER, things, RemovalSettings("entity", share=share))
        return edit_clips(clips, tmp_path / name, removal, settings)

    first = run(some, "out")
    assert (first.written, first.unchanged) == (1, 0)
    assert [(one.clip_id, one.reason) for one in first.set_aside] == [("broken", "not_media"), ("mute", "failed")]
    new = load_corpus(tmp_path / "out")
    assert new.clips.select("clip_id", "frame_count", "fps").rows() == [("a", 2, 1.0)]
    again = run(some, "out")
    assert (again.written, again.unchanged) == (0, 1)
    with pytest.raises(CorpusError, match="holds clips that were edited otherwise; choose another --out"):
        run(some, "out", 0.1)
    with pytest.raises(CorpusError, match="No clip could be edited; the first: "):
        run(corpus("broken"), "none")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "clips.parquet").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"holds clips.parquet already, of no edited clips"):
        run(some, "other")


def test_settings_out_of_range_are_refused() -> None:
    for changes, sentence in (
        ({"removed": "sky"}, "'sky' cannot be taken out of clips; there are: background, entity, motion"),
        ({"removed": "background"}, "Say in words what backgrounds are"),
        ({"share": 0.0}, "is above 0 and at most 1"),
    ):
        with pytest.raises(UsageError, match=sentence):
            RemovalSettings(**{"removed": "entity", **changes})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give a number above 0"):
        ClipEditSettings(fps=float("nan"))
