"""Write the README's table of matchers from the one of docs/matchers.md: python scripts/readme_matchers.py."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
README, PAGE = REPOSITORY / "README.md", REPOSITORY / "docs" / "matchers.md"
HEAD = "| matcher | from | looks at |\n|---|---|---|\n"


def with_matchers(readme: str, page: str) -> str:
    """Return the README with a row for each row of the page's first table, without links and what a matcher learns."""
    rows = re.findall(r"^\| (`\w+`) \| ([^|,(]+)[^|]* \| ([^|]+) \|", page.split("\n## ", maxsplit=1)[0], re.MULTILINE)
    before, after = readme.split(HEAD)
    table = "".join(f"| {name} | {source.strip()} | {looks} |\n" for name, source, looks in rows)
    return before + HEAD + table + after[after.index("\n\n") + 1 :]


if __name__ == "__main__":
    README.write_text(with_matchers(README.read_text("utf-8"), PAGE.read_text("utf-8")), "utf-8")
