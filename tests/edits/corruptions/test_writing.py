"""Corpora of corrupted clips: what is written, kept, set aside, and borrowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import load_corpus, make_corpus
from evenreel.edits.clips import TimedClip, VideoHeader
from evenreel.edits.corruptions import CorruptionReport, corrupt_clips, lenders_of
from evenreel.edits.settings import CorruptionSettings
from evenreel.errors import CorpusError
from evenreel.features.manifest import CorpusClip
from evenreel.media import open_video, parse_rule
from evenreel.media.sampling import Part
from evenreel.planted import write_clip
from evenreel.types import Corpus, Pixels

COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200), "grey": (90, 90, 90)}
FRAMES, FPS = 8, 4
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
        assert found.clips.select("frame_count", "fps").rows() == [(longer * FRAMES, FPS)] * 3
        assert len(frames(Path(one.folder), "red")) == longer * FRAMES
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
    assert own.sum() == FRAMES and 1 <= np.abs(np.diff(own.astype(int))).sum() <= 2
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
