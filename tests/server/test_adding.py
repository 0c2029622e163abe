"""Adding folders: which may be chosen, found while it goes on, paused, gone on with, refused; and trying again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from evenreel.errors import NotFoundError, UsageError
from evenreel.extras import Download
from evenreel.features.pool import Forecast, VideoProgress
from evenreel.library import index_folders, open_library, verify
from evenreel.library.index.run import resolve
from evenreel.library.index.scan import scan
from evenreel.library.store.catalog import library_lock
from evenreel.server import ServeSettings, adding, adding_run
from evenreel.server.adding import NOTE, Adder, Folders, Retry, Run, count_videos
from evenreel.server.adding_run import HELD, RunOrder, SaidProgress
from tests.library.damage import table_of, write
from tests.library.words_only import WORDS_ONLY
from tests.server.conftest import PATIENCE_S, NewHome, Served, wait_until

ADD: dict[str, Any] = {"action": "start", "folder": "Videos", "model": "builtin"}


def state(visitor: TestClient) -> dict[str, Any]:
    answer = visitor.get("/api/v1/indexing")
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def order(visitor: TestClient, status: int = 200, **what: object) -> dict[str, Any]:
    answer = visitor.post("/api/v1/indexing", json=what)
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


def until(visitor: TestClient, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while not holds(told := state(visitor)):
        assert time.monotonic() < deadline, told
        time.sleep(0.1)
    return told


def ended(visitor: TestClient) -> dict[str, Any]:
    return until(visitor, lambda told: told["state"] not in {"running", "pausing"})


def clips(visitor: TestClient) -> int:
    held: int = visitor.get("/api/v1/stats").json()["clips"]
    return held


def test_results_appear_while_it_goes_on_and_it_can_be_paused(
    here: TestClient, new_home: NewHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "subprocess", subprocess)  # here the run is the command that a server begins
    assert [choice["name"] for choice in state(here)["models"]] == ["default", "fast", "words", "builtin"]
    begun = order(here, **ADD)
    assert (begun["state"], begun["folders"]) == ("running", ["Videos"])
    told = until(here, lambda told: told["done"] >= 1)
    assert (told["state"], told["stage"], told["total"]) == ("running", "reading pictures and words", 3)
    assert told["file"] in {"star.mp4", "heart.mp4", "cross.mp4"}
    assert 1 <= clips(here) < 3  # the others wait at the gate
    wait_until(lambda: here.get("/api/v1/health").json()["model"] == "ready")
    assert here.get("/api/v1/search?q=a+star").json()["hits"]

    assert order(here, 400, **ADD)["detail"].startswith("Videos are being added already")
    assert order(here, action="pause")["state"] == "pausing"
    assert ended(here)["state"] == "paused"
    assert 1 <= (kept := clips(here)) < 3
    with library_lock(new_home.library):  # free for others meanwhile
        pass

    new_home.gate.touch()
    assert order(here, action="resume")["state"] == "running"
    done = ended(here)
    assert (done["state"], clips(here)) == ("done", 3)
    assert done["sentence"] == f"{3 - kept} video{'s' if kept == 1 else ''} added."
    assert not (new_home.library / NOTE).exists()
    assert verify(new_home.library) == []
    assert here.get("/api/v1/folders?inside=Videos/Trips").json()["added"]
    assert state(here)["models"] == []


def begun(visitor: TestClient) -> None:
    """A run that waits at the gate after its first video."""
    order(visitor, **ADD)
    until(visitor, lambda told: told["done"] >= 1)


def test_a_run_that_is_stopped_is_forgotten_and_keeps_what_it_has(here: TestClient, new_home: NewHome) -> None:
    begun(here)
    order(here, action="stop")
    assert ended(here)["state"] == "idle"
    assert not (new_home.library / NOTE).exists()
    assert 1 <= clips(here) < 3
    assert order(here, action="pause")["state"] == "idle"


def test_a_run_goes_on_after_the_server_has_ended(new_home: NewHome) -> None:
    with new_home.visitor() as visitor:
        begun(visitor)
    with library_lock(new_home.library), open_library(new_home.library, vision=False) as left:  # nobody writes any more
        assert 1 <= left.stats().clips < 3
    new_home.gate.touch()
    with new_home.visitor() as visitor:
        assert ended(visitor)["state"] == "done"
        assert clips(visitor) == 3


def test_a_run_ends_with_a_server_that_is_killed(new_home: NewHome) -> None:
    """The kill is that of a process which holds the run's input: only its end of the pipe tells the run."""
    with new_home.visitor() as visitor:
        begun(visitor)
        application: Any = visitor.app
        application.state.adder._run.process.stdin.close()
        told = ended(visitor)
    assert (told["state"], adding.BROKE) == ("failed", told["sentence"])
    assert json.loads((new_home.library / NOTE).read_text())["state"] == "paused"


