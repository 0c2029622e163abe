from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from evenreel.errors import UsageError
from evenreel.library import open_library, verify
from evenreel.library.index.scan import IGNORE_FILE, MAX_BYTES, IgnoreRules, rescan, scan
from tests import prebuilt
from tests.library.words_only import index

TREE = (
    ["a.mp4", "b.mkv", "keep.tmp.mp4", "x.tmp.mp4", "build/c.mp4", "build/deep/d.mp4", "trams/a.mp4", "trams/old/e.mp4"]
    + ["trams/old/keep.mp4", "trams/new/build/f.mp4", "boats [2]/g.mp4", "boats 2/g.mp4", "#hash.mp4", "!bang.mp4"]
    + ["space .mp4", "ünïcode/h.mp4"]
)
LISTS = {
    "": ["# a comment", "*.tmp.mp4", "!keep.tmp.mp4", "/build/", "trams/old/*", "boats \\[2\\]/", "\\#hash.mp4"],
    "trams": ["!old/keep.mp4", "build/", ""],
    "ünïcode": ["h.*"],
}


def listed(found: set[str], folder: Path) -> set[str]:
    return {os.path.relpath(path, folder) for path in found}


def test_what_is_passed_over_is_what_git_passes_over(tmp_path: Path) -> None:
    """`git ls-files` with the same lists under its own name says the same."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "videos"
    for name in TREE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    for name, lines in LISTS.items():
        for file in (IGNORE_FILE, ".gitignore"):
            (folder / name / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    subprocess.run([git, "init", "-q", str(folder)], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    command = [git, "-C", str(folder), "ls-files", "-z", "--others", "--exclude-standard"]
    said = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    expected = {name for name in said if name and not Path(name).name.startswith(".")}
    assert {"keep.tmp.mp4", "trams/old/keep.mp4", "boats 2/g.mp4"} <= expected < set(TREE)
    assert listed({file.path for file in scan([folder]).files}, folder) == expected
    looked_at = rescan([str(folder)], [str(folder / name) for name in TREE], IgnoreRules())
    assert listed({file.path for file in looked_at.files}, folder) == expected


def test_a_pattern_is_kept_by_the_library_and_an_indexed_file_comes_back_without_work(
    videos: Path, library: Path
) -> None:
    prebuilt.library(videos, library)
    report = index(videos, library, ignore=("clip_0[0-2]*",))
    assert (report.missing, report.ignored, report.unchanged) == (3, 3, 1)  # most of a folder, and no vanished disk
    again = index(videos, library)
    assert again.did_nothing
    with open_library(library) as opened:
        assert [file.name for file in opened.files(state="indexed").files] == ["clip_03.mp4"]
        assert opened.stats().ignored == ("clip_0[0-2]*",)
    back = index(videos, library, unignore=("clip_0[0-2]*",))
    assert (back.recognised, back.frames) == (3, 0)
    assert verify(library) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\xfe*\x00", "not UTF-8"),
        (b"#" * (MAX_BYTES + 1), "64 KiB"),
        (b"[z-a]\nclip_01*\n", "line 1 is skipped"),
        (b"*a*a*a*a*a*b\nclip_01*\n", "3 are the limit"),
    ],
)
def test_hazard_130_a_list_that_is_none_costs_itself_only(
    videos: Path, library: Path, content: bytes, sentence: str
) -> None:
    (videos / IGNORE_FILE).write_bytes(content)
    report = index(videos, library)
    assert report.indexed == (3 if b"clip_01" in content else 4)
    ((path, note),) = report.notes
    assert path == str(videos / IGNORE_FILE)
    assert sentence in note


def test_hazard_130_a_list_that_is_a_pipe_or_a_folder_is_not_waited_for(videos: Path, library: Path) -> None:
    os.mkfifo(videos / IGNORE_FILE)
    report = index(videos, library)
    assert (report.indexed, [note for _, note in report.notes]) == (
        4,
        ["the ignore list is not a regular file, so it ignores nothing"],
    )
    (videos / IGNORE_FILE).unlink()
    (videos / IGNORE_FILE).mkdir()
    assert index(videos, library).unchanged == 4


@pytest.mark.parametrize("pattern", ["", "# nothing", "[z-a]", "!", "a\nb", "****/" + "*a" * 9, "*a*b*c*"])
def test_what_is_no_pattern_is_refused_before_anything_is_read(videos: Path, library: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="ignore"):
        index(videos, library, ignore=(pattern,))
    assert not library.exists()


def test_a_pattern_that_is_not_kept_cannot_be_taken_away(videos: Path, library: Path) -> None:
    index(videos, library, ignore=("*.old",))
    with pytest.raises(UsageError, match=r"its patterns are: \*\.old\."):
        index(videos, library, unignore=("*.new",))
