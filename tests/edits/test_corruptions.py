"""Corruptions of clips: what each does to pixels, and corpora of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.shifts.measure import subject_of as places_of
from evenreel.corpus import load_corpus, make_corpus
from evenreel.edits.clips import TimedClip, VideoHeader
from evenreel.edits.corruptions import (
    CORRUPTIONS,
    CorruptionReport,
    Original,
    corrupt_clips,
    inserted,
    lenders_of,
    subject_of,
)
from evenreel.edits.settings import KINDS, STRENGTHS, Corruption, CorruptionSettings
from evenreel.errors import CorpusError, UsageError
from evenreel.features.manifest import CorpusClip
from evenreel.media import open_video, parse_rule
from evenreel.media.sampling import Part
from evenreel.planted import plan_corpus, write_clip
from evenreel.planted.draw import draw_clip
from evenreel.types import Corpus, Pixels

FRAMES = 12


def stripes(seed: int = 0) -> Original:
    """Moving stripes, a subject that walks, and another clip of two colours."""
    first = np.random.default_rng(seed).integers(60, 200, (24, 32, 3)).astype(np.uint8)
    frames = np.stack([np.roll(first, step, axis=1) for step in range(FRAMES)])
    subject = np.array([(8.0 + step, 12.0, 5.0) for step in range(FRAMES)])
    similar, elsewhere = (np.full_like(frames, value) for value in (7, 9))
    elsewhere[:, ::2] = 29
    return Original(frames, subject, similar, elsewhere, 6)


BEFORE = {
    "impulse-noise 1": 536_406_010, "impulse-noise 5": 3_824_236_590, "gaussian-noise 3": 776_305_026,
    "fog 3": 1_219_705_084, "elastic 5": 3_824_966_494, "occlusion 4": 2_681_553_774, "style 4": 345_859_147,
    "insertion 3": 74_209_867, "scrambling 5": 1_540_227_222,
}  # fmt: skip
"""Checksums of what the functions gave when they belonged to the benchmark of the planted page."""


@pytest.mark.parametrize("name", BEFORE)
def test_pixels_are_those_that_the_planted_page_was_measured_with(name: str) -> None:
    kind, strength = name.split()
    found = CORRUPTIONS[kind](stripes(), int(strength), np.random.default_rng([0, 1]))
    assert zlib.crc32(found.tobytes()) == BEFORE[name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_clip_of_one_frame_or_of_one_colour_is_corrupted_too(kind: str) -> None:
    flat = np.full((1, 16, 16, 3), 90, np.uint8)
    clip = Original(flat, subject_of(flat), flat, flat, 4)
    found = CORRUPTIONS[kind](clip, 5, np.random.default_rng(0))
    assert found.dtype == np.uint8 and found.shape == (2 if kind == "insertion" else 1, 16, 16, 3)


def test_fog_brightens_what_is_dark_and_leaves_less_contrast() -> None:
    clip = stripes()
    dark = clip._replace(frames=clip.frames // 2)
    found = [CORRUPTIONS["fog"](dark, one, np.random.default_rng(2)).astype(float) for one in STRENGTHS]
    means, edges = [one.mean() for one in found], [np.abs(np.diff(one, axis=2)).mean() for one in found]
    assert means == sorted(means) and means[0] > dark.frames.mean()
    assert edges == sorted(edges, reverse=True)


@given(st.integers(1, 400), st.sampled_from(STRENGTHS))
@settings(max_examples=20)
def test_the_share_of_inserted_frames_is_that_of_the_strength(count: int, strength: int) -> None:
    added = inserted(count, strength)
    assert added == 1 or abs(added - count * strength / (10 - strength)) <= 0.5 + 1e-9
    assert added >= 1
    frames = np.zeros((count, 2, 2, 3), np.uint8)
    clip = Original(frames, np.empty(0), frames + 1, frames, 4)
    assert len(CORRUPTIONS["insertion"](clip, strength, np.random.default_rng(count))) == count + added


def walking(noise: float = 0.0) -> tuple[Pixels, np.ndarray]:
    """A grey wall before which a white disc walks; and where its middle is."""
    rows, columns = np.mgrid[:90, :160]
    middles = np.array([(30 + 8 * step, 45 + 12 * np.sin(step)) for step in range(FRAMES)])
    inside = [(np.hypot(columns - x, rows - y) < 12)[..., None] for x, y in middles]
    wall = 110 + np.random.default_rng(0).normal(0, noise, (FRAMES, 90, 160, 3))
    return np.where(inside, 235, wall).clip(0, 255).astype(np.uint8), middles


@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_the_subject_is_what_moves(noise: float) -> None:
    frames, middles = walking(noise)
    found = subject_of(frames)
    assert np.hypot(*(found[:, :2] - middles).T).max() < 4
    assert found[:, 2] == pytest.approx(12, rel=0.35)


def test_without_motion_the_subject_is_what_stands_out() -> None:
    frames, middles = walking()
    still = frames[3:4].repeat(5, axis=0)
    assert np.hypot(*(subject_of(still)[:, :2] - middles[3]).T).max() < 4


def test_in_most_frames_of_rendered_clips_the_guess_is_within_the_subject() -> None:
    inside = []
    for clip in plan_corpus("source", 0.0, 20, 3).clips[:12]:
        frames, true = np.stack(list(draw_clip(clip.scene)))[::3], places_of(clip.scene)[::3]
        inside.append(np.hypot(*(subject_of(frames) - true)[:, :2].T) < true[:, 2])
    assert np.concatenate(inside).mean() > 0.7


def test_settings_name_what_there_is() -> None:
    asked = CorruptionSettings(kinds=("none", "fog", "fog"), strengths=(5, 1, 5))
    assert [one.name for one in asked.corruptions] == ["none", "fog-5", "fog-1"]
    assert len(CorruptionSettings(strengths=STRENGTHS).corruptions) == 60
    assert asked.corruptions[1] == Corruption("fog", 5)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"kinds": ("mist",)}, "'mist' is no kind of corruption; there are: gaussian-noise"),
        ({"strengths": (6,)}, "A strength of 6"),
        ({"strengths": ()}, "No strength"),
        ({"side": 8}, "A side of 8"),
        ({"fps": 0.0}, "0.0 frames a second"),
        ({"seed": -1}, "The seed is -1"),
    ],
)
def test_hazard_213_what_cannot_be_asked_for_is_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=f"^{told}"):
        CorruptionSettings(**wrong)  # type: ignore[arg-type]


COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200), "grey": (90, 90, 90)}
LENGTH, FPS = 8, 4
WAYS = CorruptionSettings(kinds=("none", "fog", "insertion", "style"), strengths=(5,), workers=1, side=48)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips of one colour each that get brighter, one a larger picture, and one that is no video."""
    folder = tmp_path_factory.mktemp("videos")
    for number, (name, colour) in enumerate(COLOURS.items()):
        size = (72, 96) if number == 2 else (36, 48)
        write_clip(folder / f"{name}.mp4", [np.full((*size, 3), colour, np.uint8) + step for step in range(8)], FPS)
    (folder / "broken.mp4").write_bytes(b"this is no video")
    return folder


