"""Run the same commands with two checkouts, and tell where what they print or write differs.

    python scripts/same_outputs BEFORE AFTER [--only demo,api,json,recipes,evidence,help] [--match REGEX] [--words]
        [--keep FOLDER]

Each checkout has its own `.venv` (`make .venv/installed`); a scratch copy without one is run by the other's. What is
run stands beside this file, a line each: commands in `commands.txt`, among them every audit and every study of
`evenreel study`, and in `requests.txt` what a server of either is asked. Each shipped recipe of `evenreel train` is
taken to its first step, and docs/evidence.md is written from the figures of either checkout. All that was written is
compared in the end. The tests of BEFORE make the inputs that no command makes. Commands that either has alone are named
and not run. Exit status 0 if all is equal, else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from differences import differing_files, differing_text

HERE = Path(__file__).resolve().parent
PARTS = ("demo", "api", "json", "recipes", "evidence", "help")
GOOD = (0, 3)
"""Exit statuses of a command that did its work; 3: with inputs set aside."""

SHOWN, TOLD = 12, 600
"""Lines that are told of a difference, and letters of an error."""

QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "SOURCE_DATE_EPOCH": "1000000000",
    "COLUMNS": "120",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True)
class Line:
    """A command of `commands.txt`: the words for either checkout, and what is known of it beforehand.

    A line of `requests.txt` is a server, with what it is asked.
    """

    part: str
    words: tuple[list[str], list[str]]
    refused: bool | None = False
    once: bool = True
    requests: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The command as it is typed in the checkout before."""
        return shlex.join(self.words[0])

    @property
    def bare(self) -> Line:
        """The same without `--json`; what is there by now may be refused, or gone on with."""
        one, two = ([word for word in words if word != "--json"] for words in self.words)
        return Line(self.part, (one, two), refused=None)

    def command(self, commands: Container[str]) -> str:
        """Its name, which is two words of some."""
        two = " ".join(self.words[0][:2])
        return two if two in commands else self.words[0][0]


def lines_of(part: str, text: str) -> list[Line]:
    """The commands below the heading `[part]`."""
    found, inside = [], False
    for raw in text.replace("\\\n", " ").splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line == f"[{part}]"
        elif line and inside and not line.startswith("#"):
            refused, once = line.startswith("! "), line.startswith("1 ")
            before, _, after = line.removeprefix("! ").removeprefix("1 ").partition("||")
            found.append(Line(part, (shlex.split(before), shlex.split(after or before)), refused, once))
    return found


def servers_of(text: str, match: str) -> list[Line]:
    """The servers, each with those requests below it that the pattern is found in."""
    found = []
    for each in re.split(r"^\[(?=serve )", text, flags=re.MULTILINE)[1:]:
        words, *rows = each.splitlines()
        requests = tuple(row for row in rows if row and not row.startswith("#") and re.search(match, row))
        both = shlex.split(words.rstrip("]"))
        found += [Line("api", (both, both), requests=requests)] if requests else []
    return found


