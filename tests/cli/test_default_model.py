"""The README's own path: the default model, which no command names, where torch is not installed.

Processes of their own take a hub on the loopback for the hub, with a small export in the layout of the public one.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from evenreel.config import DEFAULT_MODEL
from tests.encoders.hub import COMMIT, EXPORT, Hub, default_checkpoint, default_export, environment
from tests.library.videos import write_folder

COMMAND = [sys.executable, "-m", "evenreel"]
TAKEN = {
    *("config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("onnx/text_model.onnx", "onnx/vision_model.onnx", "onnx/vision_model.onnx_data"),
}
"""The files in float32 and the settings: no other precision, no checkpoint."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    return {DEFAULT_MODEL: default_checkpoint(place / "checkpoint"), EXPORT: default_export(place / "export")}


@pytest.fixture
def hub(models: dict[str, Path]) -> Iterator[Hub]:
    with Hub(models) as hub:
        yield hub


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_folder(tmp_path / "videos", 2)
    return tmp_path


def run(place: Path, hub: Hub | str, words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *words.split(), "-l", "library"]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, cwd=place, env=environment(hub, place), capture_output=True, text=True, check=False, **options
    )


INDEX = "index videos --no-ocr"


def test_from_nothing_to_a_hit_with_a_model_that_nobody_names(hub: Hub, place: Path) -> None:
    """The model is fetched once, what is not needed of it never, and its size is said before."""
    done = run(place, hub, "index videos")
    assert done.returncode == 0, done.stderr
    size = sum(entry["size"] for entry in hub.files(EXPORT) if entry["path"] in TAKEN)
    assert f"downloading {EXPORT}: {size / 1e6:.0f} MB to {place / 'hf' / 'hub'}" in done.stderr
    assert f"downloading {EXPORT}: {size / 1e6:.0f} MB of {size / 1e6:.0f} MB" in done.stderr
    assert {name for model, name in hub.sent} == TAKEN
    assert {model for model, name in hub.sent} == {EXPORT}
    assert sum(hub.sent.values()) == size
    asked = len(hub.requests)
    assert "Nothing to do: 2 files unchanged" in run(place, hub, "index videos").stdout
    found = run(place, hub, "search a_tram --json --all")
    assert len(json.loads(found.stdout)["hits"]) == 2
    assert json.loads(run(place, hub, "info --json").stdout)["model"] == f"{EXPORT}@{COMMIT}"
    assert len(hub.requests) == asked


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=lambda how: how.name)
def test_a_download_that_is_broken_off_leaves_no_library_and_is_gone_on_with(
    hub: Hub, place: Path, how: signal.Signals
) -> None:
    hub.bytes_a_second = 100_000  # a minute for the whole
    process = subprocess.Popen(
        [*COMMAND, *INDEX.split(), "-l", "library"], cwd=place, env=environment(hub, place), stderr=subprocess.PIPE
    )
    wait_for(lambda: sum(hub.sent.values()) > 300_000)
    process.send_signal(how)
    _, said = process.communicate(timeout=50)
    assert process.returncode == (-9 if how == signal.SIGKILL else 130), said
    assert not (place / "library").exists()
    earlier, size = sum(hub.sent.values()), sum(entry["size"] for entry in hub.files(EXPORT) if entry["path"] in TAKEN)
    assert 300_000 < earlier < size, "it went on with what was broken off"
    hub.bytes_a_second = None
    done = run(place, hub, INDEX)
    assert done.returncode == 0, done.stderr
    again = sum(hub.sent.values()) - size
    assert again < 200_000, "what had arrived was sent anew"
    assert " of 6 MB to " in done.stderr


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_what_keeps_a_model_away_is_short_and_leaves_nothing_behind(hub: Hub, place: Path) -> None:
    """See `tests.encoders.test_sources` for what else keeps one away."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    nobody = "http://127.0.0.1:9"  # the discard port
    hub.refuse_files = 403
    for where, options, said in (
        (hub, {}, "answers HTTP 403"),
        (nobody, {}, "there is no network (127.0.0.1:9 could not be reached)"),
        (hub, {"preexec_fn": limit}, "is full"),
    ):
        done = run(place, where, INDEX, **options)
        hub.refuse_files = None
        (told,) = (line for line in done.stderr.splitlines() if line.startswith("evenreel: The model"))
        assert done.returncode == 1 and said in told and told.endswith("by words only for now."), done.stderr
        assert len(told.split()) < 45 and "Traceback" not in done.stderr
        assert not (place / "library").exists()
    done = run(place, nobody, f"{INDEX} --no-vision")
    assert (done.returncode, "Indexed 2 files" in done.stdout) == (0, True), done.stderr
