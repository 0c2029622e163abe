"""Hazard 234: files of the current folder are never run."""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import evenreel
from evenreel.planted import Entity, Scene, write_scene
from evenreel.processes import command, safe_path

TEXTS = {path: path.read_text("utf-8") for path in Path(evenreel.__file__).parent.rglob("*.py")}
STARTED = sorted(set(re.findall(r'command\("(evenreel[\w.]*)"', "".join(TEXTS.values()))))
"""Every module that a process of ours runs."""


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file for every module that there is, which says that it ran."""
    folder = tmp_path_factory.mktemp("trap")
    names = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "evenreel", "tests"}
    for name in filter(str.isidentifier, names):
        (folder / f"{name}.py").write_text(f"import os; os.mkdir({str(folder / 'ran')!r}); os._exit(66)")
    return folder


def test_every_process_is_started_by_the_one_function() -> None:
    for path, text in TEXTS.items():
        if "sys.executable" in text:
            assert path.name == "processes.py"
        assert '"spawn"' not in text or "with safe_path()" in text, path
    assert len(STARTED) == 6


@pytest.mark.parametrize("module", STARTED)
def test_hazard_234_no_file_of_the_current_folder_is_run(module: str, trap: Path) -> None:
    done = subprocess.run(command(module), cwd=trap, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode != 66 and not (trap / "ran").exists(), done.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no switch for it")
def test_hazard_234_nor_by_what_multiprocessing_starts(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trap)
    with safe_path():
        process = multiprocessing.get_context("spawn").Process(target=print)
        process.start()
    process.join()
    assert process.exitcode == 0 and not (trap / "ran").exists()


@pytest.mark.slow
def test_hazard_234_nor_by_whole_commands(trap: Path, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    write_scene(tmp_path / "videos" / "star.mp4", Scene((Entity("star", "red", "large"),), "moves_right", "beach"))
    library = ("--library", str(tmp_path / "library"))
    for words in (
        ("index", str(tmp_path / "videos"), "--model", "builtin", *library),
        (
            "index",
            str(tmp_path / "videos"),
            "--model",
            "builtin",
            "--ray",
            "local",
            "--library",
            str(tmp_path / "by-ray"),
        ),
        ("search", "a star", *library),
        ("export", "a star", "--out", str(tmp_path / "list.edl"), *library),
        ("planted", "visual", "--clips", "8", "--out", str(tmp_path / "planted")),
    ):
        done = subprocess.run(command("evenreel", *words), cwd=trap, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not (trap / "ran").exists(), done.stderr
