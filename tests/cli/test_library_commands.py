"""What a person types, in a real process where that matters: output, exit status, and quiet failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer import Exit

from evenreel.cli import INTERRUPTED
from evenreel.config import Machines, MediaLimits
from evenreel.errors import UsageError
from evenreel.library.search.result import Hit, SearchResult, TextHit
from evenreel.library.settings import index_settings
from tests.forked import run_cli
from tests.in_process import run_here
from tests.library.videos import write_folder, write_video

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that can steer a terminal or forge a line."""

ASCII_LOCALE = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
OUTSIDE = {"COLUMNS": "200", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}
ENVIRONMENT = {**os.environ, **OUTSIDE}
FULL_DISK = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def evenreel(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evenreel", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**ENVIRONMENT, **environment}, encoding="utf-8"
    )


def forked(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The same where nothing depends on how Python starts."""
    return run_cli(*arguments, environment=ENVIRONMENT)


def here(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same where nothing depends on being a process: the fastest."""
    return run_here(*arguments, environment={**OUTSIDE, **environment})


def printed_json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three small videos and one that is broken, and its library."""
    place = tmp_path_factory.mktemp("cli")
    write_folder(place / "videos", 3)
    (place / "videos" / "broken.mp4").write_bytes(b"not a video at all" * 100)
    (place / "videos" / "metadata.csv").write_text(
        "path,source,stars,caption\nclip_00.mp4,camera,1,a red tram\nclip_01.mp4,generator,2,a green tram\n"
    )
    done = evenreel("index", place / "videos", "--library", place / "library", "--model", "builtin", "--no-ocr")
    assert done.returncode == 3, done.stderr
    return place


def index(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked("index", place / "videos", "--library", place / "library", "--no-ocr", *arguments)


def search(place: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return here("search", *arguments, "--library", place / "library")


def seen(place: Path, *arguments: str | Path) -> Any:
    """What a search that looks at frames prints, in this process, which has the model's imports behind it."""
    return printed_json(search(place, *arguments, "--json"))


def test_a_second_run_says_that_there_is_nothing_to_do(place: Path) -> None:
    done = index(place)
    assert (done.returncode, done.stderr) == (3, "")
    first, passed_over, aside, broken = done.stdout.splitlines()
    assert first.startswith("Nothing to do: 3 files unchanged") and "1 other file" in passed_over and "--retry" in aside
    assert broken.startswith(f"  {place}/videos/broken.mp4: ") and broken.endswith("(not_media)")
    report = printed_json(index(place, "--json"))
    assert (report["indexed"], report["unchanged"], report["set_aside"][0]["reason"]) == (0, 3, "not_media")


ANSWER, OTHER = "clip_00.mp4", "clip_01.mp4"
"""Clips of `place` with captions: 'a red tram' and 'a green tram'."""


@pytest.mark.parametrize(
    ("query", "first_line", "shown", "left"),
    [
        ("red tram", "1 clip matches.", [ANSWER], "1 weaker match left out (--all shows them)"),
        ("tram", "2 clips match.", [ANSWER, OTHER], None),
        ("zebra tram yoghurt", "Nothing fits.", [], "2 weaker matches left out (--all shows them)"),
    ],
)
def test_matches_are_told_from_weaker_ones(
    place: Path, query: str, first_line: str, shown: list[str], left: str | None
) -> None:
    done = search(place, query, "--no-vision")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == first_line
    assert all("  at 0:0" in line for line in lines if line.startswith((" 1. ", " 2. ")))
    assert [name for name in (ANSWER, OTHER) if any(name in line for line in lines)] == shown
    assert (lines[-1] if "left out" in lines[-1] else None) == left
    assert "%" not in done.stdout and "confidence" not in done.stdout
    everything = search(place, query, "--no-vision", "--all").stdout
    assert ANSWER in everything and OTHER in everything
    assert "left out" not in everything


def test_search_as_json_with_filter_and_limit(place: Path) -> None:
    result = seen(place, "tram", "--where", "source = 'camera' and duration_s < 60")
    assert [Path(hit["path"]).name for hit in result["hits"]] == ["clip_00.mp4"]
    assert result["hits"][0]["metadata"]["stars"] == 1
    assert set(result["hits"][0]["scores"]) <= {"seen", "on_screen", "about", "meaning"}
    assert len(seen(place, "a tram", "-k", "2")["hits"]) == 2
    assert len(seen(place, "a tram", "-k", "1000000")["hits"]) == 3
    nothing = search(place, "xylophone", "--no-vision")
    assert (nothing.returncode, nothing.stdout) == (0, "No clip matches.\n")


def test_search_by_picture_finds_the_video_it_is_from(place: Path, tmp_path: Path) -> None:
    from evenreel.media import open_video, parse_rule

    with open_video(place / "videos" / "clip_02.mp4") as video:
        Image.fromarray(next(video.frames(parse_rule("every 1 s"))).pixels).save(tmp_path / "still.png")
    (hit, *_) = printed_json(search(place, "--image", tmp_path / "still.png", "--json"))["hits"]
    assert Path(hit["path"]).name == "clip_02.mp4" and hit["scores"]["seen"] > 0.99


USAGE_ERRORS = [
    (("  \t ",), "query is empty"),
    (("said:",), "Nothing follows said:"),
    (('"red tram',), "not closed"),
    (("seen: tram", "--no-vision"), "searched without vision"),
    (("tram", "-k", "0"), "ask for 1 to 1,000,000"),
    (("--image", __file__, "--no-vision"), "--image needs vision"),
    (("tram", "--where", "stars >"), "filter"),
    (("tram", "--where", "colour = 'red'"), "stars"),
    (("--image", "http://169.254.169.254/x.png"), "nothing is fetched"),
    (("--image", "nowhere.png"), "does not exist"),
]


@pytest.mark.parametrize(("arguments", "sentence"), USAGE_ERRORS)
def test_wrong_usage_is_one_sentence_and_status_2(place: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = search(place, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("evenreel: ")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


@pytest.mark.parametrize("query", ["a\0b tram", "tram\x1b[31m", "🚋 tram", "трамвай tram", "tram " * 200, "x" * 90_000])
def test_odd_queries_are_answered(place: Path, query: str) -> None:
    """Hazard 47. No process can be given a NUL, so there it goes through the library."""
    if "\0" in query:
        from evenreel import open_library

        with open_library(place / "library", vision=False) as library:
            assert library.search(query).notices
        return
    done = search(place, query, "--no-vision")
    assert (done.returncode, done.stderr) == (0, "")


def test_another_model_is_refused(place: Path, tmp_path: Path) -> None:
    from tests.tiny_checkpoints import tiny_clip

    other = tmp_path / "other"
    tiny_clip(other)
    done = here("index", place / "videos", "--library", place / "library", "--no-ocr", "--model", other)
    assert done.returncode == 1 and "was made with the model builtin" in done.stderr


def test_info_verify_and_repair(place: Path) -> None:
    stats = printed_json(forked("info", "--library", place / "library", "--json"))
    assert (stats["files"], stats["model"], stats["metadata"]) == (3, "builtin", ["caption", "source", "stars"])
    assert stats["set_aside"][0]["reason"] == "not_media"
    whole = forked("verify", "--library", place / "library")
    assert (whole.returncode, "is whole" in whole.stdout) == (0, True)
    assert forked("verify", "--repair", "--library", place / "library").returncode == 0
    assert printed_json(forked("verify", "--library", place / "library", "--json")) == []


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C"}, ASCII_LOCALE, {"LC_ALL": "tr_TR.UTF-8"}, {"PYTHONWARNINGS": "error"}],
    ids=["C", "ascii", "turkish", "warnings are errors"],
)
def test_the_output_does_not_depend_on_the_environment(place: Path, environment: dict[str, str]) -> None:
    usual = search(place, "TRAM I", "--no-vision")
    odd = evenreel("search", "TRAM I", "--no-vision", "--library", place / "library", **environment)
    assert (odd.returncode, odd.stdout, odd.stderr) == (0, usual.stdout, "")


def signalled(place: Path, sent: signal.Signals, videos: int, *program: str) -> subprocess.CompletedProcess[str]:
    """An index run that is sent a signal when it has read three videos, so that two are in the catalog."""
    for number in range(videos):
        write_video(place / "videos" / f"{number}.mp4", number, seconds=4)
    command = (*program, sys.executable, "-m", "evenreel", *words_alone(place), "--set", "workers=1")
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT)
    while len(list((place / "library").glob("shards/*/*.safetensors"))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(sent)
    output, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def words_alone(place: Path) -> tuple[str, ...]:
    return ("index", str(place / "videos"), "--library", str(place / "library"), "--no-vision", "--no-ocr")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_index_goes_on_afterwards(tmp_path: Path, sent: signal.Signals) -> None:
    done = signalled(tmp_path, sent, 30)
    assert (done.returncode, done.stderr) == (130, f"evenreel: {INTERRUPTED}\n")
    report = printed_json(forked(*words_alone(tmp_path), "--json"))
    assert 0 < report["indexed"] < 30
    assert report["indexed"] + report["unchanged"] + report["recognised"] == 30


def test_bad_pictures_are_refused(place: Path, tmp_path: Path) -> None:
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "small.png")
    bomb = bytearray((tmp_path / "small.png").read_bytes())
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    bomb[29:33] = zlib.crc32(bytes(bomb[12:29])).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(bomb)
    (tmp_path / "drawing.png").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    (tmp_path / "cut.png").write_bytes((tmp_path / "small.png").read_bytes()[:40])
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(500 * 2**20)
    expected = {"bomb": "40,000,000 in all", "drawing": "in no format", "cut": "picture", "huge": "50 MiB"}
    for name, words in expected.items():
        done = search(place, "--image", tmp_path / f"{name}.png")
        assert (done.returncode, words in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr


def test_the_command_line_says_what_it_can() -> None:
    assert "[default: EVENREEL_LIBRARY or your" in " ".join(here("search", "--help").stdout.replace("│", " ").split())
    assert here("--version").stdout.startswith("evenreel 0.")
    assert here("nonsense").returncode == 2


def test_help_explains_what_people_come_for_and_names_the_rest() -> None:
    text = evenreel("--help", COLUMNS="100").stdout
    explained = re.findall(r"^│ (\w+)  ", text, re.MULTILINE)
    assert explained == ["demo", "index", "search", "serve", "export", "evaluate", "audit", "train"]
    more = re.findall(r"\w+", text[text.index("More:") + 5 : text.index("evenreel COMMAND")])
    assert not set(more) & set(explained) and {"verify", "corpus", "mcp", "study"} <= set(more)


@pytest.mark.parametrize("gone", ["watch", "highlights", "favourite", "note", "repair"])
def test_a_command_that_went_names_what_to_type(gone: str) -> None:
    done = evenreel(gone, "x")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "is now: evenreel " in done.stderr


def test_settings_come_from_the_librarys_file_options_and_set(tmp_path: Path) -> None:
    (tmp_path / "settings.txt").write_text("# ours\nworkers = 3\nrule=8 midpoints\nignore=*.tmp\nignore=b\n", "utf-8")
    settings, machines = index_settings(tmp_path, ["workers=1", "staging=s3://x"], {"rule": "every 2 s", "model": None})
    assert (settings.workers, settings.rule, settings.ignore) == (1, "every 2 s", ("*.tmp", "b"))
    assert (settings.model, settings.limits, machines) == ("auto", MediaLimits(), Machines(staging="s3://x"))
    only, _ = index_settings(tmp_path, ["max_frames=7"], only=("workers", "limits"))
    assert (only.workers, only.rule, only.limits.max_frames) == (3, "auto", 7)
    assert index_settings(tmp_path, ["speech=none"])[0].speech is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("wrkers=2", "no setting 'wrkers'"),
        ("workers", "no NAME=VALUE"),
        ("workers=two", "workers is 'two'"),
        ("workers=-1", "workers is -1; it should be from 0 to 1,024"),
        ("max_damaged_share=1.1", "from 0 to 1"),
        ("read_text=perhaps", "read_text"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_a_sentence(tmp_path: Path, given: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        index_settings(tmp_path, [given])
    (tmp_path / "settings.txt").write_text(given, "utf-8")
    with pytest.raises(UsageError, match=re.escape(said)):
        index_settings(tmp_path)


def test_a_new_broken_file_and_new_metadata_are_news(tmp_path: Path) -> None:
    write_folder(tmp_path / "videos", 2)
    assert index(tmp_path, "--no-vision").returncode == 0
    (tmp_path / "videos" / "torn.mp4").write_bytes(b"no video" * 100)
    first = index(tmp_path)
    assert (first.returncode, "torn.mp4" in first.stdout, "Nothing to do" in first.stdout) == (3, True, False)
    (tmp_path / "videos" / "metadata.csv").write_text("path,stars\nclip_00.mp4,3\nclip_01.mp4,4\n")
    second, third = index(tmp_path), index(tmp_path)
    assert "  metadata of 2 files updated\n" in second.stdout and "Nothing to do" not in second.stdout
    assert third.stdout.startswith("Nothing to do: 2 files unchanged")


def close_folder(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """As if a folder might not be opened; permissions would not keep the superuser out."""
    scandir = os.scandir

    def guarded(path: str) -> Any:
        if os.fspath(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(closed))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)


def test_a_folder_that_cannot_be_opened_is_set_aside_and_a_root_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "videos", 1)
    (tmp_path / "videos" / "closed").mkdir()
    with monkeypatch.context() as patch:
        close_folder(patch, tmp_path / "videos")
        done = here(*words_alone(tmp_path))
    assert done.returncode == 1 and "videos cannot be opened (permission denied)" in done.stderr
    assert not (tmp_path / "library").exists()
    close_folder(monkeypatch, tmp_path / "videos" / "closed")
    done = here(*words_alone(tmp_path))
    assert done.returncode == 3 and f"cannot be opened: {tmp_path}/videos/closed\n" in done.stdout


@pytest.mark.parametrize("target", ["nowhere.mp4", "link.mp4"], ids=["dangling", "circular"])
def test_a_link_that_leads_nowhere_is_one_sentence(tmp_path: Path, target: str) -> None:
    (tmp_path / "link.mp4").symlink_to(tmp_path / target)
    done = forked("index", tmp_path / "link.mp4", "--library", tmp_path / "library", "--no-vision")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"evenreel: {tmp_path}/link.mp4 cannot be opened (")
    assert done.stderr.count("\n") == 1


def test_a_demo_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = here("demo", "--folder", tmp_path / "file" / "x")
    assert done.returncode == 1 and "x (not a directory); name another place with --folder" in done.stderr


FULL = "evenreel: The output cannot be written (no space left on device); send it elsewhere.\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("search tram --no-vision | true", 0, ""),
        ("search tram --no-vision --json | true", 0, ""),
        ("--help | head -c 1 >/dev/null", 0, ""),
        ("index videos --no-ocr | true", 3, ""),
        ("search tram --no-vision >&-", 0, ""),
        pytest.param("info > /dev/full", 1, FULL, marks=FULL_DISK),
        pytest.param("info --json > /dev/full", 1, FULL, marks=FULL_DISK),
    ],
)
def test_a_closed_pipe_is_quiet(place: Path, words: str, status: int, said: str) -> None:
    """Hazard 62: `evenreel ... | head -1`; so too where there is no output, or a full disk."""
    line = f"{sys.executable} -m evenreel {words}; exit ${{PIPESTATUS[0]}}"
    environment = {**ENVIRONMENT, "EVENREEL_LIBRARY": str(place / "library")}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment, cwd=place)
    assert (done.returncode, done.stderr) == (status, said)


