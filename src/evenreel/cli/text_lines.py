"""Text files that a person wrote for a command: captions, phrases or sentences, one a line."""

from __future__ import annotations

from pathlib import Path

from evenreel.documents import parse_json
from evenreel.errors import UsageError

LOGS = (".jsonl", ".ndjson")
"""How the names of search logs end."""
TABLES = (".json", ".csv", ".tsv")
"""How the names of files end whose lines are no queries."""


def lines_of(path: Path, what: str) -> list[str]:
    """Read the lines of a text file, without spaces around them, empty ones, and those that begin with `#`.

    Args:
        path: file to read.
        what: noun for what a line holds, for errors.

    Raises:
        UsageError: it cannot be read, is no UTF-8 text, or holds none.
    """
    try:
        words = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({(error.strerror or str(error)).lower()}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text (byte {error.start}); save it as UTF-8, a {what} a line.") from error
    stripped = [line.strip() for line in words.split("\n")]  # other marks of a line's end can stand in a JSON string
    if lines := [line for line in stripped if line and not line.startswith("#")]:
        return lines
    raise UsageError(f"{path} holds no {what}; write one a line.")


def queries_of(path: Path) -> list[str]:
    """Read queries: one a line, or a search log (`LOGS`) whose lines have a field `query`; empty ones are left out.

    Raises:
        UsageError: it cannot be read, is a table, holds none, or a line of a log has no query.
    """
    if path.suffix.lower() in TABLES:
        raise UsageError(
            f"{path} is a {path.suffix[1:].upper()} file, whose lines are no queries; write a query a line (.txt), or "
            "a search log of JSON lines with a field 'query' (.jsonl)."
        )
    lines = lines_of(path, "query")
    if path.suffix.lower() not in LOGS:
        return lines
    if queries := [query for line in lines if (query := _logged(line, path).strip())]:
        return queries
    raise UsageError(f"{path} holds no query: all of its {len(lines):,} fields 'query' are empty.")


def _logged(line: str, path: Path) -> str:
    try:
        found = parse_json(line)
    except ValueError as error:
        raise UsageError(f"{path} is no search log: {line[:60]!r} is no JSON; write an object a line.") from error
    query = found.get("query") if isinstance(found, dict) else None
    if not isinstance(query, str):
        raise UsageError(f"{path} is no search log: {line[:60]!r} has no text in a field 'query'.")
    return query
