"""Files that a user gives to the reader of a benchmark: found by their official names, and parsed with checks.

Every error names the file and the row. Pickles are never opened, since opening one can run code.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from evenreel.corpus.imported import Notice
from evenreel.documents import brief
from evenreel.errors import CorpusError
from evenreel.files import VIDEO_SUFFIXES
from evenreel.wording import other_separator

T = TypeVar("T")

_PICKLES = (".pkl", ".pickle", ".pth", ".pt")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Escapes of UTF-16 halves, which are a character in pairs only."""

_LIMIT = 2**31
"""No count, frame or class is as large; beyond it, columns of 32 bits would lose a number without a word."""

_KINDS = {
    str: "text",
    float: "a number",
    int: "a whole number",
    list: "a list",
    dict: "an object",
    bool: "true or false",
}


class ReleaseFiles:
    """Files and folders given by the user, searched by the names that files have in a benchmark's official release."""

    def __init__(self, benchmark: str, paths: Sequence[Path]) -> None:
        """List the files of all folders."""
        self.benchmark = benchmark
        self.paths = tuple(paths)
        for path in paths:
            if not path.exists():
                raise CorpusError(f"{path} does not exist; give the files of {benchmark}, or their folder.")
        self.files = list(dict.fromkeys(file for path in paths for file in _files(path)))
        self._read: set[Path] = set()
        self._beside: dict[Path, str] = {}

    def all(self, *patterns: str, folder: str | None = None) -> list[Path]:
        """Return every file whose name fits one of some patterns (`*.json`), ignoring case."""
        found = [f for f in self._fitting(patterns) if folder in (None, f.absolute().parent.name)]
        self._read.update(found)
        return found

    def not_needed(self, beside: str, *patterns: str) -> None:
        """Mark the files whose names fit some patterns as superfluous beside the file `beside`; `unread` reports it."""
        self._beside |= dict.fromkeys(self._fitting(patterns), beside)

    def _fitting(self, patterns: Sequence[str]) -> list[Path]:
        return [f for f in self.files if any(fnmatch(f.name.lower(), p.lower()) for p in patterns)]

    def one(self, *patterns: str) -> Path | None:
        """Return the only file whose name fits one of some patterns; None where there is none."""
        found = self.all(*patterns)
        if len(found) > 1:
            raise CorpusError(self.ambiguous(patterns[0], found))
        return found[0] if found else None

    def need(self, *patterns: str) -> Path:
        """Return the only file whose name fits one of some patterns."""
        found = self.one(*patterns)
        if found is None:
            raise CorpusError(self.lacks(" or ".join(patterns)))
        return found

    def ambiguous(self, what: str, found: Sequence[Path]) -> str:
        """Return the error message for several files (`found`) where only one of the kind `what` is expected."""
        listed = ", ".join(map(str, found[:4]))
        return (
            f"{self.benchmark} has one {what}, but {len(found)} files could be it ({listed}); give the one that is "
            "meant by its path."
        )

    def lacks(self, what: str) -> str:
        """Return the error message for a missing file, with the places that were searched."""
        places = ", ".join(map(str, self.paths)) or "nothing"
        sentence = f"{self.benchmark} needs {what}, which is not in what was given ({places})."
        if pickles := [file.name for file in self.files if file.suffix.lower() in _PICKLES]:
            sentence += f" {pickles[0]} is a pickle, which can run code when it is opened, and is never read."
        return sentence

    def unread(self) -> list[Notice]:
        """Return a notice for each file that the user named by its path and that was not read."""
        asked = [path for path in self.paths if path.is_file() and path not in self._read]
        return [Notice(self._why_unread(path), left_out=path not in self._beside) for path in asked]

    def _why_unread(self, path: Path) -> str:
        if path in self._beside:
            return f"{path.name} is not needed beside {self._beside[path]}, and is skipped."
        if path.suffix.lower() in _PICKLES:
            return f"{path.name} is a pickle, which can run code when it is opened, and is not read."
        return f"{path.name} is no file that {self.benchmark} is read from, and is skipped."


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(Path(folder) / name for folder, _, names in os.walk(path) for name in names)


def read_text(path: Path) -> str:
    """Read a text file in UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({(error.strerror or str(error)).lower()}).") from error


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str) -> Any:
    """Parse a JSON text."""
    try:
        value = json.loads(text)
        if _HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and error.lineno > 1:
            raise CorpusError(f"{where} holds a JSON value in each line, not one in all; name it .jsonl.") from error
        raise CorpusError(f"{where} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from error
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise CorpusError(f"{where} has half of a character, {half!r}, in its text; mend or drop that text.") from error
    except (RecursionError, ValueError) as error:  # nested without end; a number of thousands of digits
        raise CorpusError(f"{where} is JSON that cannot be read ({error}).") from error


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file, stripped of spaces around them, without empty ones."""
    return [line.strip() for line in read_text(path).split("\n") if line.strip()]


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over the objects of a JSON Lines file, each with its place (file, line) for error messages.

    Lines that begin with # are comments.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            where = f"{path.name}, line {number}"
            yield f"{where},", typed(parse_json(line, where), dict, where)


