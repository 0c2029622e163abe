from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import opentimelineio as otio
import pytest
import srt
from PIL import Image

from evenreel.config import IndexSettings
from evenreel.library import index_folders, open_library
from tests.in_process import run_here
from tests.media_files import Film, gop, number_in, write_film

FPS = Fraction(25)
SUBTITLES = "1\n00:00:01,200 --> 00:00:02,400\nThe tram is late.\n\n2\n00:00:03,000 --> 00:00:04,000\nHere it comes.\n"
SEARCH = ("--no-vision", "-l", "library")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of numbered films: two of one name, one of another rate, one with a strange name."""
    place = tmp_path_factory.mktemp("export")
    for name, fps in (("a/tram.mp4", FPS), ("b/tram.mp4", FPS), ("bus.mp4", Fraction(50)), ("東 'x' 100%.mp4", FPS)):
        path = place / "videos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shift = 7 if name.startswith("b/") else 0  # no two of the same content
        write_film(path, Film(range(shift, 150 + len(name)), time_base=1 / fps, options=gop(24)))
    for name in ("a/tram.srt", "b/tram.srt"):
        (place / "videos" / name).write_text(SUBTITLES)
    index_folders([place / "videos"], place / "library", IndexSettings(model=None, workers=1, read_text=False))
    return place


def run(place: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        return run_here(*words, environment={"COLUMNS": "400"})


def export(place: Path, *words: str, out: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run(place, "export", *words, "-l", "library", "--out", str(out), stdin=stdin)


def numbers(path: Path) -> list[int]:
    with av.open(str(path)) as container:
        return [number_in(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_stretch_of_a_clip_is_cut(place: Path, tmp_path: Path) -> None:
    done = export(place, "videos/a/tram.mp4", "0:02.4", "3.2", out=tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert names(tmp_path / "new") == ["tram 00.00.02.400-00.00.03.200.mp4"]
    assert numbers(tmp_path / "new" / names(tmp_path / "new")[0]) == list(range(48, 80))
    assert "begins 0.48 s early, at a key frame (--exact cuts frame-accurately)" in done.stdout
    again = export(place, "videos/a/tram.mp4", "2.4", "3.2", "--exact", out=tmp_path / "new")
    assert again.returncode == 0 and "was re-encoded at its ends; the 8 frames between are copied" in again.stdout
    assert names(tmp_path / "new")[0] == "tram 00.00.02.400-00.00.03.200 (2).mp4"
    assert numbers(tmp_path / "new" / names(tmp_path / "new")[0]) == list(range(60, 80))


ALL = ("csv", "json", "edl", "fcpxml", "xmeml", "otio", "srt", "vtt", "sheet", "clip")


def test_a_search_is_written_in_every_form(place: Path, tmp_path: Path) -> None:
    forms = [word for form in ALL for word in ("--format", form)]
    done = export(place, "said:tram", "--no-vision", *forms, "--json", out=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["set_aside"] == []
    cut_name = "tram 00.00.00.800-00.00.02.800"  # a moment of 1.2 s is widened to 2 s
    assert names(tmp_path) == sorted(
        [f"said_tram{suffix}" for suffix in (".csv", ".json", ".edl", ".fcpxml", ".xml", ".otio", ".jpg")]
        + [f"{cut_name}{more}{suffix}" for suffix in (".mp4", ".srt", ".vtt") for more in ("", " (2)")]
    )
    with (tmp_path / "said_tram.csv").open(newline="", encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    assert [row["path"] for row in rows] == [str(place / "videos" / name / "tram.mp4") for name in "ab"]
    listed = json.loads((tmp_path / "said_tram.json").read_text())["stretches"]
    assert listed[0]["words"] == ["The tram is late."]
    assert listed[0]["start_timecode"] == rows[0]["start_timecode"]
    first, stop = listed[0]["first_frame"], listed[0]["first_frame"] + listed[0]["frames"]
    read = otio.adapters.read_from_file(str(tmp_path / "said_tram.otio")).video_tracks()[0][0].source_range
    assert (read.start_time.value, read.end_time_exclusive().value, read.start_time.rate) == (first, stop, 25)
    with Image.open(tmp_path / "said_tram.jpg") as sheet:
        assert sheet.size == (688, 296)


def test_subtitles_begin_with_their_cut(place: Path, tmp_path: Path) -> None:
    stretch = ("videos/a/tram.mp4", "1.4", "3.5")
    for more, start_s in (((), Fraction(7, 5)), (("--format", "clip"), Fraction(24, 25))):
        done = export(place, *stretch, "--format", "srt", *more, out=tmp_path / str(start_s.denominator))
        assert done.returncode == 0, done.stderr
        (path,) = (tmp_path / str(start_s.denominator)).glob("*.srt")
        cues = list(srt.parse(path.read_text()))
        assert [cue.content for cue in cues] == ["The tram is late.", "Here it comes."]
        expected = [max(0.0, 1.2 - float(start_s)), 3.0 - float(start_s)]
        assert [cue.start.total_seconds() for cue in cues] == pytest.approx(expected, abs=0.002)
    (tmp_path / "25" / "tram 00.00.01.400-00.00.03.500.srt").unlink()
    done = export(place, *stretch, "--exact", "--format", "srt", "--format", "clip", out=tmp_path / "25")
    assert done.returncode == 0, done.stderr
    named = [f"tram 00.00.01.400-00.00.03.500{end}" for end in (" (2).mp4", " (2).srt", ".mp4")]
    assert names(tmp_path / "25") == named  # what is said in a cut has its name


def test_what_search_printed_is_taken_from_a_file_and_from_standard_input(place: Path, tmp_path: Path) -> None:
    found = run(place, "search", "said:tram", "--json", *SEARCH).stdout
    (tmp_path / "found.json").write_text(found)
    for number, what in enumerate((str(tmp_path / "found.json"), "-")):
        done = export(place, what, "--format", "json", out=tmp_path / str(number), stdin=found if number else "")
        assert done.returncode == 0, done.stderr
        written = tmp_path / str(number) / "said_tram.json"
        assert len(json.loads(written.read_text())["stretches"]) == 2
        again = export(place, str(written), "--format", "csv", out=tmp_path / "again")
        assert again.returncode == 0, again.stderr


def test_clips_of_several_rates_get_an_edl_for_each(place: Path, tmp_path: Path) -> None:
    with open_library(place / "library", vision=False) as opened:
        ids = {file.name: str(file.clip_id) for file in opened.files().files}
    stretches = [
        {"clip_id": ids[name], "start_s": 1.0, "end_s": 2.0} for name in ("bus.mp4", "東 'x' 100%.mp4", "tram.mp4")
    ]
    done = export(place, "-", "--format", "edl", out=tmp_path, stdin=json.dumps({"stretches": stretches}))
    assert (done.returncode, names(tmp_path)) == (0, ["stretches 25.edl", "stretches 50.edl"])
    for fps, number in ((25, 2), (50, 1)):
        read = otio.adapters.read_from_file(str(tmp_path / f"stretches {fps}.edl"), rate=fps)
        spans = [(clip.source_range.start_time.value, clip.duration().value) for clip in read.video_tracks()[0]]
        assert spans == [(fps, fps)] * number


@pytest.mark.parametrize(("stretch", "what"), [("3 3", "empty"), ("4 3", "empty"), ("100 101", "outside of the clip")])
def test_a_stretch_that_is_none_is_one_sentence(place: Path, tmp_path: Path, stretch: str, what: str) -> None:
    start, end = stretch.split()
    done = export(place, "videos/a/tram.mp4", start, end, out=tmp_path)
    assert done.returncode == 1 and f"the stretch from {start} to {end} s is {what}" in done.stdout
    assert names(tmp_path) == []


def test_of_copies_the_one_that_is_named_is_taken(place: Path, tmp_path: Path) -> None:
    copies = [tmp_path / "films" / name for name in ("a.mp4", "b.mp4", "c.mp4")]
    copies[0].parent.mkdir()
    for copy in copies:
        shutil.copy(place / "videos" / "bus.mp4", copy)
    index_folders([copies[0].parent], tmp_path / "library", IndexSettings(model=None, workers=1, read_text=False))
    for copy in copies:
        words = ("export", str(copy), "1", "2", "--format", "json", "-l", str(tmp_path / "library"))
        done = run(place, *words, "--out", str(tmp_path / copy.stem))
        written = json.loads((tmp_path / copy.stem / f"{copy.stem}.json").read_text())
        assert [one["path"] for one in written["stretches"]] == [str(copy)], done.stderr


def test_a_clip_that_is_gone_costs_itself_and_the_rest_is_written(place: Path, tmp_path: Path) -> None:
    gone, kept = place / "videos" / "b" / "tram.mp4", place / "kept.mp4"
    gone.rename(kept)
    try:
        done = export(place, "said:tram", "--no-vision", "--format", "clip", "--format", "csv", out=tmp_path)
    finally:
        kept.rename(gone)
    assert done.returncode == 3, done.stderr
    assert "Skipped: 1\n" in done.stdout
    assert "its file is not there any more; is its disk connected?" in done.stdout
    assert len([name for name in names(tmp_path) if name.endswith(".mp4")]) == 1
    assert len((tmp_path / "said_tram.csv").read_text().splitlines()) == 2


def test_a_clip_without_words_has_no_subtitles_and_the_rest_is_written(place: Path, tmp_path: Path) -> None:
    done = export(place, "videos/bus.mp4", "1", "2", "--format", "srt", "--format", "json", out=tmp_path)
    assert done.returncode == 3 and "bus.mp4: nothing is known of what is said in it" in done.stdout
    assert names(tmp_path) == ["bus.json"]


def test_wrong_words_are_refused_in_a_sentence(place: Path, tmp_path: Path) -> None:
    for words, status, sentence in (
        (("a", "b"), 2, "Give a query in quotes"),
        (("videos/bus.mp4", "one", "two"), 2, "'one' is no time"),
        (("nothing.mp4", "1", "2"), 1, "The library has no clip 'nothing.mp4'"),
        (("said:zebra", "--no-vision"), 1, "Nothing fits 'said:zebra'"),
        (("said:tram", "--format", "gif"), 2, "There is no form 'gif'"),
        (("said:tram", "--handles", "-1"), 2, "Handles of -1 s"),
        (("-",), 2, "is no JSON"),
    ):
        done = export(place, *words, out=tmp_path, stdin="{")
        assert (done.returncode, sentence in " ".join(done.stderr.split())) == (status, True), done.stderr
        assert "Traceback" not in done.stderr


def test_a_folder_that_may_not_be_written_is_one_sentence(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        monkeypatch.undo()
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("evenreel.handover.taking.tempfile.TemporaryDirectory", refused)
    done = export(place, "videos/bus.mp4", "1", "2", "--format", "clip", "--format", "csv", out=tmp_path)
    assert done.returncode == 3
    assert "bus.mp4: it cannot be written (permission denied); choose another place" in done.stdout
    assert names(tmp_path) == ["bus.csv"]


def test_a_place_that_is_no_folder_is_one_sentence(place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = export(place, "videos/bus.mp4", "1", "2", out=tmp_path / "file" / "below")
    assert done.returncode == 1
    assert "cannot be written to (file exists); choose another place with --out." in done.stderr