def test_a_paused_run_waits_for_a_person(new_home: NewHome) -> None:
    with new_home.visitor() as visitor:
        order(visitor, **ADD)
        order(visitor, action="pause")
        assert ended(visitor)["state"] == "paused"
    with new_home.visitor() as visitor:
        told = state(visitor)
        assert (told["state"], told["folders"]) == ("paused", ["Videos"])


def test_hazard_157_no_folder_is_added_twice_and_its_new_videos_are_found(
    here: TestClient, new_home: NewHome, rendered: Path
) -> None:
    new_home.gate.touch()
    order(here, **ADD)
    assert ended(here)["sentence"] == "3 videos added."
    for folder in ("Videos", "Videos/Trips"):
        told = order(here, 400, action="start", folder=folder)
        assert told["detail"].endswith("is in the library already; look for new videos in it instead of adding it.")
    shutil.copyfile(rendered / "circle <b>.mp4", new_home.home / "Videos" / "more.mp4")
    (new_home.home / "Videos" / "broken.mp4").write_text("no video")
    order(here, action="start")
    assert ended(here)["sentence"] == "1 video added; 1 file skipped (Library says why)."
    assert "has its model already" in order(here, 400, action="start", model="fast")["detail"]


def test_what_was_paused_is_done_with_the_next_folder(here: TestClient, new_home: NewHome) -> None:
    (new_home.home / "Films").mkdir()
    (new_home.home / "Videos" / "Trips" / "star.mp4").rename(new_home.home / "Films" / "star.mp4")
    order(here, **ADD)
    order(here, action="pause")
    ended(here)
    new_home.gate.touch()
    assert order(here, action="start", folder="Films")["folders"] == ["Videos", "Films"]
    assert ended(here)["state"] == "done"
    assert clips(here) == 3


def test_folders_are_watched_until_that_is_stopped(here: TestClient, new_home: NewHome, rendered: Path) -> None:
    new_home.gate.touch()
    order(here, **{**ADD, "action": "watch"})
    told = until(here, lambda told: told["state"] == "watching")
    assert (told["watches"], told["sentence"], clips(here)) == (True, "3 videos added.", 3)
    (new_home.home / "Films").mkdir()
    shutil.copyfile(rendered / "circle <b>.mp4", new_home.home / "Videos" / "new.mp4")
    until(here, lambda told: clips(here) == 4)
    until(here, lambda told: told["state"] == "watching")
    (new_home.home / "Videos" / "new.mp4").rename(new_home.home / "Films" / "new.mp4")
    told = order(here, action="start", folder="Films")  # the others stay watched
    assert (told["state"], told["folders"], told["watches"]) == ("running", ["Videos", "Films"], True)
    until(here, lambda told: told["state"] == "watching")
    order(here, action="stop")
    assert ended(here)["state"] == "idle"
    assert clips(here) == 4
    assert verify(new_home.library) == []


