"""Hostile filters against the parser of `--where` and of the page, systematic and random; how each is answered.

    python -m scripts.filter_attack [--random 40000] [--seed 0] [--share 1.0] [--json]

Each filter is parsed as `evenreel search --where` does, and as the API does, then run by SQLite over a small catalog
behind an authorizer that lets nothing be read but what filters may name. It is *answered* when SQLite ran it, *refused*
when it got one sentence; anything else is a *fault*: another exception, a sentence that is none, an SQL that reads
something else or does not run, two seconds of processor time, or other clips than SQLite finds when it reads the text
itself, where that names no metadata. Exit status 1 for a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import re
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evenreel.errors import UsageError
from evenreel.library.search.filters import COLUMNS, passing, read_filter
from evenreel.library.store.catalog import create_schema, dump_metadata
from evenreel.types import Metadata

SLOWEST_S = 2.0
LONGEST_SENTENCE = 2_000
METADATA: Metadata = {"source": "camera", "year": 2019, "two words": True, "größe": 1.5, "Name": "x' OR 1=1 --"}
READABLE = {"files", "clips", "roots", "recorded", "tracks", "utterances"}
FUNCTIONS = {"json_extract", "typeof", "like", "substr", "length", "max", "rtrim", "ifnull", "name_key"}
FUNCTIONS |= {"count", "coalesce", "date", "replace"}
FOUND = "SELECT clip_id FROM files JOIN clips USING (clip_id)"
OF_METADATA = re.compile("|".join(("metadata", *map(re.escape, METADATA))), re.IGNORECASE)

NAMES = [*COLUMNS, "source", "year", '"two words"', "größe", "metadata.name", 'metadata."Name"']
STRANGE_NAMES = [
    *("files.path", "main.files.path", "sqlite_master.sql", "rowid", "_rowid_", "*", "path.path", "metadata.nothing"),
    *('""', '"', "[path]", "`path`", '"pa""th"', "nothing", "PATH", "Path", "pаth", "path\u200b", "select", "metadata"),
    *("clip_id", "clips.clip_id", "files.root", "a.b.c.d", "x" * 3_000, "'path'", "(path)", "path path", "-path"),
]
NUMBERS = [
    *("0", "-0", "+1", "1.", "1.5", ".5", ".", "1e5", "1E5", "1e", "1E", "1e+", "1e-", "-1e", "+1e", "1e1.5", "1e5e"),
    *("1.e", "0e", "00e", ".e1", "1ee1", "0x", "0X1F", "0xG", "0x1e", "0x1p3", "-0x1F", "0x" + "F" * 16, "0b1", "0o7"),
    *("0x" + "F" * 3_900, "0X" + "0" * 3_900, "1_000", "1__0", "1_", "9" * 19, "9" * 20, "9" * 400, "9" * 3_900),
    *("-" + "9" * 3_900, "1e308", "1e309", "-1e309", "1e999999", "1e-999999", "1e" + "9" * 3_000, "0." + "0" * 3_000),
    *("NaN", "Infinity", "-inf", "²", "١٢", "½", "Ⅷ", "０", "1L", "1d", "1.5f", "1,5", "1 000", "1%", "$1", "#1"),
    *("1..2", "1.2.3", "--1", "- 1", "-(1)", "+(-1)", "~1", "!1", "1e٣", "9223372036854775808", "-9223372036854775809"),
]
TEXTS = [
    *("''", "'x'", "'it''s'", "'", "'unclosed", '"x"', "`x`", "[x]", "'%'", "'_%'", "'%%%%%%%%%%%%%%%%%%%%b'"),
    *("'\x00'", "'\u202e'", "'🙂'", "'\udcff'", "'\\'", "'a\nb'", "'" + "a%" * 1_900 + "'", "x'41'", "X''", "x'4'"),
    *("b'1'", "n'x'", "e'\\n'", "r'x'", "U&'\\0041'", "$$x$$", "q'[x]'", "'a' 'b'", "'a' || 'b'", "'''", "''''"),
]
OTHERS = [
    *("null", "true", "false", "not null", "current_timestamp", "?", "?1", ":x", "@x", "$x", "%s", "{x}", "{{x}}"),
    *("*", "()", "(1)", "((1))", "(1, 2)", "('a', 'b')", "(1e, 2)", "(1, 'a')", "(null)", "(path)", "(select 1)"),
    *("(select path from files)", "exists (select 1)", "case when 1 then 1 end", "cast(1 as text)", "length('x')"),
    *("load_extension('x')", "randomblob(1000000000)", "zeroblob(1000000000)", "date '2020-01-01'", "date('now')"),
    *("interval '1' day", "array[1]", "[1, 2]", "{'a': 1}", "x -> 1", "x ->> '$'", "1::int", "row(1, 2)", "count(*)"),
    *("sum(1) over ()", "raise(abort, 'x')", "1 and 2", "distinct 1", "all (select 1)", "any (1)", "lambda x: x"),
    *("/* c */ 1", "1 -- c", "1;", ";", "; drop table files", "@@version", "#t", "default", "values (1)", "unnest(x)"),
    *("1 as x", "1 x", "'a' escape 'b'", "'a' collate nocase", "1 and 2", "low and high", "'a' and 'b'", "1e and 2e"),
    *("", " ", "\x00", "\ufeff", "\u3000", "\\", "\r\n", "order by 1", "limit 1", "union select 1", "into x", "with x"),
]
ATOMS = [*NUMBERS, *TEXTS, *OTHERS, "path", "source", "width"]
OPERATORS = [
    *("=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>", "is", "is not", "is distinct from", "is not distinct from"),
    *("isnull", "notnull", "like", "not like", "ilike", "glob", "regexp", "match", "rlike", "similar to", "in"),
    *("not in", "between", "not between", "between symmetric", "||", "+", "-", "*", "/", "%", "&", "|", "^", "<<"),
    *(">>", "->", "->>", "::", "@>", "<@", "~", "~*", "!~", "div", "and", "or", "xor", "collate", "escape", ":="),
    *("=>", ",", ".", ";", "\n=\n", "overlaps", "union select", "="),
]
TOKENS = [
    *("path", "source", "width", "(", ")", "=", "<", "like", "in", "between", "and", "or", "not", "is"),
    *("null", "1", "1e", "0xFF", "'a'", "'", '"', "-", "+", "*", ",", ".", ";", "--", "/*", "select", "case", "end"),
    *("cast", "[", "]", "{", "}", "::", "?", ":a", "$", "%", "||", "\\", "\x00", "½"),
]
WRAPPERS = [
    ("(", ")"),
    ("not ", ""),
    ("not (", ")"),
    ("-", ""),
    ("((", ")"),
    ("case when ", " end"),
    ("[", "]"),
    ("{", "}"),
]
WRAPPERS += [
    ("source = (", ")"),
    ("cast(", " as text)"),
    ("f(", ")"),
    ("select ", ""),
    ("exists (", ")"),
    ("path in (", ")"),
]
CHAINS = [" and ", " or ", " = ", ", ", " + ", " || ", " like ", " -- ", "\n", ";", " is ", " not ", "::", ".", "->"]
DEPTHS = [1, 2, 3, 5, 10, 30, 100, 199, 200, 201, 300, 500, 1_000, 2_000]


@dataclass
class Verdicts:
    """How many filters were answered, how many refused with a sentence, and what else happened."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


