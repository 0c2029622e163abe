from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from evenreel import open_library
from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.extras import Download
from evenreel.features.pool import NoProgress
from evenreel.library import Watcher, verify, watching
from evenreel.library.watching import FileChanges
from tests.library.videos import write_video
from tests.library.words_only import WORDS_ONLY

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
"""How long anything may take on a machine that is busy; nothing takes so long where all is right."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files settle sooner than they do for a person, and later than this test goes on with one."""
    monkeypatch.setattr(watching, "SETTLE_S", 0.8)


@pytest.fixture
def watched(videos: Path, library: Path) -> Iterator[Watcher]:
    """Four videos that are indexed already, and watched."""
    watcher = Watcher(library, videos, WORDS_ONLY)
    watcher.start()
    until(lambda: watcher.state.runs > 0)
    yield watcher
    watcher.stop()


def until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_at:
        with suppress(EvenreelError):  # no library yet
            if holds():
                return
        time.sleep(0.05)
    raise AssertionError("it does not come about")


def names(library: Path, state: str = "indexed") -> list[str]:
    with open_library(library, vision=False) as opened:
        return sorted(os.path.join(file.folder, file.name) for file in opened.files(state=state).files)


FOUR = [f"clip_{number:02}.mp4" for number in range(4)]


def test_what_comes_moves_and_goes_is_followed(videos: Path, library: Path, watched: Watcher) -> None:
    write_video(videos / "trams" / "new.mp4", 9)
    until(lambda: names(library) == [*FOUR, "trams/new.mp4"])
    (videos / "trams").rename(videos / "old trams")
    until(lambda: names(library) == [*FOUR, "old trams/new.mp4"])
    (videos / "clip_00.mp4").unlink()
    until(lambda: names(library, "missing") == ["clip_00.mp4"])
    (videos / "clip_01.srt").write_text("1\n00:00:00,100 --> 00:00:00,900\nharbour at dawn\n")
    with open_library(library, vision=False) as opened:
        until(lambda: [hit.on_screen or hit.said for hit in opened.search("harbour").hits] != [])
    state = watched.state
    assert (state.watching, state.trouble, Path(state.last_event or "").name) == (True, None, "clip_01.srt")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", state.last_event_at or "")
    watched.stop()
    assert not watched.state.watching
    assert verify(library) == []


def test_an_ignore_list_holds_as_soon_as_it_is_written(videos: Path, library: Path, watched: Watcher) -> None:
    (videos / ".evenreelignore").write_text("clip_00*\n")
    until(lambda: names(library, "missing") == ["clip_00.mp4"])
    (videos / ".evenreelignore").unlink()
    until(lambda: names(library) == FOUR)