def test_hazard_218_single_files_are_looked_at_once_where_folders_are_watched(
    new_home: NewHome, rendered: Path
) -> None:
    new_home.gate.touch()
    (new_home.home / "Films").mkdir()
    single = new_home.home / "Films" / "single.mp4"
    shutil.copyfile(rendered / "circle <b>.mp4", single)
    later = (new_home.home / "Videos" / "Trips" / "star.mp4").rename(new_home.home / "Films" / "later.mp4")
    index_folders([new_home.home / "Videos", single], new_home.library, WORDS_ONLY)
    (new_home.home / "Films" / "single.srt").write_text("1\n00:00:00,100 --> 00:00:00,900\nharbour at dawn\n")
    with new_home.visitor() as visitor:
        assert order(visitor, action="watch")["folders"] == ["Videos", "Films/single.mp4"]
        told = until(visitor, lambda told: told["state"] in {"watching", "failed"})
        assert told["state"] == "watching"
        assert told["sentence"].endswith("Not watched, only looked at now: single.mp4.")
        assert visitor.get("/api/v1/search?q=harbour").json()["hits"]
        later.rename(new_home.home / "Videos" / "new.mp4")
        until(visitor, lambda told: clips(visitor) == 4)


def test_hazard_218_single_files_alone_cannot_be_watched(new_home: NewHome, rendered: Path) -> None:
    index_folders([new_home.home / "Videos" / "Trips" / "star.mp4"], new_home.library, WORDS_ONLY)
    with new_home.visitor() as visitor:
        told = order(visitor, 400, action="watch")
        assert "holds single files only" in told["detail"]
        assert state(visitor)["state"] == "idle"


@pytest.mark.parametrize(
    ("wanted", "status", "sentence"),
    [
        ({"folder": "Pictures"}, 404, "There is no folder Pictures"),
        ({"folder": ""}, 400, "Your whole home folder is too much"),
        ({"folder": "Empty"}, 400, "There is no video in Empty"),
        ({"folder": "../.."}, 400, "../.. is no folder that can be added"),
        ({"folder": "/etc"}, 400, "/etc is hidden or one of the system's"),
        ({"folder": "Videos", "model": "odd"}, 400, "There is no choice odd"),
        ({}, 400, "No folder of the library is there"),  # to look through again
        ({"action": "jump"}, 422, "action:"),
        ({"action": "resume"}, 400, "Nothing was begun"),
    ],
)
def test_hazard_157_folders_that_cannot_be_added(
    here: TestClient, new_home: NewHome, wanted: dict[str, str], status: int, sentence: str
) -> None:
    (new_home.home / "Empty").mkdir()
    assert order(here, status, **{"action": "start", **wanted})["detail"].startswith(sentence)
    assert state(here)["state"] == "idle"


def test_hazard_158_a_folder_that_vanishes_before_it_is_read(here: TestClient, new_home: NewHome) -> None:
    order(here, **ADD)
    order(here, action="pause")
    assert ended(here)["state"] == "paused"
    (new_home.home / "Videos").rename(new_home.home / "Films")
    order(here, action="resume")
    told = ended(here)
    assert told["state"] == "failed" and told["sentence"].startswith("Left out, as not there: Videos;")
    order(here, 404, **ADD)


@pytest.mark.parametrize("state", ["running", "paused"])
def test_hazard_219_the_folders_that_are_there_go_on_without_one_that_is_gone(
    new_home: NewHome, tmp_path: Path, state: str
) -> None:
    """Also where the library was moved since."""
    new_home.gate.touch()
    _note(new_home, new_home.home / "gone", new_home.home / "Videos", state=state, library=tmp_path / "old place")
    with new_home.visitor() as visitor:
        if state == "paused":
            order(visitor, action="resume")
        told = ended(visitor)
        assert (told["state"], clips(visitor)) == ("done", 3)
        assert "Left out, as not there: gone; connect its disk" in told["sentence"]
    assert not (tmp_path / "old place").exists()