def corpus(*clips: str) -> Corpus:
    table = pl.DataFrame({"clip_id": clips, "path": [f"{one}.mp4" for one in clips], "split": "test"})
    return make_corpus(table, pl.DataFrame({"caption_id": clips, "clip_id": clips, "text": [*clips]}))


def frames(folder: Path, clip: str) -> list[Pixels]:
    path = dict(load_corpus(folder).clips.select("clip_id", "path").iter_rows())[clip]
    with open_video(folder / path) as video:
        return [frame.pixels for frame in video.frames(parse_rule("every 0.01 s"))]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("clips/*.mp4"))}


Corrupted = Callable[..., CorruptionReport]


@pytest.fixture(scope="module")
def corrupted(videos: Path) -> Corrupted:
    def run(out: Path, *clips: str, settings: CorruptionSettings = WAYS) -> CorruptionReport:
        return corrupt_clips(corpus(*(clips or tuple(COLOURS))), out, replace(settings, videos=videos))

    return run


@pytest.fixture(scope="module")
def whole(corrupted: Corrupted, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CorruptionReport]:
    out = tmp_path_factory.mktemp("whole")
    return out, corrupted(out, "red", "broken", "blue", "grey")


def test_every_corruption_is_a_corpus_with_the_same_ids_and_captions(whole: tuple[Path, CorruptionReport]) -> None:
    out, report = whole
    assert [Path(one.folder).name for one in report.corpora] == ["none", "fog-5", "insertion-5", "style-5"]
    assert [(one.clips, one.written) for one in report.corpora] == [(3, 3)] * 4
    for one in report.corpora:
        found = load_corpus(one.folder)
        assert found.clips["clip_id"].to_list() == [*COLOURS]
        assert found.captions["text"].to_list() == [*COLOURS]
        longer = 2 if one.kind == "insertion" else 1
        assert found.clips.select("frame_count", "fps").rows() == [(longer * LENGTH, FPS)] * 3
        assert len(frames(Path(one.folder), "red")) == longer * LENGTH
    assert frames(out / "none", "grey")[0].shape == (48, 64, 3)  # its shorter side was 72