def main() -> int:
    """Print the counts; 1 where there is a fault."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--random", type=int, default=40_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--share", type=float, default=1.0, help="Of the systematic ones.")
    arguments.add_argument("--json", action="store_true")
    asked = arguments.parse_args()
    found = attack(filters(asked.random, asked.seed, asked.share))
    answer = {**found.counts, "filters": found.counts.total(), "faults": found.faults, "slowest_s": found.slowest_s}
    if asked.json:
        print(json.dumps(answer))
    else:
        counts = ", ".join(f"{found.counts[verdict]:,} {verdict}" for verdict in ("answered", "refused", "fault"))
        print(f"{found.counts.total():,} filters: {counts}; the slowest took {found.slowest_s:.2f} s")
        print("\n".join(found.faults[:40]))
    return int(bool(found.faults))


def filters(random_ones: int, seed: int, share: float = 1.0) -> Iterator[str]:
    """A share of the systematic ones, drawn with the seed, and so many random ones."""
    generator = random.Random(seed)
    yield from (text for text in systematic() if share >= 1.0 or generator.random() < share)
    yield from (drawn(generator) for _ in range(random_ones))


def systematic() -> Iterator[str]:
    """Every operator with every operand, names with every operator, triples of tokens, nests and chains."""
    few = ["path", "duration_s", "source", "metadata.name"]
    for name, operator, atom in itertools.product(few, OPERATORS, ATOMS):
        yield f"{name} {operator} {atom}"
    for name, operator, atom in itertools.product(
        [*NAMES, *STRANGE_NAMES], OPERATORS, ["1", "'a'", "(1, 2)", "1 and 2"]
    ):
        yield f"{name} {operator} {atom}"
    for one, operator, other in itertools.product(
        ATOMS, ["=", "like", "between 1 and", "in"], ["path", "1", "'a'", "1e"]
    ):
        yield f"{one} {operator} {other}"
    for name, low, high in itertools.product(["duration_s", "source"], NUMBERS, NUMBERS):
        yield f"{name} between {low} and {high}"
    for tokens in itertools.product(TOKENS, repeat=3):
        yield " ".join(tokens)
    for (left, right), depth, core in itertools.product(WRAPPERS, DEPTHS, ["width = 1", "1", ""]):
        yield left * depth + core + right * depth
        yield left * depth + core
    for link, depth, atom in itertools.product([" and (", " or (", " and not ("], DEPTHS, ["width = 1", "codec = 'a'"]):
        yield link.join([atom] * depth) + ")" * (depth - 1)
    for depth, atom in itertools.product(DEPTHS, ["width = 1", "codec = 'a'", "path like 'a'", "year > 1"]):
        yield "(" * depth + f"{atom}) and {atom}) or {atom}".join([""] * depth)
        yield atom + "".join(f" {'and' if level % 2 else 'or'} ({atom}" for level in range(depth)) + ")" * depth
    for link, depth, atom in itertools.product(CHAINS, DEPTHS, ["width = 1", "path", "1", "'a'", "1e"]):
        yield link.join([atom] * depth)
    for letter in map(chr, [*range(0x180), *range(0x2000, 0x2070), 0xD800, 0xDFFF, 0xFEFF, 0xFFFF, 0x1F600, 0x10FFFF]):
        yield from (letter, f"width = {letter}", f"width = 1{letter}", f"path{letter} = 'a'", f"path = '{letter}'")


def drawn(generator: random.Random) -> str:
    """A random filter: a soup of tokens, of letters, or a good one with some letters changed."""
    kind = generator.randrange(3)
    if kind == 0:
        words = [generator.choice([*TOKENS, *ATOMS, *OPERATORS, *NAMES]) for _ in range(generator.randint(1, 12))]
        return generator.choice([" ", ""]).join(words)
    if kind == 1:
        letters = "'\"()=<>-;/*?%.,[]{}:$@# \t\n0123456789eExXabpathsource_\\\x00é²"
        return "".join(generator.choice(letters) for _ in range(generator.randint(1, 80)))
    text = list("(source = 'camera' or year >= 0x7E3) and not duration_s between 1.5e1 and 60 and path like 'a%'")
    for _ in range(generator.randint(1, 6)):
        place = generator.randrange(len(text))
        text[place : place + generator.randint(0, 2)] = generator.choice(
            ["", "'", "e", "0", "(", ")", "x", "-", "\x00", "٣"]
        )
    return "".join(text)


def attack(texts: Iterable[str]) -> Verdicts:
    """Put each filter to a small library, as the command line and as the API do, and say how it was answered."""
    found, connection = Verdicts(), small_catalog()
    for text in texts:
        began = time.process_time()
        verdict = answered(connection, text)
        took_s = time.process_time() - began
        found.slowest_s = max(found.slowest_s, took_s)
        if took_s > SLOWEST_S:
            verdict = f"took {took_s:.1f} s"
        kind = verdict if verdict in {"answered", "refused"} else "fault"
        found.counts[kind] += 1
        if kind == "fault":
            found.faults.append(f"{verdict}: {text[:80]!r} ({len(text)} characters)")
    return found


def answered(connection: sqlite3.Connection, text: str) -> str:
    """`answered`, `refused`, or what else happened."""
    verdicts = set()
    for relative in (False, True):
        try:
            condition = read_filter(connection, text, relative_paths=relative)
            with watched(connection):
                found = passing(connection, "files.clip_id", condition)
            same = relative or sorted(found) == sorted(expected(connection, text, found))
            verdicts.add("answered" if same else "other clips")
        except UsageError as error:
            verdicts.add("refused" if is_sentence(str(error)) else f"no sentence: {str(error)[:200]!r}")
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
    return (
        verdicts.pop() if len(verdicts) == 1 else f"it is one thing for us and another for others: {sorted(verdicts)}"
    )


def expected(connection: sqlite3.Connection, text: str, otherwise: list[tuple[str]]) -> list[tuple[str]]:
    """What SQLite finds by the text itself; `otherwise` where it has a mind of its own about it."""
    if OF_METADATA.search(text):
        return otherwise
    try:
        return connection.execute(f"SELECT clip_id FROM flat WHERE {text}").fetchall()
    except sqlite3.Error:
        return otherwise


def is_sentence(told: str) -> bool:
    """Whether a person can read it, in a line of bounded length."""
    return told[:1].isupper() and told.endswith((".", ".)")) and len(told) <= LONGEST_SENTENCE and "\n" not in told


def small_catalog() -> sqlite3.Connection:
    """Clips with metadata, and the view `flat` of their columns."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(connection)
    connection.execute("INSERT INTO roots VALUES ('/home/someone/videos')")
    for number, name in enumerate(("a.mp4", "%_'.mp4", "x.mp4", "1.mp4")):
        connection.execute(
            "INSERT INTO clips VALUES (?, 'mp4', 'h264', ?, 360, ?, 25, 1, ?, '[]', '')",
            (str(number), 640 * number, None if number == 2 else 10.0 * number, number % 2),
        )
        connection.execute(
            "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, metadata)"
            " VALUES (?, ?, '/home/someone/videos', 1, 1, 1, 'indexed', ?, ?)",
            (f"/home/someone/videos/{name}", name, str(number), dump_metadata(METADATA if number else {})),
        )
    columns = ", ".join(f"{sql} AS {name}" for name, (sql, *_) in COLUMNS.items())
    connection.execute(f"CREATE TEMP VIEW flat AS SELECT {columns}, clip_id FROM files JOIN clips USING (clip_id)")
    return connection


@contextlib.contextmanager
def watched(connection: sqlite3.Connection) -> Iterator[None]:
    """Statements inside read the tables that filters are about and call the functions that they need, no others."""

    def allowed(action: int, one: str | None, other: str | None, *_: str | None) -> int:
        reads = action == sqlite3.SQLITE_READ and one in READABLE
        calls = action == sqlite3.SQLITE_FUNCTION and other in FUNCTIONS
        return sqlite3.SQLITE_OK if reads or calls or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY

    connection.set_authorizer(allowed)
    try:
        yield
    finally:
        connection.set_authorizer(None)


if __name__ == "__main__":
    sys.exit(main())
