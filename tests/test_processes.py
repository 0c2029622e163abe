"""Hazards 234 and 235: files of the current folder are never run, and nobody is told of what is done."""

from __future__ import annotations

import multiprocessing
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import evenreel
from evenreel.media.workers import command, safe_path
from evenreel.planted import Entity, Scene, write_scene
from tests.cli.test_serve import get, running, wait_for

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
            assert path.name == "workers.py"
        assert '"spawn"' not in text or "with safe_path()" in text, path
    assert len(STARTED) == 5


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


WATCH = """
import sys

def watch(event, given):
    if event in {"socket.connect", "socket.sendto"}:
        told = repr(given[1])
    elif event == "socket.getaddrinfo":
        told = repr(given[0])
    else:
        return
    if not any(here in told for here in ("127.0.0.1", "::1", "localhost", "'/", "b'")):
        with open(PLACE, "a") as file:
            file.write(f"{sys.argv} {event} {told}\\n")

sys.addaudithook(watch)
"""
"""Notes where any Python goes that is started with this as its `sitecustomize`."""


@pytest.fixture
def unheard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A home of its own, and an environment in which all that goes out is noted; called, it checks that nothing did."""
    home, noted = tmp_path / "home", tmp_path / "connections"
    home.mkdir()
    (tmp_path / "sitecustomize.py").write_text(WATCH.replace("PLACE", repr(str(noted))))
    for name in ("DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")

        def check() -> None:
            assert not noted.exists(), noted.read_text()
            with pytest.raises(BlockingIOError):
                proxy.accept()
            assert {file.relative_to(home).parts[1] for file in home.rglob("*") if file.is_file()} <= {"evenreel"}

        yield check


SILENCED = {
    "DISABLE_SAFETENSORS_CONVERSION": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0",
    "ORT_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def test_hazard_235_all_of_it_is_switched_off_but_what_a_user_has_set() -> None:
    code = "import os, evenreel, sys; print([os.environ[one] for one in sys.argv[1:]])"
    bare = {name: value for name, value in os.environ.items() if name not in SILENCED}
    for given, wanted in (({}, SILENCED), (dict.fromkeys(SILENCED, "mine"), dict.fromkeys(SILENCED, "mine"))):
        told = subprocess.check_output([sys.executable, "-c", code, *SILENCED], env=bare | given, text=True)
        assert told.strip() == str([*wanted.values()])
    hears = (  # each by the switch that it reads itself
        "import evenreel, huggingface_hub.constants as hub, datasets.config as sets; "
        "assert hub.HF_HUB_DISABLE_TELEMETRY and not sets.HF_UPDATE_DOWNLOAD_COUNTS"
    )
    subprocess.run([sys.executable, "-c", hears], env=bare, check=True)


def test_hazard_235_what_we_use_tells_nobody_of_it(unheard: Callable[[], None]) -> None:
    code = "import evenreel, onnxruntime, huggingface_hub.constants as hub; assert hub.HF_HUB_DISABLE_TELEMETRY"
    subprocess.run([sys.executable, "-c", code], check=True)
    unheard()


@pytest.mark.slow
def test_hazard_235_nor_do_whole_commands(unheard: Callable[[], None], tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    write_scene(tmp_path / "videos" / "star.mp4", Scene((Entity("star", "red", "large"),), "moves_right", "beach"))
    library = tmp_path / "library"
    for words in (("index", str(tmp_path / "videos"), "--model", "builtin"), ("search", "a star"), ("mcp",)):
        started = command("evenreel", *words, "--library", str(library))
        subprocess.run(started, stdin=subprocess.DEVNULL, check=True)
    with running(library) as (_, port):
        wait_for(port, "/api/v1/health", "model", {"ready"})
        assert get(port, "/api/v1/search?q=a+star")[0] == 200
    unheard()
