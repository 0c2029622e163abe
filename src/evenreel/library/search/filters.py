"""Filters such as `source = 'camera' and duration_s < 60`: parsed, checked, and turned into bound SQL.

A filter is parsed to a tree and only what is listed here is walked; the SQL is written anew from that walk, with every
value and every metadata key bound as a parameter. Nothing of the user's text reaches SQLite as SQL.

Comparisons depend on the kind of the literal. Against a number, a metadata value that is a number (or true and false,
as 1 and 0) is compared, and any other counts as missing, so that `year > 2000` leaves 'unknown' out. Against text, a
metadata value is compared as text, so that `episode = '12'` finds 12 as well. As in SQL, a comparison with a missing
value is neither true nor false, and `like` ignores the case of English letters.

A column of yes and no is a condition by itself: `favourite`, `not has_words`.

A path, name or folder equals one in another spelling: capitals, Unicode forms and separators do not count.

A date is a day, `date >= '2024-05-01'`, and as text `date like '2024-05%'`.

The column `people` exists where the library has people with names. A clip has
several or none, so a comparison is true where one of them is such; `!=` is true where none is equal, `is null` where
there is none.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from evenreel.errors import UsageError
from evenreel.files import file_at
from evenreel.library.search.columns import COLUMNS, FLAGS, PEOPLE, FilterColumn, columns_of
from evenreel.library.search.metadata_columns import MetadataKeys

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

MAX_CHARACTERS = 4_000
MAX_CONDITIONS = 200
MAX_DEPTH = 15
"""Most levels of and, or and not within each other; SQLite's parser stacks 100 symbols, 3 to 5 for each."""
TOLD = 80
"""Most characters of what a person wrote that an error repeats."""
MAX_TOLD = 50
"""Most metadata columns that an error lists."""

Kind = Literal["number", "text", "date", "name", "any"]
Value = str | int | float

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

_PARTS = {
    **dict.fromkeys(("And", "Or", "Is", "EQ", "NEQ", "LT", "LTE", "GT", "GTE"), frozenset({"this", "expression"})),
    **dict.fromkeys(("Not", "Paren", "Neg", "Boolean"), frozenset({"this"})),
    "Like": {"this", "expression", "negate"},
    "In": {"this", "expressions"},
    "Between": {"this", "low", "high"},
    "Column": {"this", "table"},
    "Literal": {"this", "is_string"},
}
"""Node of a tree -> what it may consist of; another part would change what it means."""

ALLOWED = "=, !=, <, <=, >, >=, in (...), between ... and ..., like, is null, and, or, not, ( )"


@dataclass(frozen=True)
class Filter:
    """SQL condition over `files` joined with `clips`, and the values to bind in it."""

    sql: str = "TRUE"
    parameters: tuple[Value, ...] = ()

    @property
    def of_clips(self) -> bool:
        """Whether the condition says anything of `clips`; of `files` alone it needs no join."""
        return "clips." in self.sql

    def __and__(self, other: Filter) -> Filter:
        return Filter(f"({self.sql} AND {other.sql})", self.parameters + other.parameters)


@dataclass(frozen=True)
class _Operand:
    """One side of a comparison: a column, a metadata value or a literal."""

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


def below(folder: str | os.PathLike[str]) -> Filter:
    """Return the condition that a file is in a folder, or in one below it."""
    inside = os.path.join(file_at(os.sep, os.path.abspath(folder)), "")
    return Filter("(substr(CAST(files.path AS TEXT), 1, length(?)) = ?)", (inside, inside))


def read_filter(connection: sqlite3.Connection, text: str | None, *, relative_paths: bool = False) -> Filter:
    """Parse a filter for the library of a catalog, see `parse_filter`; None gives one that is always true."""
    if text is None:
        return Filter()
    return parse_filter(text, MetadataKeys(connection), columns_of(connection, relative_paths=relative_paths))


def parse_filter(text: str, keys: Collection[str] = (), columns: Mapping[str, FilterColumn] = COLUMNS) -> Filter:
    """Parse the text of a filter to an SQL condition with bound values."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"The filter has {len(text)} characters; at most {MAX_CHARACTERS} are read.")
    from sqlglot.errors import SqlglotError

    try:
        text.encode()
        return _Walker(keys, columns).filter(_parse(text))
    except UnicodeEncodeError as error:
        raise UsageError("The filter holds bytes that are not text; write it in UTF-8.") from error
    except (RecursionError, SqlglotError) as error:  # the latter where its tokenizer finds the stack used up
        raise _too_deep() from error


def _parse(text: str) -> Expression:
    """The tree of one expression."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        trees = sqlglot.parse(text, read="sqlite")
    except (SqlglotError, ValueError) as error:  # the latter for numbers of thousands of digits
        raise UsageError(f"The filter {text[:TOLD]!r} cannot be read; {_example()}") from error
    if len(trees) != 1 or trees[0] is None:
        raise UsageError(f"The filter {text[:TOLD]!r} is not one condition; {_example()}")
    if any(node.comments for node in trees[0].walk()):
        raise UsageError(f"A filter cannot hold comments; {_example()}")
    return trees[0]


