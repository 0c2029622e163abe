"""Corpora made of the files of a release: what was given, what was read, and what readers must know of it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import polars as pl

from evenreel.corpus.tables import CAPTION_COLUMNS, CLIP_COLUMNS, make_corpus
from evenreel.documents import brief
from evenreel.errors import CorpusError
from evenreel.files import VIDEO_SUFFIXES
from evenreel.types import Corpus, Shown
from evenreel.wording import other_separator

Columns = Mapping[str, Any]
"""Values of one row by column: standard columns, and a benchmark's own."""


@dataclass(frozen=True)
class Notice:
    """One sentence for the user on what was found while a corpus was read or changed.

    Attributes:
        sentence: says what, how many, where, and why.
        left_out: whether the corpus lacks something that the official release has.
        split: the split that the notice is about; None for all.
    """

    sentence: str
    left_out: bool = False
    split: str | None = None


@dataclass(frozen=True, eq=False)
class Imported(Shown):
    """A corpus made from a benchmark's files, with notices about them.

    Attributes:
        corpus: clips and captions, checked.
        notices: what is missing, what was left out and why, what was put in another form.
        texts: table of words on screen where the benchmark has them; see `evenreel.corpus.on_screen`.
    """

    corpus: Corpus
    notices: tuple[Notice, ...] = ()
    texts: pl.DataFrame | None = None


def repeated(corpus: Corpus) -> list[Notice]:
    """Return a notice for each split in which a clip has the same caption more than once."""
    again = corpus.captions.filter(~pl.struct("clip_id", "text").is_first_distinct())
    counts = again.join(corpus.clips.select("clip_id", "split"), on="clip_id").group_by("split").len().sort("split")
    return [
        Notice(f"{count:,} captions{_of(split)} say the same as another of their clip; they are kept.", split=split)
        for split, count in counts.iter_rows()
    ]


def _of(split: str | None) -> str:
    return f" of {split}" if split else ""


