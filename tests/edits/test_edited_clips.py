"""Clips with one thing painted over: what goes, what stays, and what cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import load_corpus, make_corpus
from evenreel.edits.clips import ClipEditReport, edit_clips
from evenreel.edits.removal import Removal, caption_entities
from evenreel.edits.settings import ClipEditSettings, RemovalSettings
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import CorpusError, UsageError
from evenreel.language import load_tagger
from evenreel.media import open_video, parse_rule
from evenreel.planted import write_clip
from evenreel.types import Corpus, FloatArray, Pixels, TextEmbedding

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
