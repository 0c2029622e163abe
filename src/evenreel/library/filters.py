"""Filters such as `source = 'camera' and duration_s < 60`: parsed, checked, and turned into bound SQL.

A filter is parsed to a tree and only what is listed here is walked; the SQL is written anew from that walk,
with every value and every metadata key bound as a parameter. Nothing of the user's text reaches SQLite as SQL.

Comparisons follow the kind of the other side. Against a number, a metadata value that is a number (or true
and false, as 1 and 0) is compared, and any other counts as missing, so that `year > 2000` leaves 'unknown'
out. Against text, a metadata value is compared as text, so that `episode = '12'` finds 12 as well. As in SQL,
a comparison with a missing value is neither true nor false, and `like` ignores the case of English letters.

`element` is there where the library has scene elements. A clip has several or none, so a comparison is true where one
of them is such; `!=` is true where none is equal, `is null` where there is none.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evenreel.errors import UsageError
from evenreel.library.catalog import has_elements, metadata_keys

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

MAX_CHARACTERS = 4_000
MAX_CONDITIONS = 200

Kind = Literal["number", "text", "any"]
Value = str | int | float

COLUMNS: dict[str, tuple[str, Kind]] = {
    "path": ("CAST(files.path AS TEXT)", "text"),  # a path that is not UTF-8 is stored as bytes
    "name": ("files.name", "text"),
    "container": ("clips.container", "text"),
    "codec": ("clips.codec", "text"),
    "duration_s": ("clips.duration_s", "number"),
    "fps": ("clips.fps", "number"),
    "width": ("clips.width", "number"),
    "height": ("clips.height", "number"),
    "has_vision": ("clips.has_vision", "number"),
    "has_text": ("clips.has_text", "number"),
}
"""What can be filtered by in every library, with its SQL over `files` joined with `clips`."""

ELEMENT = "element"
"""What a clip shows, in phrases of a dictionary."""

_PHRASE = "clip_elements.phrase"
_OF_CLIP = "EXISTS (SELECT 1 FROM clip_elements WHERE clip_elements.clip_id = clips.clip_id AND {})"

ALLOWED = "=, !=, <, <=, >, >=, in (...), between ... and ..., like, is null, and, or, not, ( )"


@dataclass(frozen=True)
class Filter:
    """A condition over `files` joined with `clips`, and the values to bind in it."""

    sql: str = "TRUE"
    parameters: tuple[Value, ...] = ()


@dataclass(frozen=True)
class _Operand:
    """One side of a comparison: a column, a metadata value or a literal."""

    sql: str
    parameters: tuple[Value, ...]
    kind: Kind
    name: str  # as the user knows it

    def as_kind(self, kind: Kind) -> _Operand:
        """The same value seen as a number or as text; what is not of that kind becomes NULL."""
        if self.kind != "any":
            return self
        if kind == "number":
            # json_extract has no type of its own, and SQLite holds any text to be more than any number.
            sql = f"CASE WHEN typeof({self.sql}) IN ('integer', 'real') THEN {self.sql} END"
            return _Operand(sql, self.parameters * 2, kind, self.name)
        return _Operand(f"CAST({self.sql} AS TEXT)", self.parameters, kind, self.name)


def read_filter(connection: sqlite3.Connection, text: str) -> Filter:
    """A filter as the library of this catalog understands it, see `parse_filter`.

    Raises:
        UsageError: the text is no filter of this library.
    """
    return parse_filter(text, metadata_keys(connection), elements=has_elements(connection))


def parse_filter(text: str, keys: Collection[str] = (), *, elements: bool = False) -> Filter:
    """Turn what a person wrote into a condition with bound values.

    Args:
        text: comparisons of columns with literals, joined by and, or, not. A column is one of `COLUMNS` or a
            metadata key (`metadata.name` where a key has the name of a column; in double quotation marks
            where it has spaces).
        keys: those that the library's metadata has.
        elements: whether the library has scene elements.

    Raises:
        UsageError: the text is not such a filter; the sentence says what was not understood.
    """
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"The filter has {len(text)} characters; at most {MAX_CHARACTERS} are read.")
    try:
        text.encode()
        return _Walker(keys, elements).filter(_parse(text))
    except UnicodeEncodeError as error:
        raise UsageError("The filter holds bytes that are not text; write it in UTF-8.") from error
    except RecursionError as error:
        raise UsageError("The filter is nested too deeply; use fewer parentheses.") from error


def _parse(text: str) -> Expression:
    """The tree of one expression."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        trees = sqlglot.parse(text, read="sqlite")
    except SqlglotError as error:
        raise UsageError(f"The filter {text[:80]!r} cannot be read; {_example()}") from error
    if len(trees) != 1 or trees[0] is None:
        raise UsageError(f"The filter {text[:80]!r} is not one condition; {_example()}")
    if any(node.comments for node in trees[0].walk()):
        raise UsageError(f"A filter cannot hold comments; {_example()}")
    return trees[0]