def _example() -> str:
    return f"write, for example, source = 'camera' and duration_s < 60 (allowed: {ALLOWED})."


class _Walker:
    """Writes the SQL of a tree, refusing every node that is not listed."""

    def __init__(self, keys: Collection[str], columns: Mapping[str, FilterColumn]) -> None:
        self._keys, self._columns = keys, columns
        self._conditions = 0

    def filter(self, tree: Expression, depth: int = 0) -> Filter:
        """A condition, so many and, or and not deep."""
        from sqlglot import expressions as nodes

        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise UsageError(f"The filter has more than {MAX_CONDITIONS} conditions; use in (...) for lists.")
        if depth > MAX_DEPTH:
            raise _too_deep()
        self._check_parts(tree)
        match tree:
            case nodes.And() | nodes.Or():
                parts = [self.filter(part, depth + 1) for part in _chain(tree)]
                word = " AND " if isinstance(tree, nodes.And) else " OR "
                sql = word.join(part.sql for part in parts)
                return Filter(f"({sql})", tuple(value for part in parts for value in part.parameters))
            case nodes.Not():
                inner = self.filter(tree.this, depth + 1)
                return Filter(f"(NOT {inner.sql})", inner.parameters)
            case nodes.Paren():
                return self.filter(tree.this, depth)
            case nodes.Is():
                return self._is_null(tree)
            case nodes.Between() | nodes.In() | nodes.Like():
                return self._test(tree)
        return self._flag(tree) if isinstance(tree, nodes.Column) else self._comparison(tree)

    def _check_parts(self, tree: Expression) -> None:
        """Refuse what is not listed, be it a node or a part of one (`between symmetric`, `db.table.column`)."""
        given = {part for part, value in tree.args.items() if value is not None and value is not False}
        if not given <= _PARTS.get(type(tree).__name__, set()):
            raise self._refused(tree)

    def _flag(self, tree: Expression) -> Filter:
        """A column of yes and no by itself."""
        operand = self._operand(tree)
        if operand.name not in FLAGS or operand.parameters:  # a metadata value is compared with something
            raise self._refused(tree)
        return Filter(f"({operand.sql})")

    def _comparison(self, tree: Expression) -> Filter:
        from sqlglot import expressions as nodes

        operators = {nodes.EQ: "=", nodes.NEQ: "!=", nodes.LT: "<", nodes.LTE: "<=", nodes.GT: ">", nodes.GTE: ">="}
        operator = operators.get(type(tree))
        if operator is None:
            raise self._refused(tree)
        operands = left, right = _aligned(
            [self._operand(tree.left), self._operand(tree.right)], spelt=operator not in {"=", "!="}
        )
        values = left.parameters + right.parameters
        column = _column_of_several(operands)
        if column is None:
            return Filter(f"({left.sql} {operator} {right.sql})", values)
        if operator not in {"=", "!="}:
            raise _no_order(operands)
        found = _of_clip(column, Filter(f"{left.sql} = {right.sql}", values))
        return found if operator == "=" else Filter(f"(NOT {found.sql})", found.parameters)

    def _test(self, tree: Expression) -> Filter:
        """between, in and like."""
        from sqlglot import expressions as nodes

        if isinstance(tree, nodes.Between):
            others, template = [tree.args["low"], tree.args["high"]], "({} BETWEEN {} AND {})"
        elif isinstance(tree, nodes.In):
            others = tree.args.get("expressions") or []
            template = "({} IN (" + ", ".join(["{}"] * len(others)) + "))"
            if not others:
                raise self._refused(tree)
        else:
            others, template = [tree.args["expression"]], "({} LIKE {})"
        given = [self._operand(tree.this), *map(self._operand, others)]
        if isinstance(tree, nodes.Like):  # parts of a day are text
            given = [replace(one, kind="text") if one.kind == "date" else one for one in given]
        operands = _aligned(given, spelt=isinstance(tree, nodes.Between))
        if isinstance(tree, nodes.Like) and operands[1].kind == "number":
            raise UsageError(f"Only text is compared by like; write it as {operands[0].name} like '%...%'.")
        sql = template.format(*(operand.sql for operand in operands))
        found = Filter(sql, tuple(value for operand in operands for value in operand.parameters))
        if column := _column_of_several(operands):
            if isinstance(tree, nodes.Between):
                raise _no_order(operands)
            found = _of_clip(column, found)
        # So `a not like b` is parsed, while `a not in b` is a node of its own.
        return replace(found, sql=f"(NOT {found.sql})") if tree.args.get("negate") else found

    def _is_null(self, tree: Expression) -> Filter:
        from sqlglot import expressions as nodes

        if not isinstance(tree.args["expression"], nodes.Null):
            raise self._refused(tree)
        operand = self._operand(tree.this)
        if operand.several:
            found = _of_clip(operand.several, Filter())
            return Filter(f"(NOT {found.sql})", found.parameters)
        return Filter(f"({operand.sql} IS NULL)", operand.parameters)

    def _operand(self, tree: Expression) -> _Operand:
        from sqlglot import expressions as nodes

        self._check_parts(tree)
        match tree:
            case nodes.Column():
                return self._column(tree)
            case nodes.Boolean():
                return _Operand("?", (int(tree.this),), "number", tree.sql())
            case nodes.Literal() if tree.is_string:
                return _Operand("?", (tree.this,), "text", repr(tree.this[:TOLD]))
            case nodes.Literal():
                return _Operand("?", (_number(tree.this),), "number", tree.this[:TOLD])
            case nodes.Neg() if isinstance(tree.this, nodes.Literal) and not tree.this.is_string:
                return _Operand("?", (_number("-" + tree.this.this),), "number", f"-{tree.this.this[:TOLD]}")
            case nodes.Paren():
                return self._operand(tree.this)
        raise self._refused(tree)

    def _column(self, tree: Expression) -> _Operand:
        name, table = tree.name, tree.args.get("table")
        if table and table.name.lower() != "metadata":
            raise self._unknown(f"{table.name}.{name}")
        if not table and (column := _matching_name(name, self._columns)):
            found = self._columns[column]
            return _Operand(found.sql, (), found.kind, column, found if found.of_clip else None)
        if (key := _matching_name(name, self._keys)) is None:
            raise self._unknown(name)
        # A key that JSON writes with escapes cannot be named in SQLite's JSON paths.
        if json.dumps(key, ensure_ascii=False) != f'"{key}"':
            raise UsageError(f"The metadata column {key!r} has a name that cannot be filtered by; rename it.")
        return _Operand("json_extract(files.metadata, ?)", (f'$."{key}"',), "any", key)

    def _unknown(self, name: str) -> UsageError:
        if name.casefold() == PEOPLE:
            return UsageError(
                "The library has no people with names to filter by; look for them with: evenreel index --people, and "
                "name them with: evenreel people --name."
            )
        keys = [key[:TOLD] for key in sorted(self._keys)]
        known = [*self._columns, *keys[:MAX_TOLD], *([f"{len(keys) - MAX_TOLD} more"] if len(keys) > MAX_TOLD else [])]
        return UsageError(
            f"There is no column {name[:TOLD]!r} to filter by; there are: {', '.join(known)}. "
            "(Text goes into single quotation marks: 'camera'.)"
        )

    def _refused(self, tree: Expression) -> UsageError:
        return UsageError(f"A filter cannot hold {tree.sql(dialect='sqlite')[:TOLD]!r}; {_example()}")