def test_hazard_159_a_library_that_a_terminal_is_indexing(
    here: TestClient, new_home: NewHome, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process, its host and the place of the library are for the log."""
    new_home.gate.touch()
    with library_lock(new_home.library):
        order(here, **ADD)
        told = ended(here)
    assert (told["state"], told["sentence"]) == ("failed", HELD)
    assert f"is being written by process {os.getpid()}" in caplog.text
    assert json.loads((new_home.library / NOTE).read_bytes())["state"] == "paused"  # it is not begun again by itself


def test_hazard_159_a_second_server_leaves_the_note_of_the_first_as_it_is(new_home: NewHome) -> None:
    new_home.gate.touch()
    noted = _note(new_home)
    before = noted.read_bytes()
    with library_lock(new_home.library), new_home.visitor() as visitor:  # the first is adding
        told = ended(visitor)
        assert (told["state"], json.loads(noted.read_bytes())) == ("failed", json.loads(before))
        assert told["sentence"] == HELD
        shutil.copytree(new_home.home / "Videos", new_home.home / "Films")
        order(visitor, action="start", folder="Films")
        assert (ended(visitor)["state"], json.loads(noted.read_bytes())) == ("failed", json.loads(before))


def test_hazard_160_a_full_disk(here: TestClient, new_home: NewHome, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> object:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(adding, "replacing", full)
        told = order(here, 400, **ADD)
    assert "cannot be written (no space left on device)" in told["detail"]
    assert state(here)["state"] == "idle"


@pytest.mark.parametrize("note", ["{", "[]", '{"state": "running"}', '{"state": 1, "order": {"library": 1}}', "\0"])
def test_hazard_161_a_note_that_cannot_be_understood(new_home: NewHome, note: str) -> None:
    (new_home.library / NOTE).write_text(note)
    with new_home.visitor() as visitor:
        assert state(visitor)["state"] == "idle"


@pytest.mark.parametrize(
    "code", ["import os; os.abort()", *(f"print({said!r})" for said in ("{", "[]", '{"stage": 1}', '{"x": 1}'))]
)
def test_a_run_that_ends_without_a_word_says_so(new_home: NewHome, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "COMMAND", (sys.executable, "-c", code))
    adder = Adder(new_home.library)
    adder.start(RunOrder(str(new_home.library), (str(new_home.home / "Videos"),)))
    wait_until(lambda: adder.state().state != "running")
    assert (adder.state().state, adder.state().sentence) == ("failed", adding.BROKE)


def test_a_run_that_does_not_end_is_killed(new_home: NewHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "COMMAND", (sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr(adding, "PATIENCE_S", 0.1)
    adder = Adder(new_home.library)
    told = RunOrder(str(new_home.library), (str(new_home.home / "Videos"),))
    adder.start(told)
    run = adder._run
    assert run is not None
    wait_until(lambda: run.process is not None)
    adder.close()
    assert run.process is not None and run.process.returncode == -signal.SIGKILL
    with pytest.raises(UsageError):
        adder.start(told)


STRANGERS: dict[str, tuple[dict[str, Any], dict[str, str], tuple[str, int]]] = {
    "the server is open to others": ({"host": "0.0.0.0", "token": "correct horse battery"}, {}, ("127.0.0.1", 1)),
    "another name is allowed": ({"allowed_hosts": ("films.example",)}, {}, ("127.0.0.1", 1)),
    "a proxy is trusted": ({"trusted_proxies": ("127.0.0.1",)}, {}, ("127.0.0.1", 1)),
    "several processes serve": ({"workers": 2}, {}, ("127.0.0.1", 1)),
    "a proxy has handed it on": ({}, {"x-forwarded-for": "10.0.0.7"}, ("127.0.0.1", 1)),
    "a proxy says so": ({}, {"forwarded": "for=10.0.0.7"}, ("127.0.0.1", 1)),
    "it comes from elsewhere": ({}, {}, ("10.0.0.7", 1)),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_hazard_162_nobody_adds_from_elsewhere(new_home: NewHome, stranger: str) -> None:
    changes, headers, client = STRANGERS[stranger]
    if "token" in changes:
        headers = {"authorization": f"Bearer {changes['token']}"}
    settings = ServeSettings(cache=new_home.home / ".cache", painters=1, **changes)
    with new_home.visitor(settings, client) as visitor:
        for answer in _every_address(visitor, headers):
            assert answer.status_code == 403
            assert answer.json()["detail"].startswith("Folders are added only at the machine")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 400),
        ({"origin": "http://evil.example", "sec-fetch-site": "cross-site"}, 403),
        ({"authorization": "Bearer wrong token"}, 401),
        ({}, 401),
    ],
)
def test_hazard_162_host_origin_and_token_are_asked_for(
    new_home: NewHome, headers: dict[str, str], status: int
) -> None:
    settings = ServeSettings(cache=new_home.home / ".cache", painters=1, token="correct horse battery")
    with new_home.visitor(settings) as visitor:
        assert [answer.status_code for answer in _every_address(visitor, headers)] == [status] * 3
        right = {"authorization": "Bearer correct horse battery"}
        assert visitor.get("/api/v1/folders", headers=right).status_code == 200


def test_a_snapshot_is_only_read(new_home: NewHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.server.adding.is_published", lambda _: True)
    with new_home.visitor() as visitor:
        assert not state(visitor)["can_add"]
        assert order(visitor, 400, **ADD)["detail"].startswith("A published snapshot is only read")


def _every_address(visitor: TestClient, headers: dict[str, str]) -> list[Any]:
    return [
        visitor.get("/api/v1/folders?inside=Videos", headers=headers),
        visitor.get("/api/v1/indexing", headers=headers),
        visitor.post("/api/v1/indexing", headers=headers, json=ADD),
    ]


def _note(home: NewHome, *places: Path, state: str = "running", library: Path | None = None) -> Path:
    """Write what a server notes of a run without a model."""
    run = RunOrder(str(library or home.library), tuple(map(str, places or (home.home / "Videos",))), "words", False)
    note = home.library / NOTE
    note.write_text(json.dumps({"state": state, "pid": 1, "order": asdict(run)}))
    return note


NAMES = st.sampled_from(["..", ".", "", "Videos", ".cache", "out", "inside", "Trips", "etc", "a b", "\x00", "passwd"])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with two videos in it, and a folder beside it with one."""
    home = tmp_path / "home"
    for folder in ("Videos/Trips", ".cache/previews", "Videos/@eaDir", "Empty"):
        (home / folder).mkdir(parents=True)
    (home / "Videos" / "one.MP4").touch()
    (home / "Videos" / "Trips" / "two.mkv").touch()
    (home / "Videos" / "Trips" / "notes.txt").touch()
    (home / "Videos" / ".three.mp4").touch()
    (home / "Videos" / "@eaDir" / "four.mp4").touch()
    (home / ".cache" / "previews" / "five.mp4").touch()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "six.mp4").touch()
    return home


