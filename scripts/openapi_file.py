"""Write docs/api/openapi.json, the description of the REST API that is checked in: python scripts/openapi_file.py."""

from __future__ import annotations

import json
from pathlib import Path

from evenreel.server import make_app

FILE = Path(__file__).parents[1] / "docs" / "api" / "openapi.json"


def document() -> str:
    """Return the description of the REST API as the file has it, two spaces a level and a line at the end."""
    return json.dumps(make_app(Path("library")).openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(document(), "utf-8")