def test_a_damaged_video_is_set_aside_from_all_of_them_and_costs_itself_alone(
    whole: tuple[Path, CorruptionReport], corrupted: Corrupted, tmp_path: Path
) -> None:
    """Hazard 232."""
    out, report = whole
    assert [(one.clip_id, one.reason) for one in report.set_aside] == [("broken", "not_media")]
    corrupted(tmp_path)
    assert files(tmp_path) == files(out)


def test_pictures_are_what_the_corruption_says(whole: tuple[Path, CorruptionReport]) -> None:
    out, _ = whole
    plain, foggy = (np.stack(frames(out / name, "grey")).astype(float) for name in ("none", "fog-5"))
    for step, frame in enumerate(plain):
        assert np.abs(frame - (90 + step)).mean() < 3
    assert (foggy.mean(axis=(1, 2, 3)) - plain.mean(axis=(1, 2, 3)) > 60).all()
    spliced = np.stack(frames(out / "insertion-5", "red")).mean(axis=(1, 2))
    own = np.abs(spliced - COLOURS["red"]).max(axis=1) < 20
    assert own.sum() == LENGTH and 1 <= np.abs(np.diff(own.astype(int))).sum() <= 2
    lender = np.abs(spliced[~own].mean(axis=0) - np.array([*COLOURS.values()])).max(axis=1)
    style = np.stack(frames(out / "style-5", "red")).mean(axis=(0, 1, 2))
    assert np.abs(style - np.array([*COLOURS.values()])[lender.argmin()] - 3.5).max() < 8


def test_what_is_there_is_kept_and_another_strength_adds_to_it(
    whole: tuple[Path, CorruptionReport], corrupted: Corrupted, tmp_path: Path
) -> None:
    out = copytree(whole[0], tmp_path / "out")
    before = files(out)
    more = corrupted(out, settings=replace(WAYS, kinds=("fog",), strengths=(5, 1)))
    assert [(one.clips, one.written) for one in more.corpora] == [(3, 0), (3, 3)]
    assert {name: files(out)[name] for name in before} == before


def test_what_a_killed_run_left_is_gone_on_with(
    whole: tuple[Path, CorruptionReport], corrupted: Corrupted, tmp_path: Path
) -> None:
    """Some files are missing, there is no table yet, and a file was half written."""
    out, _ = whole
    corrupted(tmp_path)
    removed = [*sorted(tmp_path.rglob("clips/*.mp4"))[::2], *tmp_path.rglob("*.parquet")]
    for path in removed:
        path.unlink()
    report = corrupted(tmp_path)
    assert sum(one.written for one in report.corpora) == 6
    assert files(tmp_path) == files(out)


