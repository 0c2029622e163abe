"""Filters such as `source = 'camera' and duration_s < 60`: read word by word, and written as SQL with bound values.

What is not listed here is refused. The SQL is written anew from what was read, every value and every metadata key is
bound: nothing of the user's text reaches SQLite as SQL. A filter that takes too long for the files is stopped.

Comparisons depend on the kind of the literal. Against a number, a metadata value that is no number (or true or false)
counts as missing, so that `year > 2000` leaves 'unknown' out; against text it is compared as text, so that `episode =
'12'` finds 12 as well. As in SQL, a comparison with a missing value is neither true nor false, and `like` ignores the
case of English letters. A column of yes and no is a condition by itself: `not has_words`. A path, name or folder equals
one in another spelling (capitals, Unicode forms, separators). A date is a day, `date >= '2024-05-01'`, and as text
`date like '2024-05%'`. A clip has several `people` or none: a comparison is true where one of them is such; `!=` where
none is equal, `is null` where there is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from evenreel.errors import UsageError
from evenreel.files import file_at, first_there, name_key
from evenreel.library.store.catalog import loaded_path, metadata_keys

MAX_CHARACTERS, MAX_CONDITIONS, MAX_PATTERN = 4_000, 200, 256
MAX_DEPTH = 15  # most levels of and, or and not within each other; SQLite's parser stacks 100 symbols, 3 to 5 for each
SECONDS, SECONDS_A_FILE = 1.0, 25e-6
"""How long a filter may take: as long as comparing the folder of each file some times."""
STEPS = 20_000  # steps of SQLite's between two looks at the clock
TOLD = 80  # most characters of what a person wrote that an error repeats
MAX_TOLD = 50  # most metadata columns that an error lists

Kind = Literal["number", "text", "date", "name", "any"]
Value = str | int | float

ALLOWED = "=, !=, <, <=, >, >=, in (...), between ... and ..., like, is null, and, or, not, ( )"
EXAMPLE = f"write, for example, source = 'camera' and duration_s < 60 (allowed: {ALLOWED})."
_COMPARED = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
WORDS = frozenset(("and", "or", "not", "is", "null", "in", "between", "like", "true", "false"))
"""Words of the language; a column with such a name is written in double quotes."""
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*")|(?P<name>[^\W\d]\w*)"""
    r"""|(?P<number>(?:\d|\.\d)(?:[eE][-+]|[\w.])*)|(?P<sign><=|>=|<>|!=|==|[-<>=(),.])"""
)
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]{1,15}", re.ASCII | re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

END = "end", ""  # what stands behind the last token


class FilterColumn(NamedTuple):
    """SQL of a column, and the kind of its values; a date is text such as `2024-05-31`, a name is in any spelling.

    A column of which a clip has several values or none has `of_clip` too: SQL with `{}` for a comparison of `sql`, true
    where one of the clip's values passes it.
    """

    sql: str
    kind: Literal["number", "text", "date", "name"]
    of_clip: str = ""


