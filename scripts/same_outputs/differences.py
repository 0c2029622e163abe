"""Where two texts, files or folders differ, after leaving out what may: times, and the last digits of figures."""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

SAME = 1e-6
"""Figures that are nearer than this share of the larger one are equal."""

NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:[eE][-+]?\d+)?(?![\w.])")
MAY_DIFFER = (
    (re.compile(r"(?<![\w.])-?\d{13,}(?![\w.])"), "<id>"),
    (re.compile(r"'[0-9a-f]{64}'"), "<file>"),
    (re.compile(r'^\["[0-9a-f]{32}"', re.MULTILINE), '["<file>"'),
    (re.compile(r'(?<="digest": ")[0-9a-f]{12}(?=")|(?<=class="words">)[0-9a-f]{12}(?=</td>)'), "<digest>"),
    (re.compile(r'("(?:seconds|\w+_seconds|\w+_per_s|took_ms)": ?)[-\d.e]+'), r"\1<time>"),
    (re.compile(r'("(?:made|looked)": ?)"[^"]*"'), r"\1<date>"),
    (re.compile(r"\b(?:looked at|new since) [\dT:+-]+"), "<date>"),
    (re.compile(r" in [\d.,]+ (?:s|ms|min)\b"), " in <time>"),
    (re.compile(r"[\d.,]+ (?:frames|clips|captions|it)/s"), "<speed>"),
)
"""What a text may say another way each time, and what takes its place: ids of a library and
digests of features hang on where files lie and when they were written."""

BY_PLACE = re.compile(r"[0-9a-f]{32}")
"""Names of clips that are written anew, which hang on where the given ones lie."""

IGNORED = ("*.lock", "*.log", "*.sqlite-wal", "*.sqlite-shm", "events.out.*")
CLOCK_COLUMNS = re.compile(r"^id$|mtime|inode|_at$|^when|time_ns|^device$")
SHADOW = re.compile(r"_(data|idx|docsize|config)$")
"""Tables of SQLite itself, which hold a full-text index."""

LONGEST = 160


def differing_text(one: str, two: str) -> list[str]:
    """Lines that differ, each as it was and as it is, that are gone and that came; figures may by `SAME`.

    Lines are put beside one another by what they say without their figures, so that one that goes moves no other.
    """
    if one == two:
        return []
    left, right = _masked(one).splitlines(), _masked(two).splitlines()
    before, after = ([NUMBER.sub("#", line) for line in lines] for lines in (left, right))
    found = []
    for _, begin, end, start, stop in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        pairs = list(zip(left[begin:end], right[start:stop], strict=False))
        found += [_told(a, b) for a, b in pairs if not _alike(a, b)]
        found += [f"gone: {line.strip()[:LONGEST]}" for line in left[begin + len(pairs) : end]]
        found += [f"came: {line.strip()[:LONGEST]}" for line in right[start + len(pairs) : stop]]
    return found


def differing_files(one: Path, two: Path) -> Iterator[str]:
    """Files below two folders that one has alone, or whose content differs."""
    left, right = ({path.relative_to(root): path for path in _files(root)} for root in (one, two))
    for name in sorted(left.keys() ^ right.keys()):
        if not BY_PLACE.fullmatch(name.stem):
            yield f"{name} is only in the folder {'before' if name in left else 'after'}"
    counts = [Counter(name.parent for name in names if BY_PLACE.fullmatch(name.stem)) for names in (left, right)]
    for folder in sorted(counts[0].keys() | counts[1].keys()):
        if counts[0][folder] != counts[1][folder]:
            yield f"{folder} has {counts[0][folder]} such files before and {counts[1][folder]} after"
    for name in sorted(left.keys() & right.keys()):
        if left[name].read_bytes() == right[name].read_bytes():
            continue
        try:
            told = READERS.get(name.name, READERS.get(name.suffix, _bytes))(left[name], right[name])
        except Exception as error:
            told = [f"cannot be compared: {error}"]
        if told:
            yield f"{name}: {'; '.join(told[:3])}{f' (and {len(told) - 3} more)' if len(told) > 3 else ''}"


