"""An index run whose files others read ends as one that reads them itself; the others are this process here."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from evenreel.config import Machines
from evenreel.errors import LibraryError
from evenreel.library import index_folders, verify
from evenreel.library.index import spread
from evenreel.library.index.report import IndexReport
from evenreel.library.machines import clip_worker
from evenreel.library.machines.arrivals import Arrivals
from evenreel.library.machines.clip_worker import ClipWorker
from tests.library.machines.here import SETTINGS, HereSession
from tests.library.state import state
from tests.library.videos import write_video


def same(report: IndexReport) -> dict[str, object]:
    return {name: value for name, value in report.to_json().items() if name != "seconds"}


def spread_out(videos: Path, library: Path, machines: Machines, settings: object = SETTINGS) -> IndexReport:
    return index_folders([videos], library, settings, machines=machines)  # type: ignore[arg-type]


@pytest.fixture
def videos(videos: Path) -> Path:
    """Two clips, a copy of one, and a file that is none."""
    for number in (2, 3):
        (videos / f"clip_{number:02}.mp4").unlink()
    shutil.copy(videos / "clip_00.mp4", videos / "copy.mp4")
    (videos / "bad.mp4").write_bytes(b"no video " * 1000)
    return videos


def test_library_and_report_are_those_of_one_machine(
    videos: Path, library: Path, machines: Machines, plain: tuple[Path, IndexReport]
) -> None:
    report = spread_out(videos, library, machines)
    assert state(library) == state(plain[0])
    assert same(report) == same(plain[1])
    assert report.indexed == 2 and report.recognised == 1 and report.newly_aside == 1
    assert not verify(library)
    assert not (library / "arriving").exists()


def test_a_further_stage_and_a_further_model_are_added_to_what_is_there(
    videos: Path, library: Path, machines: Machines, plain: tuple[Path, IndexReport]
) -> None:
    more = replace(SETTINGS, read_text=True, also=("second",))
    index_folders([videos], plain[0], more)
    spread_out(videos, library, machines)
    spread_out(videos, library, machines, more)
    assert state(library) == state(plain[0])


def test_what_is_known_is_not_read_again(videos: Path, library: Path, machines: Machines) -> None:
    spread_out(videos, library, machines)
    HereSession.rounds.clear()
    assert spread_out(videos, library, machines).did_nothing
    assert HereSession.rounds == []
    (videos / "clip_00.mp4").rename(videos / "renamed.mp4")
    report = spread_out(videos, library, machines)
    assert HereSession.rounds == [(1, False)] and report.frames == 0 and report.recognised == 1


def test_content_whose_shard_is_damaged_is_read_anew(
    videos: Path, library: Path, machines: Machines, plain: tuple[Path, IndexReport]
) -> None:
    spread_out(videos, library, machines)
    for shard in library.glob("shards/*/*.safetensors"):
        shard.write_bytes(shard.read_bytes()[:-8])
    for path in videos.glob("c*.mp4"):
        os.utime(path, (1, 1))
    index_folders([videos], plain[0], SETTINGS)
    spread_out(videos, library, machines)
    assert state(library) == state(plain[0])


def test_a_file_that_workers_die_of_is_set_aside_once_it_was_alone(
    videos: Path, library: Path, machines: Machines
) -> None:
    HereSession.lost.add("clip_01.mp4")
    report = spread_out(videos, library, machines)
    assert HereSession.rounds == [(4, False), (1, True)]
    aside = {Path(one.path).name: one.reason for one in report.set_aside}
    assert aside == {"bad.mp4": "not_media", "clip_01.mp4": "killed"}
    assert report.indexed == 1
    HereSession.lost.clear()
    assert spread_out(videos, library, machines).indexed == 1, "another run tries it again"


def test_the_work_of_a_broken_off_run_is_kept_and_its_arrivals_go(
    videos: Path, library: Path, machines: Machines, plain: tuple[Path, IndexReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(self: HereSession, tasks: list[object], *, alone: bool) -> object:
        yield from list(whole(self, tasks, alone=alone))[:2]  # type: ignore[arg-type]
        raise LibraryError("Ray ended unexpectedly.")

    whole = HereSession.run
    with monkeypatch.context() as patch:
        patch.setattr(HereSession, "run", run_out)
        with pytest.raises(LibraryError, match="Ray ended"):
            spread_out(videos, library, machines)
    (library / "arriving" / "0").mkdir(parents=True)  # as a killed run would leave it
    index_folders([videos], library, SETTINGS)
    assert state(library) == state(plain[0])
    assert not (library / "arriving").exists()


def test_a_place_for_arrivals_may_be_named(
    videos: Path, library: Path, tmp_path: Path, plain: tuple[Path, IndexReport], machines: Machines
) -> None:
    staging = tmp_path / "staging"
    spread_out(videos, library, replace(machines, staging=f"file://{staging}"))
    assert state(library) == state(plain[0])
    assert list(staging.iterdir()) == []


def test_other_weights_on_a_worker_end_the_run(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "LOADER", "tests.library.machines.here:load_another")
    with pytest.raises(LibraryError, match="has other weights of org/pixels@1 than this machine; nothing of it"):
        spread_out(videos, library, machines)
    assert not library.exists()


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"version": "0.0.1"}, r"has evenreel .*, and this is 0.0.1; install the same version on every machine"),
        ({"roots": ["/not/here"]}, "does not see /not/here; have it under the same path on every machine"),
        ({"staging": "/not/here"}, "does not see /not/here, where it is to leave what it makes; name a place"),
    ],
)
def test_a_worker_that_cannot_take_part_ends_the_run(
    told: dict[str, object], sentence: str, videos: Path, library: Path, machines: Machines
) -> None:
    HereSession.told.update(told)
    with pytest.raises(LibraryError, match=sentence):
        spread_out(videos, library, machines)
    assert not library.exists()


def test_a_worker_that_does_not_see_a_file_ends_the_run(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = ClipWorker.work

    def work(self: ClipWorker, task: clip_worker.FileTask) -> object:
        return elsewhere(self, replace(task, path=task.path.replace(str(videos), str(videos / "mount"))))

    monkeypatch.setattr(ClipWorker, "work", work)
    with pytest.raises(LibraryError, match="does not see .*/videos/.*; have its folder under the same path"):
        spread_out(videos, library, machines)


def test_a_full_disk_at_a_worker_ends_the_run_and_what_was_stored_stays(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Arrivals._write

    def full(self: Arrivals, name: str, payload: bytes) -> None:
        if name.startswith("0/") and any(library.glob("shards/*/*")):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, name, payload)

    monkeypatch.setattr(Arrivals, "_write", full)
    with pytest.raises(LibraryError, match=r"is full, says the Ray worker on .*; what was indexed so far is safe"):
        spread_out(videos, library, machines)
    assert len(state(library)["clips"]) == 1
    assert not verify(library)


def test_a_program_error_in_a_worker_names_the_file(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("of a kind nobody thought of")

    monkeypatch.setattr(clip_worker, "watched_digest", fails)
    with pytest.raises(LibraryError, match=r"failed at .*mp4 \(ZeroDivisionError: of a kind"):
        spread_out(videos, library, machines)


def test_a_clip_of_another_length_is_another_clip(videos: Path, library: Path, machines: Machines) -> None:
    spread_out(videos, library, machines)
    write_video(videos / "clip_00.mp4", seed=0, seconds=3.0)
    report = spread_out(videos, library, machines)
    assert report.indexed == 1 and report.frames == 3