PEOPLE = "people"  # column of the names of people who are in a clip
_PEOPLE_OF_CLIP = (
    "clips.clip_id IN (SELECT faces.clip_id FROM faces JOIN people ON people.person_id = faces.person_id WHERE {})"
)
_PATH = "CAST(files.path AS TEXT)"  # a path that is not UTF-8 is stored as bytes
_ROOT = f"rtrim(CAST(roots.path AS TEXT), '{os.sep}') || '{os.sep}'"
_ABOVE = f"(SELECT max(length({_ROOT})) FROM roots WHERE substr({_PATH}, 1, length({_ROOT})) = {_ROOT})"
RELATIVE_PATH = f"ifnull(substr({_PATH}, {_ABOVE} + 1), files.name)"
"""What is below the innermost indexed folder, as `contents.root_of` finds it."""
_ITS_FOLDER = f"rtrim({_PATH}, replace({_PATH}, '{os.sep}', ''))"  # all letters but separators are taken off the end
_FOLDER = f"ifnull(rtrim(substr({_ITS_FOLDER}, {_ABOVE} + 1), '{os.sep}'), '')"
_MODIFIED = "date(files.mtime_ns / 1000000000, 'unixepoch', 'localtime')"
_CREATED = (
    "(SELECT CASE WHEN created LIKE '%Z' THEN date(created, 'localtime') ELSE substr(created || '-01-01', 1, 10) END"
    " FROM recorded WHERE recorded.clip_id = clips.clip_id)"
)
_SHAPE = (
    "CASE WHEN clips.width > clips.height THEN 'landscape' WHEN clips.width < clips.height THEN 'portrait'"
    " ELSE 'square' END"
)
COLUMNS: Mapping[str, FilterColumn] = {
    "path": FilterColumn(_PATH, "name"),
    "name": FilterColumn("files.name", "name"),
    "folder": FilterColumn(_FOLDER, "name"),
    "container": FilterColumn("clips.container", "text"),
    "codec": FilterColumn("clips.codec", "text"),
    "duration_s": FilterColumn("clips.duration_s", "number"),
    "size_bytes": FilterColumn("files.size", "number"),
    "fps": FilterColumn("clips.fps", "number"),
    "width": FilterColumn("clips.width", "number"),
    "height": FilterColumn("clips.height", "number"),
    "orientation": FilterColumn(_SHAPE, "text"),
    "modified": FilterColumn(_MODIFIED, "date"),
    "has_vision": FilterColumn("clips.has_vision", "number"),
    "has_text": FilterColumn("clips.has_text", "number"),
    "has_words": FilterColumn("EXISTS (SELECT 1 FROM tracks WHERE tracks.clip_id = clips.clip_id)", "number"),
    "created": FilterColumn(_CREATED, "date"),
    "date": FilterColumn(f"coalesce({_CREATED}, {_MODIFIED})", "date"),
    "has_speech": FilterColumn("EXISTS (SELECT 1 FROM utterances WHERE utterances.clip_id = clips.clip_id)", "number"),
}
"""Columns of every library: `folder` is below the indexed one, '' at its top; `has_text` says that words on screen were
looked for, `has_words` that there are some; `created` is the day on which a file says that it was recorded, the first
one of a year or month alone, `date` that day or else `modified`."""
_NOTES = "json_each(personal_notes())"
_PERSONAL = {
    "favourite": FilterColumn("clips.clip_id IN (SELECT value FROM json_each(personal_favourites()))", "number"),
    "note": FilterColumn(
        f"CASE WHEN clips.clip_id IN (SELECT key FROM {_NOTES})"
        f" THEN (SELECT value FROM {_NOTES} WHERE key = clips.clip_id) END",
        "text",
    ),
}
"""Columns of a person's own, where the connection has the functions of `evenreel.library.personal`."""
FLAGS = frozenset(("favourite", "has_vision", "has_text", "has_words", "has_speech"))
"""Columns of yes and no, which are conditions by themselves."""


@dataclass(frozen=True)
class Filter:
    """SQL condition over `files` joined with `clips`, and the values to bind in it."""

    sql: str = "TRUE"
    parameters: tuple[Value, ...] = ()

    def __and__(self, other: Filter) -> Filter:
        return Filter(f"({self.sql} AND {other.sql})", self.parameters + other.parameters)


class MetadataKeys(Collection[str]):
    """The keys that the metadata of a library has, of which a filter names one or two: these are looked for."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str) or not _is_plain(key):
            return key in set(self)
        found = "SELECT 1 FROM files WHERE json_type(metadata, ?) IS NOT NULL LIMIT 1"
        return self._connection.execute(found, (f'$."{key}"',)).fetchone() is not None

    def __iter__(self) -> Iterator[str]:
        return iter(metadata_keys(self._connection))

    def __len__(self) -> int:
        return len(metadata_keys(self._connection))


def _is_plain(key: str) -> bool:
    """Whether JSON writes a key without escapes: others cannot be named in SQLite's JSON paths."""
    return json.dumps(key, ensure_ascii=False) == f'"{key}"'