class Checkout:
    """A checkout whose command line runs in a folder of its own, by a Python that has its imports behind it."""

    def __init__(self, root: Path, python: Path, folder: Path, core: int) -> None:
        self.root, self.python, self.folder = root, python, folder
        folder.mkdir(parents=True)
        # In a folder of its own: a command must not find the other checkout's files, nor the shared caches of a user.
        self.environment = {**os.environ, **QUIET, "PYTHONPATH": str(root / "src"), "HOME": str(folder.parent / "home")}
        self._process = subprocess.Popen(
            [python, HERE / "runner.py", str(core), root],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=self.environment,
        )  # fmt: skip
        place = self._ask({"task": "where"})["where"]
        if not Path(place).is_relative_to(root / "src"):
            sys.exit(f"{python} imports evenreel from {place}, not from {root}; run `make .venv/installed` there.")

    def run(self, words: list[str], requests: tuple[str, ...]) -> dict[str, Any]:
        """`code`, `out`, `err` and `used_s` of `evenreel` with these words; of a server also its `answers`."""
        words = [word.replace("CHECKOUT", str(self.root)) for word in words]
        if not requests:
            return self._ask({"task": "run", "words": words})
        return self._ask({"task": "serve", "words": words, "requests": [one.removeprefix("! ") for one in requests]})

    def commands(self) -> dict[str, Any]:
        """Each command by its words, with its options and their defaults, and its help."""
        return self._ask({"task": "commands"})

    def normalised(self, text: str) -> str:
        """The text as either checkout could have printed it."""
        return text.replace(str(self.folder), "<folder>").replace(str(self.root), "<checkout>")

    def close(self) -> None:
        """End the Python that waits."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"The Python of {self.root} ended.")
        found: dict[str, Any] = json.loads(answer)
        return found


class Comparison:
    """Both checkouts, and the differences found so far."""

    def __init__(self, before: Checkout, after: Checkout) -> None:
        self.sides = (before, after)
        self.found: list[str] = []
        self.run = 0
        self.used_s: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(2)

    def line(self, line: Line, place: str) -> None:
        """Run one command with both, and compare exit status and both streams, and what a server answered."""
        one, two = self._pool.map(lambda side, words: side.run(words, line.requests), self.sides, line.words)
        self.run += 1
        told = []
        if line.refused is not None and (one["code"] in GOOD) == line.refused:
            told.append(f"the line is wrong: exit status {one['code']} before: {one['err'].strip()[-TOLD:]}")
        if one["code"] != two["code"]:
            told.append(f"exit status {one['code']} -> {two['code']}: {(one['err'] + two['err']).strip()[-TOLD:]}")
        for stream in () if line.requests else ("out", "err"):  # where the one is, and what the log says, may differ
            told += [f"std{stream}: {each}" for each in self._differing(one[stream], two[stream])]
        used_s = one["used_s"] + two["used_s"]
        self.used_s[line.part] += used_s
        self._tell(told, f"{place} {used_s:5.1f} s", f"evenreel {line.shown}")
        for request, *texts in zip(line.requests, one.get("answers", ()), two.get("answers", ()), strict=False):
            wrong = request.startswith("! ") != (int(texts[0].split()[0]) >= 400)
            told = [f"the line is wrong: {texts[0][:TOLD]}"] if wrong else []
            self._tell(told + self._differing(*texts), place, f"{line.words[0][2]}: {request}")

    def _differing(self, *texts: str) -> list[str]:
        return differing_text(*(side.normalised(text) for side, text in zip(self.sides, texts, strict=True)))[:SHOWN]

    def _tell(self, told: list[str], place: str, shown: str) -> None:
        print(f"{place} {'DIFFERS' if told else 'same   '} {shown[:160]}", flush=True)
        for each in told:
            print(f"        {each}", flush=True)
        self.found += [f"{shown}: {each}" for each in told]

    def files(self) -> None:
        """Compare all that was written."""
        for each in differing_files(*(side.folder for side in self.sides)):
            print(f"DIFFERS {each}", flush=True)
            self.found.append(each)


def make_inputs(before: Checkout, folder: Path) -> None:
    """What no command makes: benchmarks in miniature, a tiny CLIP, stored features; by the tests of the checkout."""
    environment = before.environment | {"PYTHONPATH": f"{before.root / 'src'}{os.pathsep}{before.root}"}
    subprocess.run([before.python, HERE / "inputs.py", folder], env=environment, check=True, stderr=subprocess.DEVNULL)


def recipes_of(checkout: Path) -> set[str]:
    """Names of the recipes that come along."""
    root = next((checkout / "src" / "evenreel" / "training").rglob("recipes"))
    return {path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml")}


def recipe_lines(names: set[str], quick: str) -> list[Line]:
    """The first step of each recipe, as `evenreel train` is typed."""
    found = []
    for name in sorted(names):
        place = "length" if name.startswith("length/") else name.partition("/")[0]
        words = [f"corpus={place}/corpus", *(["features=length/features"] if place == "length" else [])]
        own = [f"data.{word}" for word in words] + SETTINGS.get(place, [f"data.videos={place}/videos"])
        own += BIMA_SETTINGS if name.endswith("/bima") else []
        reads = name.endswith("/tcd") or place in ("textvr", "vitevqa")
        own += ["data.on_screen={place}/read"] if reads else []
        changes = [word for one in own for word in ("--set", one.format(place=place))]
        out = f"runs/{name.replace('/', '-')}"
        words = ["train", name, *changes, *shlex.split(quick if place != "length" else ""), "--out", out, "--json"]
        found.append(Line("recipes", (words, words)))
    return found


SETTINGS = {
    "length": [
        "data.validation=null", "data.held_out=0.2", "matcher.settings.vectors=length/glove.txt",
        "matcher.settings.word_size=3", "matcher.settings.size=8", "loop.epochs=null", "loop.steps=2",
        "loop.batch_size=8", "loop.device=cpu", "records.tensorboard=false",
    ],
    "video2gif": ["data.videos=."],
}  # fmt: skip
BIMA_SETTINGS = ["data.pretrained_features={place}/features", "matcher.settings.elements={place}/elements"]
QUICK_RECIPE = (
    "--set backbone.model=../../inputs/clip --set loop.epochs=null --set loop.steps=1 --set loop.batch_size=4 "
    "--set loop.workers=0 --set loop.device=cpu --set records.tensorboard=false"
)


def untyped(commands: dict[str, Any], lines: list[Line]) -> tuple[list[str], list[str]]:
    """Commands with `--json`, and options of these, that no line of the table types."""
    missing, options = [], []
    for name, about in commands.items():
        if "--json" not in about["options"]:
            continue
        words = name.split()
        named = [line for line in lines if line.words[0][: len(words)] == words]
        if not named:
            missing.append(name)
        typed = [line.words[0] for line in named if not line.refused]
        rest = [one for one in about["options"] if one.startswith("-") and not any(one in each for each in typed)]
        options += [f"{name} {one}" for one in rest]
    return missing, options


def show_help(comparison: Comparison) -> None:
    """Print how options and helps differ; helps may."""
    one, two = (side.commands() for side in comparison.sides)
    for name in one:
        if name not in two:
            continue
        gone = [
            f"{key} {value}" for key, value in one[name]["options"].items() if two[name]["options"].get(key) != value
        ]
        came = [
            f"{key} {value}" for key, value in two[name]["options"].items() if one[name]["options"].get(key) != value
        ]
        if gone or came:
            print(f"help:   evenreel {name}: options before {gone}, after {came}")
        for row in unified_diff(one[name]["help"].splitlines(), two[name]["help"].splitlines(), lineterm="", n=0):
            if not row.startswith(("---", "+++", "@@")):
                print(f"help:   evenreel {name}: {row}")


def read_words() -> argparse.Namespace:
    """What was typed."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("before", type=Path)
    words.add_argument("after", type=Path)
    words.add_argument("--only", default=",".join(PARTS), help="parts, by commas; commands that make inputs always run")
    words.add_argument("--match", default="", help="only commands and requests in which this pattern is found")
    words.add_argument("--words", action="store_true", help="run every line without --json, too, not one a command")
    words.add_argument("--keep", type=Path, help="a new folder for what both write, instead of one that is removed")
    return words.parse_args()


