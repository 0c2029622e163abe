"""Generate a Python client of the REST API from docs/api/openapi.json: python -m scripts.python_client FOLDER.

The client is a project of its own, which `pip install FOLDER` installs; it needs httpx and attrs, and no evenreel.
The generator (openapi-python-client) lives in `.venv/client`, which `make client` makes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts.openapi_file import FILE

CONFIG = Path(__file__).with_name("config.yaml")
ENVIRONMENT = Path(sys.prefix) / "client" / ("Scripts" if sys.platform == "win32" else "bin")


def generate(folder: Path) -> None:
    """Generate the client into a folder, whatever was in it before; what cannot be generated is a failure."""
    command = [str(ENVIRONMENT / "openapi-python-client"), "generate", "--fail-on-warning", "--overwrite"]
    options = ["--meta", "setup", "--path", str(FILE), "--config", str(CONFIG), "--output-path", str(folder)]
    subprocess.run([*command, *options], check=True)


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
