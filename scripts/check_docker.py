"""Check Dockerfile, .dockerignore and compose.yaml as far as that goes without Docker.

    python scripts/check_docker.py [--install]

Always: that what is copied is there and not ignored, that the last stage has a user of its own before it runs
anything, that the server it starts answers its own health check, and that the compose file mounts the videos read-only,
opens its port on this machine alone and asks for a token. With --install also the installation: in a folder with
nothing but what Docker would see, into an environment whose size is compared with the bound. Exit status 1 where
anything fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
MOST_BYTES = 1.5e9
BASE_BYTES = 150e6
"""Size of python:3.11-slim unpacked, rounded up."""


@dataclass(frozen=True)
class Step:
    """An instruction of a Dockerfile: its name and the rest of its lines as one."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """Its words; of the form with brackets, what these hold."""
        found: list[str] = json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)
        return found


def main() -> int:
    """Print what is wrong; 1 where anything is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="install what the image would hold, and weigh it")
    options = parser.parse_args()
    stages = read_stages((REPOSITORY / "Dockerfile").read_text(encoding="utf-8"))
    wrong = [*copied(stages), *users(stages[-1]), *composed(REPOSITORY / "compose.yaml")]
    with tempfile.TemporaryDirectory() as folder:
        python = install(stages[0], Path(folder)) if options.install else Path(sys.executable)
        if options.install:
            size = BASE_BYTES + sum(path.stat().st_size for path in python.parents[1].rglob("*") if path.is_file())
            print(f"the image would have about {size / 1e9:.2f} GB (at most {MOST_BYTES / 1e9:g})")
            wrong += [f"the image has {size / 1e9:.2f} GB"] if size > MOST_BYTES else []
        wrong += served(stages[-1], python, Path(folder))
    for one in wrong:
        print(one)
    print("no fault was found" if not wrong else f"{len(wrong)} faults")
    return int(bool(wrong))


def read_stages(text: str) -> list[list[Step]]:
    """Steps of each stage."""
    stages: list[list[Step]] = []
    for line in re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            stages.append([])
        if name:
            stages[-1].append(Step(name, rest.strip()))
    return stages


def seen_by_docker() -> Iterator[Path]:
    """Files that .dockerignore lets through: everything is ignored, and some names are taken back."""
    lines = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").split()
    if lines[0] != "*":
        sys.exit(".dockerignore has to begin with *, so that nothing is sent that is not named.")
    kept = [line[1:] for line in lines if line.startswith("!")]
    for name in kept:
        place = REPOSITORY / name
        yield from (path for path in (place.rglob("*") if place.is_dir() else [place]) if path.is_file())


def copied(stages: list[list[Step]]) -> Iterator[str]:
    """What is copied from the checkout and is not there, or is ignored."""
    seen = list(seen_by_docker())
    for step in (step for stage in stages for step in stage if step.name == "COPY" and "--from" not in step.rest):
        for source in step.words[:-1]:
            place = REPOSITORY / source
            if not any(path == place or place in path.parents for path in seen):
                yield f"COPY {source}: it is not there, or .dockerignore leaves it out"


def users(stage: list[Step]) -> Iterator[str]:
    """Whether the last stage runs as somebody who may do little, and says how it does."""
    names = [step.name for step in stage]
    user = next((step.rest for step in stage if step.name == "USER"), "root")
    if user in {"root", "0"}:
        yield "the image runs as root"
    for name in ("HEALTHCHECK", "VOLUME", "ENTRYPOINT", "CMD"):
        if name not in names:
            yield f"the Dockerfile has no {name}"


def composed(path: Path) -> Iterator[str]:
    """What the compose file has to say."""
    service: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]["evenreel"]
    if not any(str(volume).endswith(":/videos:ro") for volume in service["volumes"]):
        yield "the videos are not mounted read-only"
    if not all(str(port).startswith("127.0.0.1:") for port in service["ports"]):
        yield "the port is open to other machines"
    if ":?" not in service["environment"]["EVENREEL_TOKEN"]:
        yield "the token may be left out"


def install(stage: list[Step], folder: Path) -> Path:
    """Do what the first stage does, with what Docker would see; the Python of the environment."""
    context, environment = folder / "source", folder / "evenreel"
    for path in seen_by_docker():
        target = context / path.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for step in (step for step in stage if step.name == "RUN"):
        command = step.rest.replace("/evenreel", str(environment))
        subprocess.run(shlex.split(command), cwd=context, check=True, stdout=subprocess.DEVNULL)
    return environment / "bin" / "python"


def served(stage: list[Step], python: Path, folder: Path) -> Iterator[str]:
    """Whether the server that the image starts answers its health check; with an empty library, at another port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = next(step for step in stage if step.name == "CMD").words
    command = [port if word == "8765" else word for word in command]
    environment = {
        **os.environ,
        "EVENREEL_TOKEN": "sixteen-letters-or-more",
        "EVENREEL_LIBRARY": str(folder / "library" / "evenreel"),
    }
    process = subprocess.Popen([str(python), "-m", "evenreel", *command], env=environment, cwd=folder)
    health = next(step.rest for step in stage if step.name == "HEALTHCHECK").partition("CMD")[2].strip()
    asked = [str(python), *json.loads(health.replace("8765", port))[1:]]
    try:
        for _ in range(60):
            if subprocess.run(asked, check=False, stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.5)
        yield "the health check fails"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
