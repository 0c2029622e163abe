"""Build wheel and sdist, install the wheel into an environment of its own, run the demo and a first index from there,
and install as the README says.

    python scripts/try_wheel.py [--extras measure,meaning] [--keep FOLDER]

The wheel is made of the sdist, so that both are tried. The demo runs in an empty folder, with no checkout in sight.
Exit status 1 where anything fails, or the installed package lacks a file of the checkout's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SUFFIXES = frozenset((".py", ".pyi", ".typed", ".sql", ".txt", ".json", ".html", ".css", ".js", ".svg"))
SUFFIXES |= {".safetensors", ".onnx", ".md", ".yaml"}
ASK = "import evenreel, sys; sys.stdout.write(evenreel.__file__)"


def main() -> int:
    """Say what was tried; 1 where it failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", default="measure,meaning", help="extras that are installed; the demo uses both")
    parser.add_argument("--keep", type=Path, help="folder to put wheel and sdist into")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = options.keep or place / "dist"
        run([sys.executable, "-m", "build", "--outdir", str(made), str(REPOSITORY)])
        (wheel,), (sdist,) = made.glob("*.whl"), made.glob("*.tar.gz")
        lacking = missing_files(wheel)
        with tarfile.open(sdist) as held:
            tests = [name for name in held.getnames() if "/tests" in name]
        python = place / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"
        run([sys.executable, "-m", "venv", str(place / "environment")])
        constraints = str(REPOSITORY / "constraints.txt")
        run([str(python), "-m", "pip", "install", "--quiet", "-c", constraints, f"{wheel}[{options.extras}]"])
        (place / "empty").mkdir()
        where = run([str(python), "-c", ASK], cwd=place / "empty")
        run([str(python), "-m", "evenreel", "demo"], cwd=place / "empty")
        found = run(
            [str(python), "-m", "evenreel", "search", "a red star", "--library", "demo/library", "--json"],
            cwd=place / "empty",
        )
        default = first_hits(python, place)
        size_mib = sum(path.stat().st_size for path in (place / "environment").rglob("*") if path.is_file()) / 2**20
        hits = json.loads(found)["hits"]
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB; installed with what it needs {size_mib:,.0f} MiB")
        print(f"the demo ran from {where}; its library answers with {len(hits)} clips")
        print(f"without a model's name a small stand-in for the default was fetched; {default} clips were found")
        for words in installs():
            print(f"{shlex.join(words)}: {installed(words, place / words[0])}")
        for name in lacking:
            print(f"the wheel lacks {name}")
        for name in tests[:1]:
            print(f"the sdist holds {name}, which needs files that it does not hold")
        return int(bool(lacking or tests or not hits or not default or str(REPOSITORY) in where))


def first_hits(python: Path, place: Path) -> int:
    """Index the demo's videos with the default model, of a hub on this machine, and count the hits of a search."""
    sys.path.insert(0, str(REPOSITORY))
    from tests.encoders.hub import EXPORT, Hub, default_export

    with Hub({EXPORT: default_export(place / "export")}) as hub:
        variables = {"HF_ENDPOINT": hub.address, "HF_HOME": str(place / "hf")}
        command, own = [str(python), "-m", "evenreel"], ["--library", "own"]
        run([*command, "index", "demo/videos", "--no-ocr", *own], place / "empty", **variables)
        found = run([*command, "search", "a red star", "--json", *own], place / "empty", **variables)
    return len(json.loads(found)["hits"])


def installs() -> list[list[str]]:
    """Commands of the README that install evenreel."""
    lines = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    return [shlex.split(line, comments=True) for line in lines if re.match(r"pipx? install ", line)]


def installed(words: list[str], place: Path) -> str:
    """Install evenreel in a place of its own; what it says its version is."""
    run([sys.executable, "-m", "venv", str(place)])
    tool, where = str(place / "bin" / words[0]), {}
    if words[0] == "pipx":
        run([str(place / "bin" / "pip"), "install", "--quiet", "pipx"])
        where = {
            "PIPX_HOME": str(place / "pipx"),
            "PIPX_BIN_DIR": str(place / "bin"),
            "PIPX_MAN_DIR": str(place / "man"),
        }
    run([tool, *words[1:]], cwd=REPOSITORY, **where)
    return run([str(place / "bin" / "evenreel"), "--version"], cwd=place).strip()


def missing_files(wheel: Path) -> list[str]:
    """Files of the package in the checkout that the wheel does not hold."""
    with zipfile.ZipFile(wheel) as held:
        there = set(held.namelist())
    package = REPOSITORY / "src"
    wanted = [path for path in (package / "evenreel").rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    return sorted(name for path in wanted if (name := path.relative_to(package).as_posix()) not in there)


def run(command: list[str], cwd: Path | None = None, **more: str) -> str:
    """Run a command without what lies on the path of modules; what it says of a failure is shown."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
