"""What a person types, in a real process: output, exit status, and quiet failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.library.videos import write_folder, write_video

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}


def evenreel(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evenreel", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**ENVIRONMENT, **environment}, encoding="utf-8"
    )


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
    return evenreel("index", place / "videos", "--library", place / "library", "--no-ocr", *arguments)


def search(place: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return evenreel("search", *arguments, "--library", place / "library")


def test_a_second_run_says_that_there_is_nothing_to_do(place: Path) -> None:
    done = index(place)
    assert done.returncode == 3
    assert done.stdout == (
        f"Nothing to do: 3 files unchanged in {place}/library.\n"
        "  passed over: 1 other file\n"
        "Set aside: 1 file (tried again when changed, or with --retry)\n"
        f"  {place}/videos/broken.mp4: {done.stdout.splitlines()[-1].partition('broken.mp4: ')[2]}\n"
    )
    assert done.stdout.endswith("(not_media)\n")
    assert done.stderr == ""


def test_the_report_as_json(place: Path) -> None:
    report = printed_json(index(place, "--json"))
    assert (report["indexed"], report["unchanged"], report["set_aside"][0]["reason"]) == (0, 3, "not_media")


def test_search_prints_clips_with_their_moment(place: Path) -> None:
    done = search(place, "tram", "--no-vision")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f" 1. {place}/videos/clip_00.mp4  at 0:0")
    assert any(line.startswith(f" 2. {place}/videos/clip_01.mp4") for line in lines)


def test_search_as_json_with_filter_and_limit(place: Path) -> None:
    result = printed_json(search(place, "tram", "--json", "--where", "source = 'camera' and duration_s < 60"))
    assert [Path(hit["path"]).name for hit in result["hits"]] == ["clip_00.mp4"]
    assert result["hits"][0]["metadata"]["stars"] == 1
    assert set(result["hits"][0]["scores"]) <= {"seen", "on_screen", "about"}
    assert len(printed_json(search(place, "a tram", "--json", "-k", "2"))["hits"]) == 2


def test_zero_hits_is_no_failure(place: Path) -> None:
    done = search(place, "xylophone", "--no-vision")
    assert (done.returncode, done.stdout) == (0, "No clip matches.\n")


def test_search_by_picture_finds_the_video_it_is_from(place: Path, tmp_path: Path) -> None:
    from evenreel.media import open_video, parse_rule

    with open_video(place / "videos" / "clip_02.mp4") as video:
        frame = next(iter(video.frames(parse_rule("every 1 s"))))
    Image.fromarray(frame.pixels).save(tmp_path / "still.png")
    result = printed_json(search(place, "--image", tmp_path / "still.png", "--json"))
    assert Path(result["hits"][0]["path"]).name == "clip_02.mp4"
    assert result["hits"][0]["scores"]["seen"] > 0.99


USAGE_ERRORS = [
    ((), "Give either a sentence or a picture"),
    (("",), "query is empty"),
    (("  \t ",), "query is empty"),
    (("tram", "--image", "x.png"), "Give either a sentence or a picture"),
    (("tram", "-k", "0"), "at least 1"),
    (("tram", "-k", "-1"), "at least 1"),
    (("tram", "--where", "stars >"), "filter"),
    (("tram", "--where", "colour = 'red'"), "stars"),
    (("--image", "http://169.254.169.254/x.png"), "nothing is fetched"),
    (("--image", "nowhere.png"), "does not exist"),
]


@pytest.mark.parametrize(("arguments", "sentence"), USAGE_ERRORS)
def test_wrong_usage_is_one_sentence_and_status_2(place: Path, arguments: tuple[str, ...], sentence: str) -> None:
    """Hazards 47, 49, 50."""
    done = search(place, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("evenreel: ")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


def test_a_very_large_k_is_fine(place: Path) -> None:
    """Hazard 49."""
    assert len(printed_json(search(place, "tram", "-k", "1000000000", "--json"))["hits"]) == 3


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


def test_there_is_no_library(tmp_path: Path) -> None:
    done = evenreel("search", "tram", "--library", tmp_path / "none")
    assert done.returncode == 1
    assert done.stderr.startswith("evenreel: There is no library at")
    assert "evenreel index FOLDER" in done.stderr


def test_the_library_comes_from_the_environment(place: Path) -> None:
    done = evenreel("search", "tram", "--no-vision", EVENREEL_LIBRARY=str(place / "library"))
    assert done.returncode == 0
    assert "clip_00.mp4" in done.stdout


def test_a_model_that_cannot_be_had_is_one_sentence_with_the_ways_on(place: Path, tmp_path: Path) -> None:
    """Hazard 44: the default model, offline, with an empty cache."""
    done = evenreel(
        "index",
        place / "videos",
        "--library",
        tmp_path / "library",
        HF_HOME=str(tmp_path / "empty"),
        HF_HUB_OFFLINE="1",
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    for words in ("openai/clip-vit-base-patch32", "--model builtin", "--no-vision"):
        assert words in done.stderr


def test_another_model_is_refused(place: Path, tmp_path: Path) -> None:
    """Hazard 40."""
    from tests.tiny_checkpoints import tiny_clip

    other = tmp_path / "other"
    tiny_clip(other)
    done = index(place, "--model", str(other))
    assert done.returncode == 1
    assert "was made with the model builtin" in done.stderr


def test_info_verify_and_repair(place: Path) -> None:
    stats = printed_json(evenreel("info", "--library", place / "library", "--json"))
    assert (stats["files"], stats["model"], stats["metadata"]) == (3, "builtin", ["caption", "source", "stars"])
    assert stats["set_aside"][0]["reason"] == "not_media"
    whole = evenreel("verify", "--library", place / "library")
    assert (whole.returncode, "is whole" in whole.stdout) == (0, True)
    assert evenreel("repair", "--library", place / "library").returncode == 0
    assert printed_json(evenreel("verify", "--library", place / "library", "--json")) == []


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "tr_TR.UTF-8"},
        {"PYTHONWARNINGS": "error"},
    ],
    ids=["C", "ascii", "turkish", "warnings are errors"],
)
def test_the_output_does_not_depend_on_the_environment(place: Path, environment: dict[str, str]) -> None:
    """Hazard 62."""
    usual = search(place, "TRAM I", "--no-vision")
    odd = evenreel("search", "TRAM I", "--no-vision", "--library", place / "library", **environment)
    assert (odd.returncode, odd.stdout, odd.stderr) == (0, usual.stdout, "")


def test_a_closed_pipe_is_quiet(place: Path) -> None:
    """Hazard 62: `evenreel ... | head -1`."""
    command = f"{sys.executable} -m evenreel search tram --library {place}/library --no-vision --json | head -c 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "{"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_index_goes_on_afterwards(tmp_path: Path, sent: signal.Signals) -> None:
    """Hazard 33."""
    for number in range(30):
        write_video(tmp_path / "videos" / f"{number}.mp4", number, seconds=4)
    command = ["index", str(tmp_path / "videos"), "--library", str(tmp_path / "library"), "--no-vision", "--no-ocr"]
    process = subprocess.Popen(
        [sys.executable, "-m", "evenreel", *command, "--workers", "1"],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    while len(list((tmp_path / "library").glob("shards/*/*.safetensors"))) < 3:  # so two are in the catalog
        time.sleep(0.02)
    process.send_signal(sent)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "evenreel: Interrupted; what was finished is kept, and the same command goes on from there.\n"
    report = printed_json(evenreel(*command, "--json"))
    assert 0 < report["indexed"] < 30
    assert report["indexed"] + report["unchanged"] + report["recognised"] == 30


def test_bad_pictures_are_refused(place: Path, tmp_path: Path) -> None:
    """Hazard 50: a bomb, a drawing that is a program, a polyglot cut short."""
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "small.png")
    bomb = bytearray((tmp_path / "small.png").read_bytes())
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    import zlib

    bomb[29:33] = zlib.crc32(bytes(bomb[12:29])).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(bomb)
    (tmp_path / "drawing.png").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    (tmp_path / "cut.png").write_bytes((tmp_path / "small.png").read_bytes()[:40])
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(500 * 2**20)
    expected = {"bomb": "the limit is 40,000,000", "drawing": "not a picture", "cut": "picture", "huge": "50 MiB"}
    for name, words in expected.items():
        done = search(place, "--image", tmp_path / f"{name}.png")
        assert (done.returncode, words in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr


def test_the_command_line_says_what_it_can() -> None:
    done = evenreel("--help")
    for command in ("index", "search", "info", "verify", "repair", "demo"):
        assert command in done.stdout
        assert evenreel(command, "--help").returncode == 0
    assert evenreel("--version").stdout.startswith("evenreel 0.")
    assert evenreel("nonsense").returncode == 2
