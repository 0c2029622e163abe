"""The description of the API that is checked in is that of the API."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest

from scripts.openapi_file import FILE, document


@pytest.mark.skipif(sys.version_info < (3, 11), reason="constraints.txt pins what writes it from Python 3.11 on")
def test_the_file_is_what_the_server_says_of_itself() -> None:
    assert FILE.read_text("utf-8") == document(), "run make openapi"


def test_every_address_has_a_name_of_its_own_for_generated_clients() -> None:
    paths = json.loads(FILE.read_text("utf-8"))["paths"]
    names = Counter(method["operationId"] for path in paths.values() for method in path.values())
    assert set(names.values()) == {1}
    assert {"search", "clip", "browse", "transcripts"} <= set(names)