def _chain(tree: Expression) -> list[Expression]:
    """The parts of `a and b and c`, or of `a or b or c`, which is parsed as (a and b) and c."""
    parts, link = [], type(tree)
    while isinstance(tree, link):
        parts.append(tree.right)
        tree = tree.left
    return [tree, *reversed(parts)]


def _too_deep() -> UsageError:
    return UsageError("The filter is nested too deeply; use fewer parentheses.")


def _column_of_several(operands: Sequence[_Operand]) -> FilterColumn | None:
    """The column of a comparison of which a clip has several values."""
    return next((operand.several for operand in operands if operand.several), None)


def _of_clip(column: FilterColumn, comparison: Filter) -> Filter:
    """What is true of a clip where a comparison is of one of its values."""
    return Filter(f"({column.of_clip.format(comparison.sql)})", comparison.parameters)


def _no_order(operands: Sequence[_Operand]) -> UsageError:
    name = next(operand.name for operand in operands if operand.several)
    return UsageError(f"A clip has several {name}, which have no order; compare {name} with =, !=, in (...) or like.")


def _aligned(operands: list[_Operand], *, spelt: bool) -> list[_Operand]:
    """The operands of one comparison, all of one kind; names by what their spellings share, unless those count."""
    if all(operand.sql == "?" for operand in operands):
        raise UsageError(f"A comparison needs a column, not only values; {_example()}")
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
        f"A comparison needs one kind on all sides, not {kinds}; "
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
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"The filter's {text[:TOLD]!r} is no number; write it as 60, -1.5 or 6e2.")
    whole = int(text) if text.lstrip("-").isdigit() else None
    return whole if whole is not None and abs(whole) < 2**63 else float(text)