@pytest.mark.parametrize("environment", [{}, {"PYTHONIOENCODING": "ascii"}, ASCII_LOCALE])
def test_a_query_and_a_name_in_cyrillic(tmp_path: Path, environment: dict[str, str]) -> None:
    """Hazard 62: what the terminal cannot show is escaped, what the locale cannot read is read as UTF-8."""
    write_video(tmp_path / "videos" / "трамвай.mp4", 0)
    write_video(tmp_path / "videos" / "tram.mp4", 1)
    (tmp_path / "videos" / "metadata.csv").write_text("path,place\nтрамвай.mp4,Київ\n", encoding="utf-8")
    assert index(tmp_path, "--no-vision").returncode == 0
    place = tmp_path / "library"
    done = evenreel("search", "трамвай", "--where", "place = 'Київ'", "--library", place, **environment)
    name = "трамвай" if not environment else "трамвай".encode("ascii", "backslashreplace").decode()
    assert (done.returncode, done.stderr) == (0, "")
    assert f"/videos/{name}.mp4  at 0:0" in done.stdout


ODD_NAMES = {
    "tram\x1b[2J": r"tram\x1b[2J",
    "tram\n 1. best": r"tram\n 1. best",
    "tram\x9b2J": r"tram\x9b2J",
    "tram\u202egpm": r"tram\u202egpm",
    "tram\u2028next": r"tram\u2028next",
    "tram\udcff": r"tram\udcff",
    "tram[red]": "tram[red]",
}
"""Names of files, and how they are shown."""