def python_of(root: Path, other: Path) -> Path:
    """The Python of a checkout, or of the other where it has none."""
    found = [one / ".venv" / "bin" / "python" for one in (root, other)]
    return next((one for one in found if one.exists()), Path(sys.executable))


def lines_to_run(typed: argparse.Namespace, table: str, commands: Container[str]) -> list[Line]:
    """The commands of the chosen parts that the pattern is found in, after those that several parts stand on."""
    parts, first, found = set(typed.only.split(",")), [], []
    if parts & {"json", "recipes"}:
        first += lines_of("inputs", table)
    if parts & {"api", "json"}:
        first += lines_of("libraries", table)
    if "demo" in parts:
        found += lines_of("demo", table)
    if "json" in parts:
        seen: set[str] = set()
        for line in lines_of("json", table):
            bare = "--json" in line.words[0] and not line.once and (typed.words or line.command(commands) not in seen)
            found += [line, line.bare] if bare else [line]
            seen.add(line.command(commands) if bare else "")
    if "recipes" in parts:
        found += lines_of("recipe inputs", table) + recipe_lines(
            recipes_of(typed.before) & recipes_of(typed.after), QUICK_RECIPE
        )
    if "evidence" in parts:
        found += lines_of("evidence", table)
    found = [line for line in found if re.search(typed.match, line.shown)]
    if "api" in parts:  # before others write to the libraries
        found[:0] = servers_of((HERE / "requests.txt").read_text(encoding="utf-8"), typed.match)
    return first + found


def compare(typed: argparse.Namespace, place: Path) -> list[str]:
    """All differences of the chosen parts."""
    before, after = typed.before.resolve(), typed.after.resolve()
    parts, table = typed.only.split(","), (HERE / "commands.txt").read_text(encoding="utf-8")
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"There is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}.")
    one, two = (
        Checkout(root, python_of(root, other), place / name / "work", core)
        for core, (name, root, other) in enumerate((("one", before, after), ("two", after, before)))  # as long names
    )
    comparison = Comparison(one, two)
    commands, others = one.commands(), two.commands()
    alone = commands.keys() ^ others.keys()
    for name in sorted(alone):
        comparison.found.append(f"evenreel {name} is only in the checkout {'before' if name in commands else 'after'}")
    for name in sorted(recipes_of(before) ^ recipes_of(after)):
        comparison.found.append(
            f"the recipe {name} is only in the checkout {'before' if name in recipes_of(before) else 'after'}"
        )
    typed_lines = [line for part in ("libraries", "json") for line in lines_of(part, table)]
    missing, options = untyped({name: commands[name] for name in commands if name not in alone}, typed_lines)
    comparison.found += [f"no line of commands.txt types evenreel {name} --json" for name in missing]
    try:
        if set(parts) != {"help"}:
            print("making the inputs", flush=True)
            make_inputs(one, place / "inputs")
            for side in (one, two):
                shutil.copytree(place / "inputs", side.folder, dirs_exist_ok=True)
            lines = [line for line in lines_to_run(typed, table, commands) if line.command(alone) not in alone]
            for number, line in enumerate(lines, start=1):
                comparison.line(line, f"{number}/{len(lines)}")
            print("comparing what was written", flush=True)
            comparison.files()
        if "help" in parts:
            show_help(comparison)
            print(f"options that no line types: {', '.join(options)}")
    finally:
        one.close()
        two.close()
    for part, used_s in comparison.used_s.items():
        print(f"{part}: {used_s:.0f} s of processor time, both checkouts together")
    print(f"{comparison.run} commands, {len(comparison.found)} differences")
    return comparison.found


def main() -> None:
    """Compare, and end with 0 where all is equal."""
    typed = read_words()
    if typed.keep is not None:
        typed.keep.mkdir(parents=True)
        found = compare(typed, typed.keep.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="same-outputs-") as folder:
            found = compare(typed, Path(folder))
    for each in found:
        print(f"- {each}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
