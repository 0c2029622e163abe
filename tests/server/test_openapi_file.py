"""The description of the API that is checked in is that of the API."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evenreel.cli.serve import _say
from scripts.openapi_file import FILE, document


@pytest.mark.skipif(sys.version_info < (3, 11), reason="constraints.txt pins what writes it from Python 3.11 on")
def test_the_file_is_what_the_server_says_of_itself() -> None:
    assert FILE.read_text("utf-8") == document(), "run make openapi"


def test_every_address_is_told_and_has_a_name_of_its_own_for_generated_clients() -> None:
    methods = [method for path in json.loads(FILE.read_text("utf-8"))["paths"].values() for method in path.values()]
    assert all(method["summary"] for method in methods)
    names = Counter(method["operationId"] for method in methods)
    assert set(names.values()) == {1}
    assert {"search", "clip", "browse", "transcripts"} <= set(names)


def test_the_command_names_the_address_of_the_description(
    client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    _say(Path("library"), "http://127.0.0.1:8765/", guarded=False)
    found = re.search(r"API: (\S+)\)", "".join(capsys.readouterr().out.splitlines()))
    assert found
    assert client.get(found[1]).json() == client.get("/api/v1/openapi.json").json()