def _example() -> str:
    return f"write, for example, source = 'camera' and duration_s < 60 (allowed: {ALLOWED})."


class _Walker:
    """Writes the SQL of a tree, refusing every node that is not listed."""

    def __init__(self, keys: Collection[str], elements: bool) -> None:
        self._keys = keys
        self._columns: dict[str, tuple[str, Kind]] = COLUMNS | ({ELEMENT: (_PHRASE, "text")} if elements else {})
        self._conditions = 0

    def filter(self, tree: Expression) -> Filter:
        """A condition."""
        from sqlglot import expressions as nodes

        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise UsageError(f"The filter has more than {MAX_CONDITIONS} conditions; use in (...) for lists.")
        match tree:
            case nodes.And() | nodes.Or():
                left, right = self.filter(tree.left), self.filter(tree.right)
                word = "AND" if isinstance(tree, nodes.And) else "OR"
                return Filter(f"({left.sql} {word} {right.sql})", left.parameters + right.parameters)
            case nodes.Not():
                inner = self.filter(tree.this)
                return Filter(f"(NOT {inner.sql})", inner.parameters)
            case nodes.Paren():
                return self.filter(tree.this)
            case nodes.Is():
                return self._is_null(tree)
            case nodes.Between() | nodes.In() | nodes.Like():
                return self._test(tree)
        return self._comparison(tree)

    def _comparison(self, tree: Expression) -> Filter:
        from sqlglot import expressions as nodes

        operators = {nodes.EQ: "=", nodes.NEQ: "!=", nodes.LT: "<", nodes.LTE: "<=", nodes.GT: ">", nodes.GTE: ">="}
        operator = operators.get(type(tree))
        if operator is None:
            raise self._refused(tree)
        left, right = _aligned([self._operand(tree.left), self._operand(tree.right)])
        values = left.parameters + right.parameters
        if _PHRASE not in {left.sql, right.sql}:
            return Filter(f"({left.sql} {operator} {right.sql})", values)
        if operator not in {"=", "!="}:
            raise _no_order()
        found = _OF_CLIP.format(f"{left.sql} = {right.sql}")
        return Filter(f"({found})" if operator == "=" else f"(NOT {found})", values)

    def _test(self, tree: Expression) -> Filter:
        """between, in and like."""
        from sqlglot import expressions as nodes

        if isinstance(tree, nodes.Between):
            others, template = [tree.args["low"], tree.args["high"]], "({} BETWEEN {} AND {})"
            if tree.args.get("symmetric"):
                raise self._refused(tree)
        elif isinstance(tree, nodes.In):
            others = tree.args.get("expressions") or []
            template = "({} IN (" + ", ".join(["{}"] * len(others)) + "))"
            if not others:
                raise self._refused(tree)
        else:
            others, template = [tree.args["expression"]], "({} LIKE {})"
        operands = _aligned([self._operand(tree.this), *map(self._operand, others)])
        if isinstance(tree, nodes.Like) and operands[1].kind == "number":
            raise UsageError(f"like compares text; write it as {operands[0].name} like '%...%'.")
        sql = template.format(*(operand.sql for operand in operands))
        if any(operand.sql == _PHRASE for operand in operands):
            if isinstance(tree, nodes.Between):
                raise _no_order()
            sql = f"({_OF_CLIP.format(sql)})"
        return Filter(sql, tuple(value for operand in operands for value in operand.parameters))

    def _is_null(self, tree: Expression) -> Filter:
        from sqlglot import expressions as nodes

        if not isinstance(tree.args["expression"], nodes.Null):
            raise self._refused(tree)
        operand = self._operand(tree.this)
        if operand.sql == _PHRASE:
            return Filter(f"(NOT {_OF_CLIP.format('TRUE')})")
        return Filter(f"({operand.sql} IS NULL)", operand.parameters)

    def _operand(self, tree: Expression) -> _Operand:
        from sqlglot import expressions as nodes

        match tree:
            case nodes.Column():
                return self._column(tree)
            case nodes.Boolean():
                return _Operand("?", (int(tree.this),), "number", tree.sql())
            case nodes.Literal() if tree.is_string:
                return _Operand("?", (tree.this,), "text", repr(tree.this))
            case nodes.Literal():
                return _Operand("?", (_number(tree.this),), "number", tree.this)
            case nodes.Neg() if isinstance(tree.this, nodes.Literal) and not tree.this.is_string:
                return _Operand("?", (_number("-" + tree.this.this),), "number", f"-{tree.this.this}")
            case nodes.Paren():
                return self._operand(tree.this)
        raise self._refused(tree)

    def _column(self, tree: Expression) -> _Operand:
        name, table = tree.name, tree.args.get("table")
        if (table and table.name.lower() != "metadata") or tree.args.get("db"):
            raise self._unknown(f"{table.name}.{name}")
        if not table and (column := _spelled(name, self._columns)):
            sql, kind = self._columns[column]
            return _Operand(sql, (), kind, column)
        if (key := _spelled(name, self._keys)) is None:
            raise self._unknown(name)
        # A key that JSON writes with escapes cannot be named in SQLite's JSON paths.
        if json.dumps(key, ensure_ascii=False) != f'"{key}"':
            raise UsageError(f"The metadata column {key!r} has a name that cannot be filtered by; rename it.")
        return _Operand("json_extract(files.metadata, ?)", (f'$."{key}"',), "any", key)

    def _unknown(self, name: str) -> UsageError:
        if name.casefold() == ELEMENT:
            return UsageError(
                "The library has no scene elements to filter by; find them with: evenreel elements --library LIBRARY."
            )
        known = ", ".join([*self._columns, *sorted(self._keys)])
        return UsageError(
            f"There is no column {name!r} to filter by; there are: {known}. "
            "(Text goes into single quotation marks: 'camera'.)"
        )

    def _refused(self, tree: Expression) -> UsageError:
        return UsageError(f"A filter cannot hold {tree.sql(dialect='sqlite')[:80]!r}; {_example()}")