def test_folders_are_listed_with_the_videos_that_a_run_would_find(home: Path) -> None:
    listed = Folders(home).listing("")
    assert [(one.name, one.path, one.videos, one.more) for one in listed.folders] == [
        ("Empty", str(home / "Empty"), 0, False),
        ("Videos", str(home / "Videos"), 2, False),
    ]
    assert (listed.name, listed.path, listed.videos, listed.added, listed.left_out) == ("Home", str(home), 2, False, 0)
    assert listed.hindrance.startswith("Your whole home folder is too much to add at once")
    assert [Path(file.path).name for file in scan([home]).files] == ["two.mkv", "one.MP4"]
    inside = Folders(home).listing("Videos", [str(home / "Videos")])
    assert (inside.videos, inside.added, [one.name for one in inside.folders]) == (2, True, ["Trips"])
    assert inside.hindrance.startswith("Videos is in the library already")
    assert Folders(home).listing("Videos").hindrance == ""


def test_disks_and_typed_paths_are_offered_and_whole_disks_are_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "SYSTEM", re.compile("etc"))
    disk, films = home.parent / "disk", home.parent / "disk" / "Films"
    films.mkdir(parents=True)
    (films / "one.mp4").touch()
    (home / "films").symlink_to(films)
    folders = Folders(home, [disk])
    assert [one.path for one in folders.listing("").places] == [str(home), str(disk)]
    listed = folders.listing(str(films))
    for whole in (disk, Path(home.anchor)):
        assert folders.hindrance(whole, (), has_video=True).startswith("A whole disk is too much")
    assert (listed.hindrance, [one.path for one in listed.trail]) == ("", [str(disk), str(films)])
    links = [(one.name, one.path) for one in folders.listing("~").folders if one.name == "films"]
    assert links == [("films", str(films))]
    assert folders.find("~/Videos") == folders.find(str(home / "Videos")) == home / "Videos"
    assert folders.listing(str(home.parent / "outside")).trail[0].path == home.anchor
    shared = Folders(home, [disk], shared=True)
    assert ([one.name for one in shared.listing("").places], shared.listing("").left_out) == (["Home"], 1)
    with pytest.raises(UsageError, match="need a token"):
        shared.find(str(films))