def test_a_file_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """A name may hold any byte but a slash; printed as it is, it could clear the screen or forge a result."""
    for odd in ODD_NAMES:
        write_video(tmp_path / "videos" / f"{odd}.mp4", 0)
        (tmp_path / "videos" / f"{odd}3.mp4").write_bytes(b"no video" * 100)
        (tmp_path / "videos" / f"{odd}4").mkdir()
    library = tmp_path / "library"
    indexed = forked("-v", "index", tmp_path / "videos", "--library", library, "--no-vision", "--no-ocr")
    assert indexed.returncode == 3
    info = forked("info", "--library", library).stdout
    outputs = [indexed.stdout, indexed.stderr, search(tmp_path, "tram").stdout, info]
    for odd, shown in ODD_NAMES.items():
        missing = here("index", tmp_path / f"{odd}.mp4", "--library", library).stderr
        for output in (*outputs, missing, here("search", "tram", "--library", tmp_path / odd).stderr):
            assert shown in output
            assert not [char for char in output if char != "\n" and unicodedata.category(char) in UNSAFE], output
            assert "\n 1. best" not in output


def test_what_is_read_on_screen_cannot_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenreel.cli import index
    from evenreel.cli.show_library import show_result
    from evenreel.features.pool import SetAside
    from evenreel.library import IndexReport, LibraryProblem

    evil = "a\x1b[2J\n\u202eb"
    text = TextHit(evil, (), 0.0, 1.0, 1.0)
    hit = Hit("id", evil, 0.5, False, 0.5, 0.0, {"seen": 0.5}, (), (text,), 1.0, other_paths=(evil,))
    show_result(SearchResult("q", (hit,), 1, (evil,)), as_json=False)
    index._show_report(IndexReport(set_aside=[SetAside("", evil, "failed", evil)], notes=[(evil, evil)]), Path(evil))
    monkeypatch.setattr("evenreel.library.verify", lambda _: [LibraryProblem(evil, evil, evil)])
    with pytest.raises(Exit):
        index.verify(Path(evil))
    output = capsys.readouterr().out
    assert output.count(r"a\x1b[2J\n\u202eb") == 12
    assert not [char for char in output if char != "\n" and unicodedata.category(char) in UNSAFE]


def test_how_much_damage_is_accepted_can_be_chosen(real_clips: Path, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    shutil.copy(real_clips / "corrupted.mp4", tmp_path / "videos")
    first = index(tmp_path, "--no-vision")
    assert first.returncode == 3 and "at most 25% is accepted; copy the file again, or" in first.stdout
    second = index(tmp_path, "--retry", "--set", "max_damaged_share=0.8")
    assert (second.returncode, second.stdout.splitlines()[0].startswith("Indexed 1 file ")) == (0, True)
    assert index(tmp_path, "--set", "max_damaged_share=1.1").returncode == 2


def test_a_hang_up_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """`nohup evenreel index` goes on when the terminal is closed."""
    done = signalled(tmp_path, signal.SIGHUP, 8, "nohup")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Indexed 8 files")
