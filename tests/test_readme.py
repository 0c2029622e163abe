"""Every command of the README does what it says, in a home with videos, for who names no model and has no torch.

What installs is run by `scripts/try_wheel.py`, which CI calls; Docker's words are compared with the compose file, since
no Docker runs where the tests do.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from evenreel.config import DEFAULT_MODEL
from evenreel.demo import demo_scenes, make_demo_videos
from scripts.try_wheel import installs
from tests.conftest import REPOSITORY
from tests.each import check_each
from tests.encoders.hub import EXPORT, Hub, default_checkpoint, default_export, environment

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line, comments=True) for block in BLOCKS for line in block.splitlines()]
OURS = [words for words in COMMANDS if words[0] == "evenreel"]
SAID = {"index": "Indexed 4 files", "search": "weaker matches", "evaluate": "R@1"}
"""What each of them prints."""


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A home with four videos and the files of two systems, and the variables of a terminal there."""
    home = tmp_path_factory.mktemp("home")
    make_demo_videos(home / "Videos", 4)
    generator = np.random.default_rng(0)
    for name in ("scores", "other"):
        np.save(home / f"{name}.npy", np.eye(20, dtype=np.float32) + generator.random((20, 20), np.float32))
    pairs = [(query, clip) for query in range(5) for clip in range(5)]
    run = [f"q{query} Q0 c{clip} {1 + clip} {9.0 - clip} mine\n" for query, clip in pairs]
    (home / "run.trec").write_text("".join(run))
    (home / "qrels.txt").write_text("".join(f"q{number} 0 c{number} 1\n" for number in range(5)))
    models = {DEFAULT_MODEL: default_checkpoint(home / "one"), EXPORT: default_export(home / "other")}
    with Hub(models) as hub:
        yield home, environment(hub, home / "place", HOME=str(home), XDG_DATA_HOME=str(home / "data"), BROWSER="true")


def test_it_is_short_and_every_command_is_of_a_kind_that_is_run() -> None:
    assert len(README.splitlines()) <= 70
    assert {words[0] for words in COMMANDS} == {"evenreel", "make", "pipx", "pip", "export", "docker"}
    assert installs() == [words for words in COMMANDS if words[0] in {"pipx", "pip"}]
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {words[1] for words in COMMANDS if words[0] == "make"} <= targets


def test_the_services_that_docker_is_asked_for_are_there() -> None:
    services = yaml.safe_load((REPOSITORY / "compose.yaml").read_text("utf-8"))["services"]
    asked = [word for words in COMMANDS if words[:3] == ["docker", "compose", "run"] for word in words[3:]]
    (service,) = [word for word in asked if word in services]
    assert any(mount.endswith(f":{asked[-1]}:ro") for mount in services[service]["volumes"])
    assert re.search(r"^export EVENREEL_TOKEN=.* VIDEOS=", README, re.MULTILINE)


def test_its_commands_do_what_it_says(person: tuple[Path, dict[str, str]]) -> None:
    """In their order: a folder is indexed by the default model, which is fetched, and searched."""
    home, variables = person

    def check(words: list[str]) -> None:
        command = [sys.executable, "-m", *words]
        command = [str(home) + word[1:] if word.startswith("~") else word for word in command]
        if words[1] == "serve":
            serve(command, home, variables)
            return
        done = subprocess.run(command, cwd=home, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert SAID[words[1]] in done.stdout, done.stdout

    check_each(OURS, check)
    name, scene = next(iter(demo_scenes(4).items()))
    ask = ["search", f"a {scene.subject.colour} {scene.subject.shape} on a {scene.background}"]
    for words, told in ((["info"], EXPORT), (ask, f" 1. {home}/Videos/{name}")):
        command = [sys.executable, "-m", "evenreel", *words]
        done = subprocess.run(command, cwd=home, env=variables, capture_output=True, text=True, check=True)
        assert told in done.stdout


def serve(command: list[str], home: Path, variables: dict[str, str]) -> None:
    """Serve at a free port until the page of the library has come."""
    with subprocess.Popen([*command, "--port", "0"], cwd=home, env=variables, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+/", run.stdout.readline())
            assert address
            with urllib.request.urlopen(f"{address[0]}api/v1/stats", timeout=60) as answer:
                assert b'"clips":4' in answer.read()
        finally:
            run.terminate()
