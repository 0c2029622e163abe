"""The Python client that is generated from the description of the API asks a real server."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from evenreel.library import open_library
from scripts.python_client.__main__ import ENVIRONMENT, generate
from tests.cli.test_serve import TOKEN, running, wait_for
from tests.conftest import REPOSITORY
from tests.server.conftest import Served, rendered, served

__all__ = ["rendered", "served"]

pytestmark = pytest.mark.skipif(
    not ENVIRONMENT.is_dir(), reason=f"the generator is not in {ENVIRONMENT} (make test puts it there, Python 3.11)"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the generated client."""
    folder = tmp_path_factory.mktemp("generated") / "client"
    generate(folder)
    return folder


def run(client: Path, code: str, address: str) -> subprocess.CompletedProcess[str]:
    """Run a program where there is the client and no evenreel."""
    environment = {**os.environ, "PYTHONPATH": str(client), "EVENREEL_ADDRESS": address, "EVENREEL_TOKEN": TOKEN}
    command = [str(ENVIRONMENT / "python"), "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def example() -> str:
    """The program of the page on assistants and programs."""
    (code,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "programs.md").read_text("utf-8"), re.DOTALL)
    return str(code)


def test_the_example_of_the_page_gets_the_answers_of_the_library(client: Path, served: Served) -> None:
    with running(served.library, token=TOKEN) as (_, port):
        wait_for(port, "/api/v1/health", "model", {"ready"})
        done = run(client, example(), f"http://127.0.0.1:{port}")
    assert done.returncode == 0, done.stderr
    hit, page, refusal = done.stdout.splitlines()
    with open_library(served.library) as library:
        (best,) = library.search("a red star on a beach", k=3).hits[:1]
        listed = [Path(clip.path).name for clip in library.browse("duration_s > 3.5", limit=2).clips]
    assert hit.startswith(f"star.mp4 {best.moments[0].time_s} ['HARBOUR'] [] ")
    assert int(hit.split()[-1]) > 1_000  # bytes of a picture
    assert page == f"3 {listed}"
    assert refusal.startswith("The filter 'nonsense =' cannot be read; ")
