"""An index run whose files others read ends as one that reads them itself; the others are this process here."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from evenreel.config import Machines
from evenreel.errors import EvenreelError, LibraryError, MediaError, UsageError
from evenreel.features import clip_reader
from evenreel.features.clip_reader import ClipSource
from evenreel.library import index_folders, verify
from evenreel.library.index import spread
from evenreel.library.index.report import IndexReport
from evenreel.library.machines import clip_worker
from evenreel.library.machines.arrivals import Arrivals, begin_arrivals
from evenreel.library.machines.claims import Claims
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


def test_a_further_stage_is_added_to_what_is_there(
    videos: Path, library: Path, machines: Machines, plain: tuple[Path, IndexReport]
) -> None:
    more = replace(SETTINGS, read_text=True)
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
        ({"staging": "nothing://x"}, "cannot go on: nothing:// is no kind of place"),
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
        if name.startswith("shards/") and any(library.glob("shards/*/*")):
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


def all_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the workers read all files of a round before the first is stored, as several machines may."""
    whole = HereSession.run
    monkeypatch.setattr(HereSession, "run", lambda self, tasks, *, alone: iter(list(whole(self, tasks, alone=alone))))


def test_content_that_two_workers_read_is_stored_once(
    videos: Path,
    library: Path,
    machines: Machines,
    plain: tuple[Path, IndexReport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_read_first(monkeypatch)
    claim = Claims.claim

    def forgetful(self: Claims, clip_id: str, number: int) -> object:
        self.begin()  # as one that died and was started again
        return claim(self, clip_id, number)

    monkeypatch.setattr(Claims, "claim", forgetful)
    report = spread_out(videos, library, machines)
    assert state(library) == state(plain[0]) and same(report) == same(plain[1]) | {"frames": report.frames}
    assert report.frames > plain[1].frames, "it was read twice"


def test_copies_of_a_file_that_fails_are_read_once(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(videos / "clip_00.mp4", videos / "copy_2.mp4")
    all_read_first(monkeypatch)
    shard, read = ClipWorker._shard, list[str]()

    def first_fails(self: ClipWorker, seat: object, source: ClipSource, wanted: object) -> object:
        read.append(Path(source.path).name)
        if source.path.endswith("clip_00.mp4"):
            raise MediaError("timeout", "it took too long")
        return shard(self, seat, source, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(ClipWorker, "_shard", first_fails)
    report = spread_out(videos, library, machines)
    assert len([name for name in read if name.startswith("copy")]) == 1
    assert report.indexed == 2 and report.recognised == 1 and not verify(library)


def test_a_status_that_comes_twice_counts_once(
    videos: Path,
    library: Path,
    machines: Machines,
    plain: tuple[Path, IndexReport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = HereSession.run
    monkeypatch.setattr(
        HereSession,
        "run",
        lambda self, tasks, *, alone: (one for one in whole(self, tasks, alone=alone) for _ in range(2)),
    )
    report = spread_out(videos, library, machines)
    assert state(library) == state(plain[0]) and same(report) == same(plain[1])


def test_times_of_files_are_those_that_this_machine_sees(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = clip_worker.stamp
    for module in (clip_worker, clip_reader):
        monkeypatch.setattr(module, "stamp", lambda path: replace(seen(path), ctime_ns=1, mtime_ns=2))
    spread_out(videos, library, machines)
    HereSession.rounds.clear()
    assert spread_out(videos, library, machines).did_nothing and not HereSession.rounds


def test_a_place_that_can_be_read_no_more_ends_the_run_with_a_sentence(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EndpointConnectionError(Exception):
        """What a client of a store raises, which is no OSError."""

    def away(*_: object, **__: object) -> bytes:
        raise EndpointConnectionError("the word of the tests")

    monkeypatch.setattr(Arrivals, "is_open", lambda self: True)
    monkeypatch.setattr(LocalFileSystem, "cat_file", away)
    monkeypatch.setattr(LocalFileSystem, "rm", away)
    monkeypatch.setattr(Arrivals, "begin", lambda self: None)
    with pytest.raises(
        LibraryError, match=r"cannot be read \(it cannot be reached.*what was indexed so far is safe"
    ) as told:
        spread_out(videos, library, machines)
    assert "word of the tests" not in str(told.value)


def test_two_machines_whose_libraries_have_one_path_do_not_meet(tmp_path: Path) -> None:
    staging = str(tmp_path / "shared")
    runs = [begin_arrivals(tmp_path / machine / "library", staging) for machine in ("one", "other")]
    for run in runs:
        run.put("0/a", run.token.encode())
    runs[0].clear()
    assert runs[1].take("0/a") == runs[1].token.encode()


def test_what_a_killed_run_left_elsewhere_is_deleted_by_the_next(
    videos: Path, library: Path, tmp_path: Path, machines: Machines
) -> None:
    library.mkdir()
    staging = tmp_path / "staging"
    begin_arrivals(library, str(staging)).put("0/a", b"made")
    index_folders([videos], library, SETTINGS)
    assert list(staging.iterdir()) == [] and not (library / "arriving").exists()


@pytest.mark.parametrize(
    ("staging", "sentence"),
    [
        ("s3://key:wo/rd@bucket/x", "has credentials in it"),
        ("nothing://bucket/x", "nothing:// is no kind of place that fsspec opens"),
        ("x" * 300, "name another place with --staging"),
    ],
)
def test_a_staging_that_is_none_is_refused(
    staging: str, sentence: str, videos: Path, library: Path, machines: Machines
) -> None:
    with pytest.raises(EvenreelError, match=sentence) as told:
        spread_out(videos, library, replace(machines, staging=staging))
    assert "wo/rd" not in str(told.value) and not library.exists()


def test_staging_without_ray_is_refused(videos: Path, library: Path) -> None:
    with pytest.raises(UsageError, match="--staging is where the workers of --ray leave"):
        spread_out(videos, library, Machines(staging="/x"))