def test_hazard_133_a_file_that_is_still_being_copied_is_not_read(
    videos: Path, library: Path, watched: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = write_video(tmp_path / "whole.mp4", 9, seconds=20.0).read_bytes()
    reports = []
    watched._told = reports.append  # instead of one that is given before
    monkeypatch.setattr(watching, "SETTLE_S", float("inf"))
    with (videos / "grows.mp4").open("wb") as file:
        for part in range(8):
            file.write(content[len(content) * part // 8 : len(content) * (part + 1) // 8])
            file.flush()
    until(lambda: watched.state.waiting > 0)
    runs = watched.state.runs
    watched._anew.set()  # a look at everything leaves it alone too
    until(lambda: watched.state.runs > runs)
    assert "grows.mp4" not in names(library, "set_aside") + names(library)
    monkeypatch.setattr(watching, "SETTLE_S", 0.5)
    until(lambda: "grows.mp4" in names(library))
    until(lambda: reports != [])
    assert [(report.indexed, report.newly_aside) for report in reports] == [(1, 0)]


def test_hazard_133_a_file_whose_copying_pauses_is_set_aside_and_read_when_it_is_whole(
    videos: Path, library: Path, watched: Watcher, tmp_path: Path
) -> None:
    content = write_video(tmp_path / "whole.mp4", 9).read_bytes()
    (videos / "half.mp4").write_bytes(content[: len(content) // 2])
    until(lambda: names(library, "set_aside") == ["half.mp4"])
    with (videos / "half.mp4").open("ab") as file:
        file.write(content[len(content) // 2 :])
    until(lambda: "half.mp4" in names(library))


def test_hazard_134_a_folder_that_goes_and_comes_back_is_told_and_loses_nothing(
    videos: Path, library: Path, watched: Watcher
) -> None:
    videos.rename(videos.with_name("elsewhere"))
    until(lambda: "is not there" in (watched.state.trouble or ""))
    assert names(library) == FOUR
    videos.with_name("elsewhere").rename(videos)
    until(lambda: watched.state.trouble is None)
    write_video(videos / "later.mp4", 9)
    until(lambda: names(library) == [*FOUR, "later.mp4"])


def test_hazard_134_an_empty_folder_in_its_place_is_taken_for_a_lost_disk(
    videos: Path, library: Path, watched: Watcher
) -> None:
    """What is there is indexed all the same."""
    videos.rename(videos.with_name("elsewhere"))
    videos.mkdir()
    write_video(videos / "new.mp4", 9)
    until(lambda: "is its disk or share connected?" in (watched.state.trouble or ""))
    until(lambda: names(library) == [*FOUR, "new.mp4"])


def test_hazard_135_a_library_that_somebody_else_writes_is_waited_for(
    videos: Path, library: Path, watched: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "AGAIN_S", 0.5)
    held = "import sys; from pathlib import Path; from evenreel.library.store.catalog import library_lock\n"
    held += "with library_lock(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", held, str(library)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        write_video(videos / "new.mp4", 9)
        until(lambda: "is being written by" in (watched.state.trouble or ""))
        other.communicate(b"")
    until(lambda: names(library) == [*FOUR, "new.mp4"])
    until(lambda: watched.state.trouble is None)


def test_hazard_217_a_share_that_cannot_be_listened_to_is_looked_through_instead(
    videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that leads to a folder above it ends the polling of a share; it is tried again until it can be heard."""
    monkeypatch.setattr(watching, "is_network_filesystem", lambda _: True)
    monkeypatch.setattr(watching, "LISTEN_AGAIN_S", 0.5)
    monkeypatch.setattr(watching, "POLL_MS", 100)
    (videos / "trams").mkdir(exist_ok=True)
    watcher = Watcher(library, videos, WORDS_ONLY)
    watcher.start()
    try:
        until(lambda: watcher.state.runs > 0)
        (videos / "trams" / "all").symlink_to(videos)
        until(lambda: "loop" in (watcher.state.trouble or ""))
        write_video(videos / "new.mp4", 9)
        until(lambda: names(library) == [*FOUR, "new.mp4"])
        assert watcher.state.watching
        (videos / "trams" / "all").unlink()
        until(lambda: watcher.state.trouble is None)
        write_video(videos / "later.mp4", 8)
        until(lambda: names(library) == [*FOUR, "later.mp4", "new.mp4"])
    finally:
        watcher.stop()


def test_an_empty_folder_is_watched_for_its_first_video(tmp_path: Path, library: Path) -> None:
    (tmp_path / "empty").mkdir()
    watcher = Watcher(library, tmp_path / "empty", WORDS_ONLY)
    watcher.start()
    try:
        until(lambda: watcher.state.runs > 0)
        assert not library.exists()
        write_video(tmp_path / "empty" / "first.mp4", 1)
        until(lambda: names(library) == ["first.mp4"])
    finally:
        watcher.stop()


def test_settings_that_can_never_work_end_the_watching_with_their_sentence(videos: Path, library: Path) -> None:
    watcher = Watcher(library, videos, replace(WORDS_ONLY, ignore=("[z-a]",)))
    watcher.start()
    with pytest.raises(UsageError, match="ignore"):
        watcher.wait(PATIENCE_S)
    watcher.stop()
    assert not watcher.state.watching


def test_what_cannot_be_watched_is_a_sentence(videos: Path, library: Path, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="does not exist"):
        Watcher(library, tmp_path / "nowhere")
    with pytest.raises(UsageError, match="watch the folder that it is in"):
        Watcher(library, videos / "clip_00.mp4")
    with pytest.raises(UsageError, match="no folder to watch"):
        Watcher(library, [])
    watcher = Watcher(library, videos, WORDS_ONLY)
    watcher.start()
    with pytest.raises(UsageError, match="started once"):
        watcher.start()
    watcher.stop()


@pytest.mark.parametrize(("events", "kills"), [(15, 1), pytest.param(40, 2, marks=pytest.mark.slow)])
def test_random_events_and_kills_end_in_the_state_of_a_clean_index(events: int, kills: int) -> None:
    """The script of a thousand events, with a few."""
    asked = f"--events {events} --kills {kills} --pause 0.1 --words"
    command = [sys.executable, "-m", "scripts.watch_events", *asked.split()]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{events} events")
    assert "0 in another state than a clean index: none" in done.stdout


# which changes count, and when a file has settled: by a clock of the test's own ---------------------------------------


def noted(videos: Path, *names: str, left_out: Path = Path("/nowhere")) -> list[str]:
    changes = FileChanges(str(left_out))
    return [
        str(Path(path).relative_to(videos))
        for path in changes.note([str(videos / one) for one in names], 0, [str(videos)])
    ]


def test_videos_subtitles_tables_lists_and_folders_count(videos: Path) -> None:
    (videos / "folder.x").mkdir()
    (videos / "notes.txt").touch()
    (videos / "a.MP4").touch()
    names = ["a.MP4", "a.en.srt", "metadata.csv", ".evenreelignore", "folder.x", "gone", "gone.mkv"]
    assert noted(videos, *names, "notes.txt", ".hidden/a.mp4", ".hidden.mp4", "../beside/a.mp4") == names


def test_the_library_in_a_watched_folder_does_not_count(videos: Path) -> None:
    library = videos / "library"
    (library / "shards" / "ab").mkdir(parents=True)
    names = ("library", "library/shards/ab", "library 2/a.mp4")
    assert noted(videos, *names, left_out=library) == ["library 2/a.mp4"]


def test_the_progress_of_each_run_is_passed_on_whole(videos: Path, library: Path) -> None:
    heard = list[object]()

    class Hearing(NoProgress):
        def download(self, progress: Download) -> None:
            heard.append(progress)

    Watcher(library, videos, WORDS_ONLY, progress=Hearing())._progress.download(Download("org/tiny", 1, 2))
    assert heard == [Download("org/tiny", 1, 2)]