def test_others_at_the_machine_see_the_home_folder_alone_without_a_token(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(mountpoint="/media/me/disk")
    monkeypatch.setattr("psutil.disk_partitions", lambda all: [disk, SimpleNamespace(mountpoint="/proc")])
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setattr(Path, "is_dir", lambda path: True)
    for users, with_token, places in ((["you"], False, 1), (["you"], True, 2), ([], False, 2)):
        monkeypatch.setattr("psutil.users", lambda users=users: [SimpleNamespace(name=one) for one in users])
        assert len(adding.folders_here(with_token=with_token).listing("Videos").places) == places


@pytest.mark.parametrize("path", ["..", "../outside", "Videos/../../outside", "/etc", "Videos\0", "~you/Videos"])
def test_hazard_153_a_path_to_elsewhere_is_refused(home: Path, path: str) -> None:
    with pytest.raises((UsageError, NotFoundError)):
        Folders(home).find(path)


def test_hazard_153_a_link_that_leads_out_is_left_out_and_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "SYSTEM", re.compile(re.escape(home.parts[1])))
    (home / "out").symlink_to(home.parent / "outside")
    (home / "hidden").symlink_to(home / ".cache")
    (home / "round").symlink_to(home)
    (home / "trips").symlink_to(home / "Videos" / "Trips")
    folders = Folders(home)
    listed = folders.listing("")
    assert ([one.name for one in listed.folders], listed.left_out) == (["Empty", "trips", "Videos"], 2)
    for path in ("out", "hidden", ".cache", "Videos/@eaDir", "hidden/previews", str(home.parent / "outside")):
        with pytest.raises(UsageError, match="hidden or one of the system's"):
            folders.find(path)
    assert folders.find("trips") == home / "Videos" / "Trips"


@given(parts=st.lists(NAMES, max_size=6))
def test_whatever_is_asked_for_is_below_the_home_folder_and_not_hidden(
    parts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / "homes"
    home = root / "home"
    (home / "Videos" / "Trips").mkdir(parents=True, exist_ok=True)
    (home / ".cache").mkdir(exist_ok=True)
    (root / "etc").mkdir(exist_ok=True)
    for link, to in (("out", root), ("inside", home / "Videos")):
        if not (home / link).is_symlink():
            (home / link).symlink_to(to)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adding, "SYSTEM", re.compile(f"etc|{re.escape(home.parts[1])}"))
        try:
            found = Folders(home).find("/".join(parts))
        except (UsageError, NotFoundError):
            return
    assert found.resolve() == found and (found == home or home in found.parents or found == Path("/"))
    assert not any(part.startswith(".") for part in found.parts)


def test_hazard_154_a_folder_that_has_gone_is_one_sentence(home: Path) -> None:
    for path in ("Pictures", "Videos/one.MP4"):
        with pytest.raises(NotFoundError, match=r"^There is no folder .*; choose another\.$"):
            Folders(home).find(path)
    with pytest.raises((NotFoundError, UsageError)):
        Folders(home).find("x" * 4_000)


def test_hazard_155_a_folder_without_the_right_to_it_is_left_out_and_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, really = str(home / "Empty"), os.scandir

    def scandir(path: Path) -> object:
        if str(path) == closed:
            raise PermissionError(13, "Permission denied", closed)
        return really(path)

    monkeypatch.setattr(os, "access", lambda path, _: str(path) != closed)  # for tests that root runs, too
    monkeypatch.setattr(os, "scandir", scandir)
    listed = Folders(home).listing("")
    assert ([one.name for one in listed.folders], listed.left_out) == (["Videos"], 1)
    with pytest.raises(
        UsageError, match=r"^Empty cannot be opened \(permission denied\); make it readable or choose another\.$"
    ):
        Folders(home).find("Empty")