def table(rows: Sequence[Columns], standard: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Make a table from rows whose columns may differ; missing values are null."""
    names = list(dict.fromkeys([*standard, *(name for row in rows for name in row)]))
    return pl.DataFrame(
        [pl.Series(name, [row.get(name) for row in rows], dtype=standard.get(name), strict=False) for name in names]
    )


def some(names: Sequence[str], limit: int = 3) -> str:
    """Join the first `limit` names for a message, with `...` where there are more.

    >>> some(["a", "b"]), some(["a", "b", "c", "d"])
    ('a, b', 'a, b, c, ...')
    """
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


# Files that a user gives to the reader of a benchmark: found by their official names, and parsed with checks.
#
# Every error names the file and the row. Pickles are never opened, since opening one can run code.

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
        found: list[Path] = []
        for path in paths:
            if not path.exists():
                raise CorpusError(f"{path} does not exist; give the files of {benchmark}, or their folder.")
            inside = sorted(Path(folder) / name for folder, _, names in os.walk(path) for name in names)
            found += [path] if path.is_file() else inside
        self.files = list(dict.fromkeys(found))
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

    def by_split(self, names: Mapping[str, str | Sequence[str]], needs: str | None = None) -> dict[str, Path]:
        """Return the file of each split that was given, by its names; with `needs` there must be one of these files."""
        given = {split: self.one(*([some] if isinstance(some, str) else some)) for split, some in names.items()}
        if needs is not None and not any(given.values()):
            raise CorpusError(self.lacks(needs))
        return {split: path for split, path in given.items() if path}

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
        notices = []
        for path in self.paths:
            if not path.is_file() or path in self._read:
                continue
            why = f"is no file that {self.benchmark} is read from, and is skipped"
            if path in self._beside:
                why = f"is not needed beside {self._beside[path]}, and is skipped"
            elif path.suffix.lower() in _PICKLES:
                why = "is a pickle, which can run code when it is opened, and is not read"
            notices.append(Notice(f"{path.name} {why}.", left_out=path not in self._beside))
        return notices


class Draft(ReleaseFiles):
    """A corpus while its files are read: rows of clips and captions, and notices; `finish` checks them."""

    def __init__(self, benchmark: str, paths: Sequence[Path]) -> None:
        super().__init__(benchmark, paths)
        self.notices: list[Notice] = []
        self.clips: dict[str, dict[str, Any]] = {}
        self.captions: list[dict[str, Any]] = []
        self._named: dict[str, str] = {}
        self._numbered: Counter[str] = Counter()

    def clip(self, clip_id: str, columns: Columns, where: str) -> None:
        """Add a clip to the draft of a corpus."""
        if clip_id in self.clips:
            raise CorpusError(
                f"{where} names the clip {clip_id!r}, as {self._named[clip_id]} does; a clip belongs in a benchmark "
                "once, so take one of them out."
            )
        self.clips[clip_id] = {"clip_id": clip_id, **columns}
        self._named[clip_id] = where

    def caption(self, clip_id: str, text: str, columns: Columns | None = None) -> None:
        """Add a caption of a clip to the draft of a corpus.

        Args:
            clip_id: id of the clip.
            text: the caption.
            columns: its other columns, by name; without a `caption_id` its id is `CLIP#0`, `CLIP#1` and so on.
        """
        number = self._numbered[clip_id]
        self._numbered[clip_id] += 1
        row = {"caption_id": f"{clip_id}#{number}", "clip_id": clip_id, "text": text.strip()}
        self.captions.append(row | dict(columns or {}))

    def captions_of(self, path: Path) -> None:
        """Add the captions of a JSON file {clip: [caption]}."""
        for name, of_clip in typed(read_json(path), dict, str(path)).items():
            for text in texts(of_clip, f"{path.name}, {name},"):
                self.caption(stem(name), text)

    def note(self, sentence: str, *, left_out: bool = False, split: str | None = None) -> None:
        """Add a notice about the files that are read, a sentence for the user."""
        self.notices.append(Notice(sentence, left_out, split))

    def leave_out(self, what: str, names: Sequence[str], split: str | None = None) -> None:
        """Add a notice that something was left out, with the number and the first few names."""
        if names:
            self.note(f"{len(names):,} {what} ({some(names)}).", left_out=True, split=split)

    def expect(self, official: Mapping[str, int]) -> None:
        """Add a notice for each split whose number of clips is not the official one."""
        there = Counter(row.get("split") for row in self.clips.values())
        for split, count in official.items():
            if not there[split]:
                self.note(f"The files given hold no clip of the split {split} (officially {count:,}).", split=split)
            elif there[split] < count:
                short = f"The split {split} has {there[split]:,} of its {count:,} official clips."
                self.note(short, left_out=True, split=split)

    def finish(
        self,
        official: Mapping[str, int] | None = None,
        *,
        needs: str | None = None,
        texts: pl.DataFrame | None = None,
        all_captioned: bool = True,
    ) -> Imported:
        """Check the rows of the draft and return the corpus that they make, with all notices.

        Args:
            official: number of clips that each split has officially.
            needs: the files that have clips, for the message where none was given.
            texts: table of words on screen.
            all_captioned: whether a clip without a caption is worth a notice.
        """
        if needs is not None and not self.clips:
            raise CorpusError(self.lacks(needs))
        self.expect(official or {})
        self.notices += self.unread()
        self.leave_out(
            "captions are left out because their clip is not listed",
            [row["caption_id"] for row in self.captions if row["clip_id"] not in self.clips],
        )
        known = [row for row in self.captions if row["clip_id"] in self.clips]
        self.leave_out("captions without a word are left out", [row["caption_id"] for row in known if not row["text"]])
        captions = [row for row in known if row["text"]]
        told = {row["clip_id"] for row in captions}
        silent: dict[str | None, list[str]] = {}
        for name, clip in self.clips.items():
            if all_captioned and name not in told:
                silent.setdefault(clip.get("split"), []).append(name)
        for split, names in silent.items():
            self.leave_out(f"clips{_of(split)} have no caption", names, split)
        try:
            corpus = make_corpus(table(list(self.clips.values()), CLIP_COLUMNS), table(captions, dict(CAPTION_COLUMNS)))
        except CorpusError as error:
            raise CorpusError(f"The files of {self.benchmark} make no sound corpus:", *error.args) from error
        return Imported(corpus, (*self.notices, *repeated(corpus)), texts)


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


def listed(path: Path) -> Iterator[tuple[str, str]]:
    """Iterate over the lines of a list, each with its place (file, entry) for error messages."""
    for number, line in enumerate(read_lines(path), start=1):
        yield f"{path}, entry {number},", line


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Iterate over the values of a JSON list, each with its place (file, entry) for error messages."""
    for number, value in enumerate(typed(read_json(path), list, str(path)), start=1):
        yield f"{path.name}, entry {number},", value


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
            elif row and len(row) != len(names):
                raise CorpusError(f"{path}, line {rows.line_num}, has {len(row)} values for {len(names)} columns.")
            elif row:
                yield f"{path.name}, line {rows.line_num}", dict(zip(names, row, strict=True))
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


def json_field(record: object, name: str, kind: type[T], where: str) -> T:
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
    return json_field(record, name, kind, where)


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
