"""An index run whose files others read ends as one that reads them itself; the others are this process here."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenreel.config import Machines
from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.library import index_folders, verify
from evenreel.library.index import spread
from evenreel.library.index.scan import IndexReport
from evenreel.library.index.spread import RayWorker, begin_arrivals, clear_arrivals
from evenreel.library.published import Place
from tests.library.machines import here
from tests.library.machines.here import SETTINGS
from tests.library.state import state
from tests.library.videos import write_video


def same(report: IndexReport) -> dict[str, object]:
    """A report without how long it took, and frames: a worker knows of no copy that another reads."""
    return report.to_json() | {"seconds": 0, "frames": 0, "pictures_per_s": None}


def spread_out(videos: Path, library: Path, machines: Machines, settings: Any = SETTINGS) -> IndexReport:
    return index_folders([videos], library, settings, machines=machines)


@pytest.fixture
def videos(videos: Path) -> Path:
    for number in (2, 3):
        (videos / f"clip_{number:02}.mp4").unlink()
    shutil.copy(videos / "clip_00.mp4", videos / "copy.mp4")
    (videos / "bad.mp4").write_bytes(b"no video " * 1000)
    return videos


def test_library_and_report_are_those_of_one_machine(
    videos: Path, library: Path, machines: Machines, plain: tuple[Path, IndexReport], tmp_path: Path
) -> None:
    staging = tmp_path / "staging"
    report = spread_out(videos, library, replace(machines, staging=f"file://{staging}"))
    assert state(library) == state(plain[0])
    assert same(report) == same(plain[1])
    assert report.indexed == 2 and report.recognised == 1 and report.newly_aside == 1
    assert not verify(library)
    assert list(staging.iterdir()) == [] and not (library / "arriving").exists()
    more = replace(SETTINGS, read_text=True)
    index_folders([videos], plain[0], more)
    spread_out(videos, library, machines, more)
    assert state(library) == state(plain[0]), "a further stage is added"


def test_what_is_known_is_not_read_again(videos: Path, library: Path, machines: Machines) -> None:
    spread_out(videos, library, machines)
    here.rounds.clear()
    assert spread_out(videos, library, machines).did_nothing and here.rounds == []
    (videos / "clip_00.mp4").rename(videos / "renamed.mp4")
    report = spread_out(videos, library, machines)
    assert here.rounds == [1] and report.frames == 0 and report.recognised == 1


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


def test_a_file_that_workers_die_of_is_set_aside_until_another_run(
    videos: Path, library: Path, machines: Machines
) -> None:
    here.lost.add("clip_01.mp4")
    report = spread_out(videos, library, machines)
    aside = {Path(one.path).name: one.reason for one in report.set_aside}
    assert aside == {"bad.mp4": "not_media", "clip_01.mp4": "killed"} and report.indexed == 1
    here.lost.clear()
    assert spread_out(videos, library, machines).indexed == 1


def test_the_work_of_a_broken_off_run_is_kept_and_its_arrivals_go(
    videos: Path, library: Path, machines: Machines, plain: tuple[Path, IndexReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def broken(address: str, setup: dict[str, Any]) -> Any:
        with here.driven(address, setup) as found:

            def some() -> Any:
                yield from list(found)[:2]
                raise LibraryError("Ray ended unexpectedly.")

            yield some()

    with monkeypatch.context() as patch:
        patch.setattr(spread, "driven", broken)
        with pytest.raises(LibraryError, match="Ray ended"):
            spread_out(videos, library, machines)
    place = begin_arrivals(library, str(library.parent / "staging"))  # as a killed run would leave it
    place.put("shards/0", b"made")
    index_folders([videos], library, SETTINGS)
    assert state(library) == state(plain[0])
    assert not (library / "arriving").exists() and list((library.parent / "staging").iterdir()) == []


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
        ({"staging": "/not/here"}, "does not see /not/here, where it is to leave what it makes; name another one"),
    ],
)
def test_a_worker_that_cannot_take_part_ends_the_run(
    told: dict[str, object], sentence: str, videos: Path, library: Path, machines: Machines
) -> None:
    here.told.update(told)
    with pytest.raises(LibraryError, match=sentence):
        spread_out(videos, library, machines)
    assert not library.exists()


def test_a_worker_that_does_not_see_a_file_ends_the_run(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = RayWorker.work

    def elsewhere(self: RayWorker, path: str, hears: bool) -> spread.Status:
        return work(self, path.replace(str(videos), str(videos / "mount")), hears)._replace(path=path)

    monkeypatch.setattr(RayWorker, "work", elsewhere)
    with pytest.raises(LibraryError, match="does not see .*/videos/.*; have its folder under the same path"):
        spread_out(videos, library, machines)


def test_a_full_disk_at_a_worker_ends_the_run_and_what_was_stored_stays(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Place.put

    def full(self: Place, name: str, payload: bytes, **condition: str) -> None:
        if name.startswith("shards/") and any(library.glob("shards/*/*")):
            raise OSError(errno.ENOSPC, "No space left on device")
        put(self, name, payload)

    monkeypatch.setattr(Place, "put", full)
    with pytest.raises(LibraryError, match=r"The Ray worker on .* cannot go on: .* is safe.*the disk is full"):
        spread_out(videos, library, machines)
    assert len(state(library)["clips"]) == 1 and not verify(library)


def test_a_program_error_in_a_worker_names_the_file(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("of a kind nobody thought of")

    monkeypatch.setattr("evenreel.library.index.spread.watched_digest", fails)
    with pytest.raises(LibraryError, match="cannot go on: .*mp4 led to ZeroDivisionError: of a kind"):
        spread_out(videos, library, machines)


def test_times_and_statuses_that_come_twice_are_those_of_this_machine(
    videos: Path, library: Path, machines: Machines, plain: tuple[Path, IndexReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def twice(address: str, setup: dict[str, Any]) -> Any:
        with here.driven(address, setup) as found:
            yield (one for one in found for _ in range(2))

    monkeypatch.setattr(spread, "driven", twice)
    report = spread_out(videos, library, machines)
    assert state(library) == state(plain[0]) and same(report) == same(plain[1])
    write_video(videos / "clip_00.mp4", seed=0, seconds=3.0)
    report = spread_out(videos, library, machines)
    assert report.indexed == 1 and report.frames == 3, "a clip of another length is another clip"


def test_a_place_that_can_be_read_no_more_ends_the_run_with_a_sentence(
    videos: Path, library: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EndpointConnectionError(Exception):
        """What a client of a store raises, which is no OSError."""

    def away(*_: object, **__: object) -> bytes:
        raise EndpointConnectionError("the word of the tests")

    monkeypatch.setattr(spread, "check_here", lambda order: None)
    monkeypatch.setattr(Place, "read", away)
    with pytest.raises(LibraryError, match=r"cannot be read \(what was.* is safe.*it cannot be reached") as told:
        spread_out(videos, library, machines)
    assert "word of the tests" not in str(told.value)


def test_arrivals_are_of_one_run(tmp_path: Path) -> None:
    staging = str(tmp_path / "shared")
    one, other = (begin_arrivals(tmp_path / name / "library", staging) for name in ("one", "other"))
    clear_arrivals(tmp_path / "one" / "library")
    assert not Path(one.root).exists() and list((tmp_path / "shared").iterdir()) == [Path(other.root)]


@pytest.mark.parametrize(
    ("staging", "sentence"),
    [
        ("s3://key:wo/rd@bucket/x", "redentials"),
        ("nothing://bucket/x", "nothing:// is no kind of place that fsspec opens"),
        ("x" * 300, "name another place with --set staging"),
    ],
)
def test_a_staging_that_is_none_is_refused(
    staging: str, sentence: str, videos: Path, library: Path, machines: Machines
) -> None:
    with pytest.raises(EvenreelError, match=sentence) as told:
        spread_out(videos, library, replace(machines, staging=staging))
    assert "wo/rd" not in str(told.value) and not library.exists()


def test_staging_without_ray_and_addresses_that_are_none(videos: Path, library: Path) -> None:
    with pytest.raises(UsageError, match="setting staging is where the workers of --ray leave"):
        spread_out(videos, library, Machines(staging="/x"))
    for address in ("", "here", "ray://head:10001", "head:port", ":6379"):
        with pytest.raises(LibraryError, match="is no address of a Ray cluster; give HOST:PORT"):
            spread.check_address(address)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else find(name))
    with pytest.raises(LibraryError, match=r"needs ray, which is not installed: pip install 'evenreel\[scale\]'"):
        spread.check_address("local")


def node(cores: int, gpus: int = 0, *, alive: bool = True) -> dict[str, object]:
    return {"Alive": alive, "Resources": {"CPU": float(cores)} | ({"GPU": float(gpus)} if gpus else {})}


@pytest.mark.parametrize(
    ("nodes", "device", "workers", "expected"),
    [
        ([node(2)], "cpu", 0, (2, 1, 0, 1)),
        ([node(2)], "cpu", 1, (1, 1, 0, 1)),
        ([node(64), node(16), node(8, alive=False)], "cpu", 0, (20, 4, 0, 4)),
        ([node(16, 2), node(16, 2)], "auto", 0, (4, 8, 1, 8)),
        ([node(16, 2)], "cpu", 6, (2, 4, 0, 4)),
        ([node(0), node(4)], "auto", 0, (2, 2, 0, 2)),
    ],
)
def test_workers_by_cores_and_gpus(
    nodes: list[dict[str, Any]], device: str, workers: int, expected: tuple[int, ...]
) -> None:
    settings = {"device": device, "model": "words", "workers": workers}
    assert spread.team(nodes, settings) == expected
    assert spread.team(nodes, settings | {"model": None})[2] == 0