def test_hazard_156_names_that_are_no_text_are_left_out(home: Path) -> None:
    os.mkdir(os.fsencode(home) + b"/caf\xe9")
    (home / "turned\u202e").mkdir()
    listed = Folders(home).listing("")
    assert ([one.name for one in listed.folders], listed.left_out) == (["Empty", "Videos"], 2)
    listed.model_dump_json().encode()


PASS = st.tuples(
    st.sampled_from(["pictures", "words", "pictures and words"]),
    st.lists(st.tuples(st.floats(0, 90), st.floats(0, 90), st.integers(0, 9)), max_size=6),
)
EVENTS = st.lists(
    st.one_of(PASS, st.tuples(st.sampled_from(["reading subtitles", "hearing what is said"]), st.integers(0, 4))),
    max_size=6,
)


@given(events=EVENTS, forecast=st.sampled_from([None, Forecast(9, 90.0), Forecast(9, 90.0, True, 10.0, 70.0)]))
def test_the_share_of_a_run_never_falls_and_its_total_is_that_of_the_folder(
    events: list[Any], forecast: Forecast | None
) -> None:
    """Whatever lengths turn out to be, and whatever passes and stages follow each other."""
    said: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adding_run, "_say", lambda what: said.append(what["reached"]))
        patch.setattr(adding_run, "SAID_EVERY_S", 0)
        progress = SaidProgress(0.1)
        if forecast is not None:
            progress.forecast(forecast)
        for stage, told in events:
            if isinstance(told, int):
                progress.stage(stage, 4)
                for _ in range(told):
                    progress.advance(1)
                continue
            progress.video(VideoProgress(stage, 0, 0, 0, 7))
            progress.begin(7)
            for done_s, total_s, files in told:
                progress.video(VideoProgress(stage, min(done_s, total_s), total_s, min(files, 7), 7))
                progress.file_done("one.mp4")
    shares = [one["share"] for one in said]
    assert shares == sorted(shares) and all(0.1 <= share <= 1 for share in shares)
    totals = {one["total"] for one in said if one["video_s"] is not None}
    assert totals <= {9 if forecast else 7}
    assert forecast is None or not said or max(shares) < 1


def test_a_download_says_its_bytes_and_the_pass_of_words_counts_in_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(adding_run, "_say", lambda what: said.append(what["reached"]))
    progress = SaidProgress()
    progress.download(Download("org/tiny", 430, 1_500, 180.0))
    told = said[-1]
    assert (told["stage"], told["remaining_s"], told["share"]) == ("downloading the model", 180.0, 0)
    assert told["download"] == {"done_bytes": 430, "total_bytes": 1_500}
    progress.forecast(Forecast(2, 90.0, True, 10.0, 70.0))
    progress.video(VideoProgress("pictures", 45, 90, 1, 2, 9.0, 5.0))
    told = said[-1]
    assert (told["download"], told["remaining_s"], told["share"]) == (None, 75.0, 0.5 * 10 / 80)


