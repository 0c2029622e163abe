"""Every clip is read once, whoever asks and however often, until its file changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenreel.errors import MediaError
from evenreel.features import SetAside
from evenreel.media.sampling import Part
from evenreel.training import pixels
from evenreel.training.pixels import ClipVideo, readable
from evenreel.training.run_folder import CLIPS_READ, claim
from tests.training.small_material import small_recipe

RULE = "2 midpoints"
FRAMES = 2


class FakeWorker:
    """Reads files that say "good", and keeps what it read."""

    read: list[str]
    open = 0

    def __init__(self, *settings: Any) -> None:
        FakeWorker.open += 1

    def run(self, task: dict[str, Any]) -> Iterator[tuple[dict[str, Any], None]]:
        FakeWorker.read.append(Path(task["path"]).name)
        time.sleep(0.01)
        if not Path(task["path"]).exists():
            raise MediaError("unreadable", "No such file")
        if Path(task["path"]).read_text() == "slow":
            raise MediaError("timeout", "it made no progress")
        if Path(task["path"]).read_text() == "bad":
            raise MediaError("damaged", 'it is "bad",\nall of it')
        if Path(task["path"]).read_text() == "good":
            yield from [({"kind": "tick"}, None)] * FRAMES

    def close(self) -> None:
        FakeWorker.open -= 1


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ClipVideo]]:
    monkeypatch.setattr(pixels, "Worker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "read", [], raising=False)
    for name, content in (("a", "good"), ("b", "bad"), ("c", "good"), ("d", "empty")):
        (tmp_path / name).write_text(content)
    yield [ClipVideo(f"clip {name}", tmp_path / name, Part()) for name in "abcde"]
    assert FakeWorker.open == 0, "a process was left behind"


def good(clips: list[ClipVideo], names: str) -> list[ClipVideo]:
    """Those clips as they are when they were read."""
    return [replace(clip, frames=FRAMES) for clip in clips if clip.path.name in names]


def reads() -> list[str]:
    """What was read since the last time."""
    done = sorted(FakeWorker.read)
    FakeWorker.read.clear()
    return done


def aside(clips: list[ClipVideo]) -> list[SetAside]:
    reasons = {1: ("damaged", 'it is "bad",\nall of it'), 3: ("no_frames", "no frame of it could be decoded")}
    reasons[4] = ("unreadable", "No such file")
    return [SetAside(clips[row].clip_id, str(clips[row].path), *reasons[row]) for row in reasons]


def test_what_was_found_is_remembered(clips: list[ClipVideo], tmp_path: Path) -> None:
    shares: list[float] = []
    for expected in (list("abcde"), []):
        kept, set_aside = readable(clips, RULE, shares.append, tmp_path / "run" / "verdicts.jsonl")
        assert (kept, set_aside) == (good(clips, "ac"), aside(clips))
        assert reads() == expected
    assert shares == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_without_a_file_nothing_is(clips: list[ClipVideo], tmp_path: Path) -> None:
    for _ in range(2):
        assert readable(clips, RULE) == (good(clips, "ac"), aside(clips))
        assert reads() == list("abcde")


def test_what_has_changed_is_read_again(clips: list[ClipVideo], tmp_path: Path) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    readable(clips, RULE, verdicts=verdicts)
    reads()
    (tmp_path / "b").write_text("good")
    (tmp_path / "e").write_text("good")
    assert readable(clips, RULE, verdicts=verdicts)[0] == good(clips, "abce")
    assert reads() == ["b", "e"]
    readable(clips[:1], "3 midpoints", verdicts=verdicts)
    readable([ClipVideo("a", clips[0].path, Part(1.0))], RULE, verdicts=verdicts)
    readable([ClipVideo("a", clips[0].path, Part(1.0, 2.0))], RULE, verdicts=verdicts)
    assert reads() == ["a", "a", "a"]


def test_a_line_that_a_crash_cut_short_is_forgotten(clips: list[ClipVideo], tmp_path: Path) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    readable(clips, RULE, verdicts=verdicts)
    reads()
    verdicts.write_bytes(verdicts.read_bytes()[:-7])
    for expected in (["e"], []):
        assert readable(clips, RULE, verdicts=verdicts) == (good(clips, "ac"), aside(clips))
        assert reads() == expected


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"7", b'["one", 2]', b'["one", null, null, ""]'])
def test_a_damaged_line_is_forgotten(clips: list[ClipVideo], tmp_path: Path, line: bytes) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    readable(clips, RULE, verdicts=verdicts)
    reads()
    lines = verdicts.read_bytes().split(b"\n")
    verdicts.write_bytes(b"\n".join([lines[0], line, *lines[2:]]))
    for expected in (["b"], []):
        assert readable(clips, RULE, verdicts=verdicts) == (good(clips, "ac"), aside(clips))
        assert reads() == expected


def test_a_passing_trouble_is_looked_at_again_when_a_run_is_begun(clips: list[ClipVideo], tmp_path: Path) -> None:
    """Only then: the processes of other devices have to find what the first one found."""
    verdicts = tmp_path / "run" / CLIPS_READ
    (tmp_path / "c").write_text("slow")
    for expected in (list("abcde"), []):
        kept, set_aside = readable(clips, RULE, verdicts=verdicts)
        assert (kept, [one.reason for one in set_aside]) == (
            good(clips, "a"),
            ["damaged", "timeout", "no_frames", "unreadable"],
        )
        assert reads() == expected
    claim(tmp_path / "run", small_recipe(), resume=False)
    readable(clips, RULE, verdicts=verdicts)
    assert reads() == ["c", "e"]


def test_those_who_ask_at_once_wait_for_one(clips: list[ClipVideo], tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: readable(clips, RULE, verdicts=tmp_path / "verdicts.jsonl"), range(4)))
    assert found == [found[0]] * 4
    assert reads() == list("abcde")


def test_who_interrupts_does_not_wait_for_the_rest(clips: list[ClipVideo], tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        readable(clips * 50, RULE, stop)
    assert len(reads()) < 50