def csv_rows(
    path: Path, columns: Sequence[str], *, header: bool = True, separator: str = ","
) -> Iterator[tuple[str, dict[str, str]]]:
    """Iterate over the rows of a csv file as {column: text}, each with its place (file, row) for error messages."""
    rows = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=separator, strict=True)
    names: list[str] = [] if header else list(columns)
    try:
        for row in rows:
            if not names:
                names = _header(path, row, columns)
            elif row:
                yield _row(path, rows.line_num, names, row)
    except csv.Error as error:
        raise CorpusError(f"{path}, line {rows.line_num}, is no table row ({error}).") from error
    if not names:
        raise CorpusError(f"{path} is empty; it must be a table with {', '.join(columns) or 'a header'}.")


def _header(path: Path, row: list[str], columns: Sequence[str]) -> list[str]:
    names = [name.strip() for name in row]
    if other := other_separator(names):
        raise CorpusError(f"{path} has one column, {brief(names[0])}: {other}.")
    if missing := [column for column in columns if column not in names]:
        raise CorpusError(f"{path} has no column {missing[0]}; it has: {', '.join(names)}.")
    if len(set(names)) < len(names):
        raise CorpusError(f"{path} has two columns of one name: {', '.join(names)}.")
    return names


def _row(path: Path, line: int, names: list[str], row: list[str]) -> tuple[str, dict[str, str]]:
    if len(row) != len(names):
        raise CorpusError(f"{path}, line {line}, has {len(row)} values for {len(names)} columns.")
    return f"{path.name}, line {line}", dict(zip(names, row, strict=True))


def tab_rows(path: Path, count: int) -> Iterator[tuple[str, list[str]]]:
    """Iterate over the rows of a tab-separated file, without quoting, each with its place (file, row) for messages."""
    for n, line in enumerate(read_text(path).split("\n"), start=1):
        values = line.split("\t")
        while len(values) > count and not values[-1].strip():  # some copies end every line in a tab
            values.pop()
        if line.strip() and len(values) != count:
            raise CorpusError(f"{path}, line {n}, has {len(values)} values between tabs; a row has {count}.")
        if line.strip():
            yield f"{path.name}, line {n}", values


def field(record: object, name: str, kind: type[T], where: str) -> T:
    """Return a required field of a JSON object, checked to be of a type."""
    if not isinstance(record, dict):
        raise CorpusError(f"{where} is {brief(record)}; it must be an object with the field {name}.")
    if name not in record:
        raise CorpusError(f"{where} has no field {name}; it has: {', '.join(map(str, record)) or 'none'}.")
    return typed(record[name], kind, f"{where}, field {name},")


def optional(record: object, name: str, kind: type[T], where: str) -> T | None:
    """Return a field of a JSON object, checked to be of a type; None where it is missing or null."""
    if isinstance(record, dict) and record.get(name) is None:
        return None
    return field(record, name, kind, where)


def typed(value: object, kind: type[T], where: str) -> T:
    """Check that a JSON value is of a type, and return it; a whole number passes as a float."""
    if isinstance(value, int) and not -_LIMIT <= value < _LIMIT:
        raise CorpusError(f"{where} is {brief(value)}; it must be a number below {_LIMIT:,}.")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise CorpusError(f"{where} is {brief(value)}; it must be {_KINDS[kind]}.")
    return value


def texts(value: object, where: str) -> list[str]:
    """Check that a JSON value is a list of strings, and return it."""
    return [typed(one, str, f"{where} entry {n},") for n, one in enumerate(typed(value, list, where), start=1)]


def pair(value: object, kind: type[T], where: str) -> tuple[T, T]:
    """Check that a JSON value is a list of two values of a type, and return both."""
    ends = [typed(one, kind, where) for one in typed(value, list, where)]
    if len(ends) != 2:
        raise CorpusError(f"{where} is {brief(value)}; it must have a start and an end.")
    return ends[0], ends[1]


def number(text: str, where: str) -> float:
    """Parse the text of a table's cell as a number."""
    try:
        return float(text)
    except ValueError:
        raise CorpusError(f"{where} has {brief(text)} where a number belongs.") from None


def whole(text: str, where: str) -> int:
    """Parse the text of a table's cell as a whole number."""
    try:
        return typed(int(text), int, where)
    except ValueError:
        raise CorpusError(f"{where} has {brief(text)} where a whole number belongs.") from None


def stem(name: str) -> str:
    """Return a video's file name without folders and video suffix; a dot inside the name stays.

    >>> stem("all_videos/clip.MP4"), stem("1012_Unbreakable_00.05.16.065-00.05.21.941")
    ('clip', '1012_Unbreakable_00.05.16.065-00.05.21.941')
    """
    path = PurePosixPath(name.strip().replace("\\", "/"))
    return path.stem if path.suffix.lower() in VIDEO_SUFFIXES else path.name