def columns_of(connection: sqlite3.Connection, *, relative_paths: bool = False) -> dict[str, FilterColumn]:
    if not _has_function(connection, "name_key"):
        connection.create_function("name_key", 1, lambda name: name and name_key(name), deterministic=True)
    found = {**COLUMNS, **(_PERSONAL if _has_function(connection, "personal_notes") else {})}
    if connection.execute("SELECT 1 FROM people LIMIT 1").fetchone():
        found[PEOPLE] = FilterColumn("people.name", "text", _PEOPLE_OF_CLIP)
    return found | ({"path": FilterColumn(RELATIVE_PATH, "name")} if relative_paths else {})


def _has_function(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM pragma_function_list WHERE name = ?", (name,)).fetchone() is not None


def below(folder: str | os.PathLike[str]) -> Filter:
    """Return the condition that a file is in a folder, or in one below it."""
    inside = os.path.join(file_at(os.sep, os.path.abspath(folder)), "")
    return Filter("(substr(CAST(files.path AS TEXT), 1, length(?)) = ?)", (inside, inside))


def read_filter(connection: sqlite3.Connection, text: str | None, *, relative_paths: bool = False) -> Filter:
    """Read a filter for the library of a catalog, see `parse_filter`; None gives one that is always true."""
    if text is None:
        return Filter()
    return parse_filter(text, MetadataKeys(connection), columns_of(connection, relative_paths=relative_paths))


def parse_filter(text: str, keys: Collection[str] = (), columns: Mapping[str, FilterColumn] = COLUMNS) -> Filter:
    """Read the text of a filter to an SQL condition with bound values."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"The filter has {len(text)} characters; at most {MAX_CHARACTERS} are read.")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError("The filter holds bytes that are not text; write it in UTF-8.")
    return _Reader(text, keys, columns).whole()


@contextlib.contextmanager
def limited(connection: sqlite3.Connection, where: Filter) -> Iterator[None]:
    """Stop what is read within the `with` where a filter takes too long for the number of files."""
    if where == Filter():
        yield
        return
    (files,) = connection.execute("SELECT count(*) FROM files").fetchone()
    limit_s = SECONDS + files * SECONDS_A_FILE
    stop_s, stopped = time.monotonic() + limit_s, False

    def look() -> int:
        nonlocal stopped
        stopped = time.monotonic() > stop_s
        return int(stopped)

    connection.set_progress_handler(look, STEPS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if not stopped:
            raise
        raise UsageError(f"The filter takes more than {limit_s:.0f} s on {files:,} files; make it simpler.") from error
    finally:
        connection.set_progress_handler(None, STEPS)


def passing(connection: sqlite3.Connection, columns: str, where: Filter, rest: str = "", *more: Value) -> list[tuple]:  # type: ignore[type-arg]
    with limited(connection, where):
        return connection.execute(
            f"SELECT {columns} FROM files CROSS JOIN clips ON clips.clip_id = files.clip_id"
            f" WHERE files.state = 'indexed' AND {where.sql}{rest}",
            (*where.parameters, *more),
        ).fetchall()


def first_paths(
    connection: sqlite3.Connection, where: Filter, clip_ids: Sequence[str], *, there: bool = False
) -> dict[str, str]:
    """Read the first of each clip's files that passes a filter; with `there` one that is on its disk now, if any is."""
    with limited(connection, where):
        rows = connection.execute(
            "SELECT files.clip_id, files.path FROM json_each(?) AS wanted"
            " CROSS JOIN files ON files.clip_id = wanted.value CROSS JOIN clips ON clips.clip_id = files.clip_id"
            f" WHERE files.state = 'indexed' AND {where.sql} ORDER BY files.path",
            (json.dumps(list(clip_ids)), *where.parameters),
        ).fetchall()
    paths: dict[str, list[str]] = {}
    for clip_id, path in rows:
        paths.setdefault(clip_id, []).append(loaded_path(path))
    return {clip_id: first_there(found) if there else found[0] for clip_id, found in paths.items()}


@dataclass(frozen=True)
class _Operand:
    sql: str
    parameters: tuple[Value, ...]
    kind: Kind
    name: str  # as the user knows it
    several: FilterColumn | None = None  # its column, where a clip has several values of it

    def as_kind(self, kind: Kind) -> _Operand:
        """The same value seen as a number or as text; what is not of that kind becomes NULL."""
        if self.kind != "any":
            return self
        if kind == "number":
            # json_extract has no type of its own, and SQLite holds any text to be more than any number.
            sql = f"CASE WHEN typeof({self.sql}) IN ('integer', 'real') THEN {self.sql} END"
            return _Operand(sql, self.parameters * 2, kind, self.name)
        return _Operand(f"CAST({self.sql} AS TEXT)", self.parameters, kind, self.name)


class _Reader:
    """Reads the words of a filter from left to right, and writes the SQL."""

    def __init__(self, text: str, keys: Collection[str], columns: Mapping[str, FilterColumn]) -> None:
        self._text, self._keys, self._columns = text, keys, columns
        self._tokens, self._at, self._conditions = [*_tokens(text), END], 0, 0

    def whole(self) -> Filter:
        found = self._junction("or", 0)
        if self._tokens[self._at] != END:
            raise self._refused()
        return found

    def _next(self, count: int = 1) -> list[str]:
        """The next tokens, words of the language and signs in small letters; '' for literals."""
        ahead = self._tokens[self._at : self._at + count]
        return [token.lower() if kind in {"name", "sign"} else "" for kind, token in ahead]

    def _take(self, *tokens: str) -> bool:
        is_next = self._next(len(tokens)) == list(tokens)
        self._at += len(tokens) if is_next else 0
        return is_next

    def _junction(self, word: Literal["and", "or"], depth: int) -> Filter:
        """Conditions with and, or those with or, between them; so many levels deep."""
        part = partial(self._junction, "and", depth) if word == "or" else partial(self._condition, depth)
        parts = [part()]
        while self._take(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        sql = f" {word.upper()} ".join(part.sql for part in parts)
        return Filter(f"({sql})", tuple(value for part in parts for value in part.parameters))

    def _condition(self, depth: int) -> Filter:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise UsageError(f"The filter has more than {MAX_CONDITIONS} conditions; use in (...) for lists.")
        if depth > MAX_DEPTH:
            raise UsageError("The filter is nested too deeply; use fewer parentheses.")
        if self._take("not"):
            inner = self._condition(depth + 1)
            return Filter(f"(NOT {inner.sql})", inner.parameters)
        if self._take("("):
            found = self._junction("or", depth + 1)
            if not self._take(")"):
                raise self._refused()
            return found
        return self._comparison()

    def _comparison(self) -> Filter:  # noqa: PLR0911 -- one for each kind
        left = self._operand()
        if self._take("is", "not", "null"):
            return self._is_null(left, negated=True)
        if self._take("is", "null"):
            return self._is_null(left)
        negated = self._take("not")
        if self._take("between"):
            low = self._operand()
            if not self._take("and"):
                raise self._refused()
            return self._test([left, low, self._operand()], "({} BETWEEN {} AND {})", negated, spelt=True)
        if self._take("like"):
            return self._like(left, negated)
        if self._take("in", "("):
            others = [self._operand()]
            while self._take(","):
                others.append(self._operand())
            if not self._take(")"):
                raise self._refused()
            return self._test([left, *others], f"({{}} IN ({', '.join(['{}'] * len(others))}))", negated)
        if negated:
            raise self._refused()
        if (operator := _COMPARED.get(self._next()[0])) is None:
            if left.name in FLAGS and not left.parameters:
                return Filter(f"({left.sql})")
            raise self._refused()
        self._at += 1
        spelt = operator not in {"=", "!="}
        if left.several and operator == "!=":
            return self._test([left, self._operand()], "({} = {})", negated=True)
        return self._test([left, self._operand()], f"({{}} {operator} {{}})", negated=False, spelt=spelt)

    def _test(self, given: list[_Operand], template: str, negated: bool, *, spelt: bool = False) -> Filter:
        """A comparison of a column with values, or of two columns; `spelt` where an order counts."""
        operands = _aligned(given, spelt=spelt)
        sql = template.format(*(operand.sql for operand in operands))
        found = Filter(sql, tuple(value for operand in operands for value in operand.parameters))
        if column := next((one.several for one in operands if one.several), None):
            if spelt:
                remedy = f"compare {PEOPLE} with =, !=, in (...) or like"
                raise UsageError(f"A clip has several people, which have no order; {remedy}.")
            found = _of_clip(column, found)
            if "!=" in template:  # a value on the left of it
                raise self._refused()
        return replace(found, sql=f"(NOT {found.sql})") if negated else found

    def _like(self, left: _Operand, negated: bool) -> Filter:
        given = [replace(one, kind="text") if one.kind == "date" else one for one in (left, self._operand())]
        if given[1].kind == "number" or left.kind == "number":
            raise UsageError(f"Only text is compared by like; write it as {left.name} like '%...%'.")
        if given[1].sql == "?" and len(str(given[1].parameters[0])) > MAX_PATTERN:
            raise UsageError(f"The text after like is too long; at most {MAX_PATTERN} characters are compared.")
        return self._test(given, "({} LIKE {})", negated)

    def _is_null(self, operand: _Operand, *, negated: bool = False) -> Filter:
        if operand.several:
            found = _of_clip(operand.several, Filter())
            return found if negated else Filter(f"(NOT {found.sql})", found.parameters)
        if operand.sql == "?":
            raise self._refused()
        return Filter(f"({operand.sql} IS {'NOT ' if negated else ''}NULL)", operand.parameters)

    def _operand(self) -> _Operand:
        negative = self._take("-")
        kind, token = self._tokens[self._at]
        if kind == "number":
            self._at += 1
            token = "-" * negative + token
            return _Operand("?", (_number(token),), "number", token[:TOLD])
        is_flag = kind == "name" and token.lower() in {"true", "false"}
        if negative or kind in {"sign", "end"} or (kind == "name" and token.lower() in WORDS and not is_flag):
            raise self._refused()
        self._at += 1
        if is_flag:
            return _Operand("?", (int(token.lower() == "true"),), "number", token)
        if kind == "text":
            value = token[1:-1].replace("''", "'")
            return _Operand("?", (value,), "text", repr(value[:TOLD]))
        if kind == "name" and token.lower() == "metadata" and self._take("."):
            kind, token = self._tokens[self._at]
            if kind not in {"name", "quoted"}:
                raise self._refused()
            self._at += 1
            return self._column(_unquoted(kind, token), of_metadata=True)
        return self._column(_unquoted(kind, token))

    def _column(self, name: str, *, of_metadata: bool = False) -> _Operand:
        if not of_metadata and (column := _matching_name(name, self._columns)):
            found = self._columns[column]
            return _Operand(found.sql, (), found.kind, column, found if found.of_clip else None)
        if self._next() == ["."] or (key := _matching_name(name, self._keys)) is None:
            raise self._unknown(name)
        if not _is_plain(key):
            raise UsageError(f"The metadata column {key!r} has a name that cannot be filtered by; rename it.")
        return _Operand("json_extract(files.metadata, ?)", (f'$."{key}"',), "any", key)

    def _unknown(self, name: str) -> UsageError:
        if name.casefold() == PEOPLE:
            remedy = "look for them with: evenreel index --people, and name them with: evenreel people --name"
            return UsageError(f"The library has no people with names to filter by; {remedy}.")
        keys = [key[:TOLD] for key in sorted(self._keys)]
        known = [*self._columns, *keys[:MAX_TOLD], *([f"{len(keys) - MAX_TOLD} more"] if len(keys) > MAX_TOLD else [])]
        return UsageError(
            f"There is no column {name[:TOLD]!r} to filter by; there are: {', '.join(known)}. "
            "(Text goes into single quotation marks: 'camera'.)"
        )

    def _refused(self) -> UsageError:
        token = self._tokens[self._at][1]
        if self._tokens == [END]:
            return UsageError(f"The filter {self._text[:TOLD]!r} is not one condition; {EXAMPLE}")
        if not token:
            return UsageError(f"The filter {self._text[:TOLD]!r} is cut off at its end; {EXAMPLE}")
        return UsageError(f"A filter cannot hold {token[:TOLD]!r} where it stands; {EXAMPLE}")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or "\x00" in match[0] or text[at : at + 2] == "--":
            raise UsageError(f"A filter cannot hold {text[at : at + 20]!r}; {EXAMPLE}")
        if match.lastgroup != "space":
            yield str(match.lastgroup), match[0]
        at = match.end()


def _unquoted(kind: str, token: str) -> str:
    return token[1:-1].replace('""', '"') if kind == "quoted" else token


def _of_clip(column: FilterColumn, comparison: Filter) -> Filter:
    return Filter(f"({column.of_clip.format(comparison.sql)})", comparison.parameters)


def _aligned(operands: list[_Operand], *, spelt: bool) -> list[_Operand]:
    """The operands of one comparison, all of one kind; names by what their spellings share, unless those count."""
    if all(operand.sql == "?" for operand in operands):
        raise UsageError(f"A comparison needs a column, not only values; {EXAMPLE}")
    of_names = not spelt and any(operand.kind == "name" for operand in operands)
    operands = [replace(one, kind="text") if one.kind == "name" else one for one in _with_days(operands)]
    kinds = {operand.kind for operand in operands} - {"any"}
    if len(kinds) != 1:
        raise _mismatch(operands)
    kind = kinds.pop()
    operands = [operand.as_kind(kind) for operand in operands]
    return [replace(one, sql=f"name_key({one.sql})") for one in operands] if of_names else operands


def _with_days(operands: list[_Operand]) -> list[_Operand]:
    """The operands, texts beside a date taken for days."""
    if all(operand.kind != "date" for operand in operands):
        return operands
    for operand in operands:
        if operand.sql == "?" and not (operand.kind == "text" and _DAY.fullmatch(str(operand.parameters[0]))):
            raise UsageError(f"A day is written '2024-05-31' in a filter, not {operand.name}; or like '2024-05%'.")
    return [replace(operand, kind="date") if operand.sql == "?" else operand for operand in operands]


def _mismatch(operands: list[_Operand]) -> UsageError:
    if all(operand.kind == "any" for operand in operands):
        names = " and ".join(operand.name for operand in operands)
        return UsageError(f"Columns {names} are both metadata, which has no fixed kind; compare each with a value.")
    kinds = " and ".join(f"{o.name} ({'metadata' if o.kind == 'any' else o.kind})" for o in operands)
    return UsageError(
        f"A comparison needs one kind on all sides, not {kinds[:250]}; "
        "numbers are written plain (60), text in single quotation marks ('camera')."
    )


def _matching_name(name: str, known: Collection[str]) -> str | None:
    """The known name that is meant: spelled the same, else the only one that differs in case alone."""
    if name in known:
        return name
    alike = [other for other in known if other.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _number(text: str) -> int | float:
    """A literal as SQLite can bind it: integers beyond 64 bits become floats."""
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"The filter's {text[:TOLD]!r} is no number; write it as 60, -1.5 or 6e2.")
    return int(text) if text.lstrip("-").isdigit() and len(text) < 19 else float(text)