def test_a_run_that_got_no_model_is_tried_again_without_one(new_home: NewHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Item 1: what failed before the first file leaves nothing in the way."""
    new_home.gate.touch()
    monkeypatch.setenv("EVENREEL_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(new_home.home / ".cache"))
    with new_home.visitor() as visitor:
        order(visitor, action="start", folder="Videos", model="fast")
        told = ended(visitor)
        assert (told["state"], told["words_only"]) == ("failed", True)
        assert told["sentence"] == "The model cannot be downloaded: there is no network."
        assert "siglip2-base-patch32-256" in told["details"]
        listed = visitor.get("/api/v1/folders?inside=Videos").json()
        assert (listed["added"], listed["hindrance"]) == (False, "")
        assert "There is no choice odd" in order(visitor, 400, action="resume", model="odd")["detail"]
        order(visitor, action="resume", model="words")
        assert (ended(visitor)["state"], clips(visitor)) == ("done", 3)
        assert [one["name"] for one in state(visitor)["models"]] == ["default", "fast", "words", "builtin"]
        order(visitor, action="start", model="builtin")
        assert ended(visitor)["state"] == "done"
        assert visitor.get("/api/v1/stats").json()["model"] == "builtin"
        assert "has its model already" in order(visitor, 400, action="resume", model="words")["detail"]


def test_a_root_without_a_file_does_not_count(here: TestClient, new_home: NewHome) -> None:
    """One that an earlier version left behind."""
    write(new_home.library, f"INSERT INTO roots (path) VALUES ('{new_home.home / 'Videos'}')")
    new_home.gate.touch()
    assert not here.get("/api/v1/folders?inside=Videos").json()["added"]
    order(here, **ADD)
    assert ended(here)["sentence"] == "3 videos added."


def test_speech_is_asked_for_once(here: TestClient, new_home: NewHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that hears already goes on with its own model; where the extra is missing, the page says so."""
    seen: list[RunOrder] = []

    def follow(run: Run, hear: object) -> dict[str, str]:
        seen.append(run.order)
        return {"ended": "Nothing is new."}

    monkeypatch.setattr(Run, "follow", follow)
    monkeypatch.setattr("evenreel.speech.recogniser.installed", lambda package: package != "onnx_asr")
    told = state(here)["speech"]
    assert (told["hindrance"][:26], told["download_bytes"]) == ("Hearing speech needs onnx_", 148_000_000)
    assert 5 < told["minutes_an_hour"] <= 23
    order(here, **ADD, speech=True)
    ended(here)
    monkeypatch.setattr(adding, "_hears", lambda library: True)
    assert state(here)["speech"] is None
    order(here, **ADD, speech=True)
    ended(here)
    assert [one.settings.speech for one in seen] == ["base", "auto"]


def test_counting_ends_after_so_many_entries(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (home / "Empty" / f"{number}.mp4").touch()
    assert count_videos(home / "Empty", 30) == (30, False)
    assert count_videos(home / "Empty", 29) == (29, True)
    assert count_videos(home, 1_000, below=False) == (0, False)
    assert count_videos(home / "gone", 10) == (0, False)
    monkeypatch.setattr(adding, "LOOKED_AT", 30)  # ten for each of two folders and for what is beside them
    listed = Folders(home).listing("")
    assert [(one.name, one.videos, one.more) for one in listed.folders] == [("Empty", 10, True), ("Videos", 2, False)]
    assert (listed.videos, listed.more) == (12, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((), True),
        (("UPDATE clips SET has_text = 0", "UPDATE meta SET value = '' WHERE key = 'model'"), False),
    ],
    ids=["with all", "words alone, without those on screen"],
)
def test_what_was_set_aside_is_tried_again_with_the_stages_that_the_library_has(
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: tuple[str, ...],
    expected: bool,
) -> None:
    library = tmp_path / "library"
    shutil.copytree(served.library, library)
    write(library, *changes)
    seen: list[RunOrder] = []
    gate = threading.Event()

    def follow(run: Run, hear: object) -> dict[str, str]:
        seen.append(run.order)
        assert gate.wait(PATIENCE_S)
        return {"ended": "1 file added; 0 files still skipped."}

    monkeypatch.setattr(Run, "follow", follow)
    adder, other = Adder(library), Adder(library)
    with open_library(library, vision=False) as opened:
        assert (adder.retry_state().state, adder.retry(opened).state) == ("idle", "running")
        assert (other.retry(opened).state, other.retry_state().state) == ("running", "running")  # another worker
    gate.set()
    wait_until(lambda: adder.retry_state().state != "running")
    told = Retry(state="done", sentence="1 file added; 0 files still skipped.")
    assert (adder.retry_state(), other.retry_state().state) == (told, "idle")
    (order,) = seen
    assert (order.retry, order.places, order.model, order.reads_text) == (True, (str(served.videos),), None, expected)
    tied = resolve(order.settings, dict(table_of(library, "meta")), library)
    assert tied.model == ("builtin" if expected else None)  # that of the library