def _files(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        if path.is_file() and not any(path.match(pattern) for pattern in IGNORED):
            yield path


def _masked(text: str) -> str:
    for pattern, instead in MAY_DIFFER:
        text = pattern.sub(instead, text)
    return text


def _alike(one: str, two: str) -> bool:
    """Whether two lines say the same but for the last digits of their figures."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", two):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(two), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=SAME, abs_tol=1e-9) for a, b in pairs)


def _told(one: str, two: str) -> str:
    """Both from a little before the first letter that differs."""
    first = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    start = max(0, first - 60)
    return f"{one[start : start + LONGEST].strip()!r} -> {two[start : start + LONGEST].strip()!r}"


def _text(one: Path, two: Path) -> list[str]:
    texts = []
    for path in (one, two):
        texts.append(path.read_text(encoding="utf-8").replace(_work(path), "<folder>"))
    return differing_text(*texts)


def _halves(path: Path) -> dict[str, Any]:
    """Vectors of a library, in any order."""
    return {"values": np.sort(np.fromfile(path, np.float16))}


def _codes(path: Path) -> dict[str, Any]:
    """Codes of vectors, in any order."""
    return {"values": np.sort(np.fromfile(path, np.uint8))}


def _bytes(one: Path, two: Path) -> list[str]:
    return [f"{one.stat().st_size} bytes -> {two.stat().st_size} other bytes"]


def _arrays(load: Callable[[Path], dict[str, Any]]) -> Callable[[Path, Path], list[str]]:
    def compare(one: Path, two: Path) -> list[str]:
        left, right = load(one), load(two)
        found = [f"{name} is on one side alone" for name in sorted(left.keys() ^ right.keys())]
        for name in sorted(left.keys() & right.keys()):
            a, b = np.asarray(left[name]), np.asarray(right[name])
            if a.shape != b.shape or a.dtype != b.dtype:
                found.append(f"{name}: {a.dtype}{a.shape} -> {b.dtype}{b.shape}")
            elif a.dtype.kind in "fc":
                if not np.allclose(a, b, rtol=SAME, atol=1e-7, equal_nan=True):
                    found.append(f"{name}: differs by up to {np.nanmax(np.abs(a - b)):.3g}")
            elif not np.array_equal(a, b):
                found += differing_text(str(a.tolist()), str(b.tolist()))[:1]
        return found

    return compare


def _numpy(path: Path) -> dict[str, Any]:
    loaded = np.load(path)
    return dict(loaded) if path.suffix == ".npz" else {"array": loaded}


def _safetensors(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name).float().numpy() for name in file.keys()}  # noqa: SIM118
        notes = {f"metadata {key}": value for key, value in (file.metadata() or {}).items()}
        return tensors | {key: value.replace(_work(path), "<folder>") for key, value in notes.items()}


def _torch(path: Path) -> dict[str, Any]:
    """Tensors and plain values of a checkpoint to go on from, by their place in it."""
    import torch

    found: dict[str, Any] = {}

    def walk(value: Any, place: str) -> None:
        if isinstance(value, torch.Tensor):
            found[place] = value.detach().float().numpy()
        elif isinstance(value, dict):
            for key, each in value.items():
                walk(each, f"{place}/{key}")
        elif isinstance(value, (list, tuple)):
            for number, each in enumerate(value):
                walk(each, f"{place}/{number}")
        elif "seconds" not in place and not place.endswith("_s"):
            found[place] = str(value)

    walk(torch.load(path, weights_only=True, map_location="cpu"), "")
    return found


def _parquet(path: Path) -> dict[str, Any]:
    import polars as pl

    table = pl.read_parquet(path)
    columns = {name: np.asarray(table[name].to_list(), dtype=object).astype(str) for name in table.columns}
    return {name: np.char.replace(values, _work(path), "<folder>") for name, values in columns.items()}


def _work(path: Path) -> str:
    """The folder that a checkout's commands run in, which a file of theirs may name."""
    return str(next(parent for parent in path.parents if parent.name == "work"))


def _sqlite(one: Path, two: Path) -> list[str]:
    left, right = map(_rows, (one, two))
    found = [f"the table {name} is on one side alone" for name in sorted(left.keys() ^ right.keys())]
    for name in sorted(left.keys() & right.keys()):
        found += [f"{name}: {each}" for each in differing_text("\n".join(left[name]), "\n".join(right[name]))]
    return found


def _rows(path: Path) -> dict[str, list[str]]:
    root = _work(path)
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as base:
        names = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        found = {}
        for name in names:
            if SHADOW.search(name):
                continue
            rows = base.execute(f'SELECT * FROM "{name}"')
            kept = [at for at, column in enumerate(rows.description) if not CLOCK_COLUMNS.search(column[0])]
            found[name] = sorted(_masked(str([row[at] for at in kept]).replace(root, "<folder>")) for row in rows)
        return found


READERS: dict[str, Callable[[Path, Path], list[str]]] = {
    **dict.fromkeys((".json", ".jsonl", ".csv", ".yaml", ".txt", ".md", ".html", ".svg", ".trec", ".tsv"), _text),
    **dict.fromkeys((".npz", ".npy"), _arrays(_numpy)),
    ".safetensors": _arrays(_safetensors),
    ".ckpt": _arrays(_torch),
    ".parquet": _arrays(_parquet),
    ".sqlite": _sqlite,
    ".f16": _arrays(_halves),
    ".i8": _arrays(_codes),
}
