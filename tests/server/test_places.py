"""Which folders below a home folder may be chosen: hazards 170 to 173."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import NotFoundError, UsageError
from evenreel.library.index.scan import scan
from evenreel.server import adding as places
from evenreel.server.adding import HomeFolders, count_videos

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
    listed = HomeFolders(home).listing("")
    assert [(one.name, one.path, one.videos, one.more) for one in listed.folders] == [
        ("Empty", "Empty", 0, False),
        ("Videos", "Videos", 2, False),
    ]
    assert (listed.name, listed.path, listed.videos, listed.added, listed.left_out) == ("Home", "", 2, False, 0)
    assert [Path(file.path).name for file in scan([home]).files] == ["two.mkv", "one.MP4"]
    inside = HomeFolders(home).listing("Videos", [str(home / "Videos")])
    assert (inside.videos, inside.added, [one.path for one in inside.folders]) == (2, True, ["Videos/Trips"])


@pytest.mark.parametrize(
    "path",
    ["..", "../outside", "Videos/../../outside", "/etc", ".cache", "Videos/@eaDir", "Videos\0", ".", "Videos/./Trips"],
)
def test_hazard_153_a_path_out_of_the_home_folder_is_refused(home: Path, path: str) -> None:
    with pytest.raises(UsageError, match="below your home folder"):
        HomeFolders(home).find(path)


def test_hazard_153_a_link_that_leads_out_is_left_out_and_refused(home: Path) -> None:
    (home / "out").symlink_to(home.parent / "outside")
    (home / "hidden").symlink_to(home / ".cache")
    (home / "round").symlink_to(home)
    (home / "trips").symlink_to(home / "Videos" / "Trips")
    folders = HomeFolders(home)
    listed = folders.listing("")
    assert ([one.path for one in listed.folders], listed.left_out) == (["Empty", "Videos/Trips", "Videos"], 2)
    for path in ("out", "hidden", "hidden/previews", "trips/../../outside"):
        with pytest.raises(UsageError, match="home folder"):
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
    try:
        found = HomeFolders(home).find("/".join(parts))
    except (UsageError, NotFoundError):
        return
    assert found.resolve() == found and (found == home or home in found.parents)
    assert not any(part.startswith(".") for part in found.relative_to(home).parts)


def test_hazard_154_a_folder_that_has_gone_is_one_sentence(home: Path) -> None:
    for path in ("Pictures", "Videos/one.MP4"):
        with pytest.raises(NotFoundError, match=r"^The folder .* is not there any more; choose another\.$"):
            HomeFolders(home).find(path)
    with pytest.raises((NotFoundError, UsageError)):
        HomeFolders(home).find("x" * 4_000)


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
    listed = HomeFolders(home).listing("")
    assert ([one.name for one in listed.folders], listed.left_out) == (["Videos"], 1)
    with pytest.raises(
        UsageError, match=r"^Empty cannot be opened \(permission denied\); make it readable or choose another\.$"
    ):
        HomeFolders(home).find("Empty")


def test_hazard_156_names_that_are_no_text_are_left_out(home: Path) -> None:
    os.mkdir(os.fsencode(home) + b"/caf\xe9")
    (home / "turned\u202e").mkdir()
    listed = HomeFolders(home).listing("")
    assert ([one.name for one in listed.folders], listed.left_out) == (["Empty", "Videos"], 2)
    listed.model_dump_json().encode()


def test_counting_ends_after_so_many_entries(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (home / "Empty" / f"{number}.mp4").touch()
    assert count_videos(home / "Empty", 30) == (30, False)
    assert count_videos(home / "Empty", 29) == (29, True)
    assert count_videos(home, 1_000, below=False) == (0, False)
    assert count_videos(home / "gone", 10) == (0, False)
    monkeypatch.setattr(places, "LOOKED_AT", 30)  # ten for each of two folders and for what is beside them
    listed = HomeFolders(home).listing("")
    assert [(one.name, one.videos, one.more) for one in listed.folders] == [("Empty", 10, True), ("Videos", 2, False)]
    assert (listed.videos, listed.more) == (12, True)


def test_a_folder_is_named_as_a_person_knows_it(home: Path) -> None:
    folders = HomeFolders(home)
    assert folders.shown(str(home / "Videos" / "Trips")) == "Videos/Trips"
    assert folders.shown(str(home)) == "Your home folder"
    assert folders.shown("/mnt/films") == "films"
