"""Addresses of adding folders against their own document: what schemathesis makes up finds no server error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from schemathesis import GenerationMode
from starlette.testclient import TestClient

from evenreel.server.adding import Adder, Indexing
from tests.server.conftest import NewHome
from tests.server.test_schema import AT_THE_MACHINE, ask


@pytest.fixture
def here(new_home: NewHome) -> Iterator[TestClient]:
    """A visitor at the machine of a server that starts nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Adder, "start", lambda *_: Indexing(state="running", sentence="Not in a test."))
        with new_home.visitor() as visitor:
            yield visitor


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_it_answers_as_documented(here: TestClient, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(here.get("/api/v1/openapi.json").json())
    for path in AT_THE_MACHINE:
        asked = [
            one
            for one in schema[path].values()
            if mode == GenerationMode.POSITIVE
            or one.definition.raw.get("requestBody")
            or one.definition.raw.get("parameters")
        ]
        ask(here, asked, mode, None)