def _no_order() -> UsageError:
    return UsageError(
        f"A clip has several scene elements, which have no order; compare {ELEMENT} with =, !=, in (...) or like."
    )


def _aligned(operands: list[_Operand]) -> list[_Operand]:
    """The operands of one comparison, all of one kind."""
    if all(operand.sql == "?" for operand in operands):
        raise UsageError(f"A comparison needs a column, not only values; {_example()}")
    kinds = {operand.kind for operand in operands} - {"any"}
    if len(kinds) != 1:
        raise _mismatch(operands)
    kind = kinds.pop()
    return [operand.as_kind(kind) for operand in operands]


def _mismatch(operands: list[_Operand]) -> UsageError:
    if all(operand.kind == "any" for operand in operands):
        names = " and ".join(operand.name for operand in operands)
        return UsageError(f"{names} are both metadata, which has no fixed kind; compare each with a value.")
    told = " and ".join(f"{o.name} ({'metadata' if o.kind == 'any' else o.kind})" for o in operands)
    return UsageError(
        f"A comparison needs one kind on all sides, not {told}; "
        "numbers are written plain (60), text in single quotation marks ('camera')."
    )


def _spelled(name: str, known: Collection[str]) -> str | None:
    """The known name that is meant: spelled the same, else the only one that differs in case alone."""
    if name in known:
        return name
    alike = [other for other in known if other.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _number(text: str) -> int | float:
    """A literal as SQLite can bind it: integers beyond 64 bits become floats."""
    try:
        whole = int(text)
    except ValueError:  # a fraction, or more digits than Python reads as an integer
        return float(text)
    return whole if abs(whole) < 2**63 else float(text)