def test_a_seed_is_another_corpus_and_other_clips_are_drawn_for_otherwise(
    whole: tuple[Path, CorruptionReport], corrupted: Corrupted, tmp_path: Path
) -> None:
    out, _ = whole
    fog = replace(WAYS, kinds=("fog",))
    corrupted(tmp_path, settings=replace(fog, seed=1))
    first, other = (np.stack(frames(folder / "fog-5", "red")).astype(float) for folder in (out, tmp_path))
    assert np.abs(first - other).mean() > 2
    blue = np.stack(frames(out / "fog-5", "blue")).astype(float)
    assert np.abs((first - first.mean()) - (blue - blue.mean())).mean() > 2
    with pytest.raises(CorpusError, match="clips that were corrupted otherwise; choose another --out"):
        corrupted(out, settings=replace(fog, seed=1))


def test_two_clips_of_one_file_are_drawn_for_apart(videos: Path, tmp_path: Path) -> None:
    clips = pl.DataFrame({"clip_id": ["a", "b"], "path": ["grey.mp4"] * 2, "split": "test"})
    two = make_corpus(clips, pl.DataFrame({"caption_id": ["a", "b"], "clip_id": ["a", "b"], "text": "grey"}))
    corrupt_clips(two, tmp_path, replace(WAYS, videos=videos, kinds=("fog",)))
    assert len(set(files(tmp_path).values())) == 2


def test_hazard_205_one_video_alone_lends_nothing(corrupted: Corrupted, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="The split 'test' has one video alone that can be read"):
        corrupted(tmp_path / "style", "red", "broken")
    report = corrupted(tmp_path / "fog", "red", "broken", settings=replace(WAYS, kinds=("fog",)))
    assert report.corpora[0].clips == 1


def test_a_lender_that_cannot_be_decoded_is_passed_over(videos: Path, tmp_path: Path) -> None:
    """Hazard 234: its header can be read, and its frames cannot."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in COLOURS:
        (folder / f"{name}.mp4").write_bytes((videos / f"{name}.mp4").read_bytes())
    spoilt = bytearray((folder / "blue.mp4").read_bytes())
    start = spoilt.index(b"mdat") + 4
    spoilt[start : start + 4_000] = bytes(min(4_000, len(spoilt) - start))[: len(spoilt[start : start + 4_000])]
    (folder / "blue.mp4").write_bytes(spoilt)
    settings = replace(WAYS, videos=folder, kinds=("style",))
    report = corrupt_clips(corpus(*COLOURS), tmp_path / "out", settings)
    assert [one.clip_id for one in report.set_aside] == ["blue"]
    assert report.corpora[0].clips == 2


def test_no_clip_at_all_is_an_error_with_the_first_reason(corrupted: Corrupted, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^No clip could be corrupted; the first: .*not"):
        corrupted(tmp_path, "broken")


def test_a_clip_more_changes_what_few_others_borrow() -> None:
    many = [f"clip {number}" for number in range(200)]

    def drawn(clips: list[str]) -> dict[str, list[str]]:
        timed = [TimedClip(CorpusClip(one, f"{one}.mp4", Part()), VideoHeader(8, 8, 4.0, 1.0)) for one in clips]
        found = lenders_of(corpus(*clips), timed, 3)
        return {name: [other.clip.clip_id for other in others] for name, others in found.items()}

    whole, less = drawn(many), drawn(many[:-1])
    assert all(len(set(others)) == 3 and name not in others for name, others in whole.items())
    assert sum(whole[name] != others for name, others in less.items()) == 3
    assert len({others[0] for others in whole.values()}) == 200  # each lends once
