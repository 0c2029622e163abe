"""The whole job on real video, as the command line does it: what the issue of every user is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.library import verify
from evenreel.server import ServeSettings, make_app
from tests.cli.test_library_commands import evenreel, here
from tests.server.test_rerank import save_tcd

GENERATED = {"cogvideox_1.mp4", "cogvideox_3.mp4"}


@pytest.fixture(scope="module")
def library(real_clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real clips, indexed with the built-in encoder and with their on-screen text."""
    library = tmp_path_factory.mktemp("real") / "library"
    done = evenreel("index", real_clips, "--library", library, "--model", "builtin", "--json")
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    readable = [path for path in real_clips.iterdir() if path.suffix in {".mp4", ".mov", ".mkv", ".avi"}]
    assert report["indexed"] == len(readable) - 1
    assert [Path(aside["path"]).name for aside in report["set_aside"]] == ["corrupted.mp4"]
    assert report["set_aside"][0]["reason"] == "damaged"
    return library


def search(library: Path, *arguments: str) -> list[dict[str, Any]]:
    done = here("search", *arguments, "--library", library, "--json")
    assert done.returncode == 0, done.stderr
    hits: list[dict[str, Any]] = json.loads(done.stdout)["hits"]
    return hits


def test_a_second_run_does_no_work_and_says_so(library: Path, real_clips: Path) -> None:
    done = evenreel("index", real_clips, "--library", library)
    assert done.returncode == 3
    assert done.stdout.startswith("Nothing to do: 15 files unchanged")
    assert "corrupted.mp4" in done.stdout
    assert verify(library) == []


def test_words_on_the_scoreboard_find_the_match_with_their_time(library: Path) -> None:
    best = search(library, "japan netherlands")[0]
    assert Path(best["path"]).name == "msrvtt_video7500.mp4"
    assert {"JAPAN", "NETHERLANDS"} <= {hit["text"] for hit in best["on_screen"]}
    shown = next(hit for hit in best["on_screen"] if hit["text"] == "JAPAN")
    assert shown["start_s"] <= 1.0  # the first second shows both names
    assert best["moments"][0]["time_s"] <= 1.0


def test_a_sign_that_is_misread_in_places_is_found(library: Path) -> None:
    best = search(library, "hyundai")[0]
    assert Path(best["path"]).name == "msrvtt_video7500.mp4"
    assert 13 <= best["moments"][0]["time_s"] <= 17  # the boards pass by then
    assert any("HYUND" in hit["text"] for hit in best["on_screen"])


def test_words_on_jerseys_answer_with_the_moments_that_show_them(library: Path) -> None:
    (best,) = search(library, "ohno dongen", "-k", "1", "--no-vision")
    assert Path(best["path"]).name == "msrvtt_video7500.mp4"
    signs = {hit["text"]: (hit["start_s"], hit["end_s"]) for hit in best["on_screen"]}
    assert 0.5 <= signs["OHNO"][0] <= signs["OHNO"][1] <= 3.5  # the list of skaters is there for these seconds
    assert any("DONGEN" in text for text in signs)
    assert 0.5 <= best["moments"][0]["time_s"] <= 3.5


def test_the_page_is_told_which_words_answer_and_when(library: Path, tmp_path: Path) -> None:
    settings = ServeSettings(vision=False, cache=tmp_path / "cache", painters=1)
    with TestClient(make_app(library, settings), base_url="http://127.0.0.1:8765") as visitor:
        best = visitor.get("/api/v1/search", params={"q": "japan netherlands"}).json()["hits"][0]
    assert best["name"] == "msrvtt_video7500.mp4"
    shown = {sign["text"]: sign for sign in best["on_screen"]}
    assert {"JAPAN", "NETHERLANDS"} <= shown.keys()
    assert shown["JAPAN"]["marks"] == [[0, 5]] and shown["JAPAN"]["start_s"] <= 1.0


def test_a_matcher_that_reads_tells_why_a_clip_stands_where_it_does(library: Path, tmp_path: Path) -> None:
    """It has learned nothing, so its order is no matter here; what it is made of is."""
    checkpoint = save_tcd(tmp_path / "checkpoint")
    hits = search(library, "japan netherlands", "--rerank", str(checkpoint), "-k", "50")
    assert Path(hits[0]["path"]).name == "msrvtt_video7500.mp4"  # what is written exactly stands first all the same
    with_frames = [hit for hit in hits if "reranked" in hit["scores"]]
    assert len(with_frames) >= 14
    for hit in with_frames:
        assert list(hit["parts"]) == ["seen", "on_screen", "both"]
        assert hit["scores"]["reranked"] == pytest.approx(sum(hit["parts"].values()) / 3, abs=1e-3)
    done = CliRunner().invoke(
        app, ["search", "japan netherlands", "--library", str(library), "--rerank", str(checkpoint), "-k", "1"]
    )
    assert "matcher: visual match " in done.stdout


def test_a_filter_removes_the_generated_clips(library: Path) -> None:
    everything = {Path(hit["path"]).name for hit in search(library, "a blue carpet", "-k", "50")}
    filtered = {
        Path(hit["path"]).name for hit in search(library, "a blue carpet", "-k", "50", "--where", "source = 'camera'")
    }
    assert everything >= GENERATED
    assert not GENERATED & filtered
    assert len(filtered) == 8


def test_an_audit_of_the_library_says_first_that_there_are_too_few_clips(library: Path, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("a dog on the grass\na train\na man at a table\n", encoding="utf-8")
    asked = ["--library", library, "--queries", tmp_path / "q.txt", "--report", tmp_path / "r.html", "--json"]
    done = CliRunner().invoke(app, ["audit", "source", *map(str, asked)])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["audits"]
    assert found["sentence"].startswith("Too few clips to conclude: 8 real and 2 generated.")
    assert "5 of 15 clips have no known source or no frames, and are left out." in found["notices"]
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.partition('<p class="lead">')[2].startswith("Too few clips to conclude")


@pytest.mark.parametrize(
    ("key", "clip"),
    [("M", "video_0.mov"), ("F12", "video_90.mov"), ("PgDn", "video_180.mov"), ("AltGr", "video_270.mov")],
)
def test_turned_clips_are_read_the_right_way_up(library: Path, key: str, clip: str) -> None:
    """The letters on the keys, whichever way the phone was held."""
    assert clip in {Path(hit["path"]).name for hit in search(library, key, "--no-vision") if hit["on_screen"]}
