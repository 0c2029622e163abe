"""The API against its own OpenAPI document: what schemathesis generates, and the file that is checked in."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from evenreel.library.store.catalog import lay_down
from evenreel.server.adding import Adder, Indexing, Retry
from scripts.openapi_file import FILE, document
from tests.server.conftest import Served

Operation = APIOperation[Any, Any, Any, Any]
EXAMPLES = min(25, settings().max_examples // 2)
PLAIN = ("/api/v1/stats", "/api/v1/examples", "/api/v1/health", "/api/v1/retry", "/api/v1/marks")
ASKED = (
    *("/api/v1/browse", "/api/v1/search", "/api/v1/search/image", "/api/v1/files", "/api/v1/highlights"),
    *("/api/v1/saved", "/api/v1/saved/news", "/api/v1/saved/seen", "/api/v1/export", "/api/v1/people/still"),
    *("/api/v1/folders", "/api/v1/indexing"),
)
OF_A_CLIP = (
    "/api/v1/clips/{clip_id}",
    *(
        f"/api/v1/clips/{{clip_id}}/{part}"
        for part in ("similar", "transcripts", "media", "still", "preview", "folder", "mark")
    ),
)


@contextmanager
def nowhere(_: object) -> Iterator[sqlite3.Connection]:
    """Tables of a person's own that nobody reads."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        lay_down(connection)
        yield connection


@pytest.fixture(scope="module")
def api(client: TestClient, served: Served) -> Iterator[schemathesis.BaseSchema]:
    """The document of a server whose disk nobody looks through, and that keeps nothing of what it is told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenreel.library.personal.changing", nowhere)
        patch.setenv("HOME", str(served.videos))
        patch.setattr(Adder, "start", lambda *_: Indexing(state="running", sentence="Not in a test."))
        patch.setattr(Adder, "retry", lambda *_: Retry(state="running", sentence="Not in a test."))
        yield schemathesis.openapi.from_dict(client.get("/api/v1/openapi.json").json())


def ask(client: TestClient, operations: Iterable[Operation], mode: GenerationMode, clip_id: str | None) -> None:
    """Generated requests to one address; where a clip's id is given, it stands for the generated one."""
    for operation in operations:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        def answered(case: schemathesis.Case[Any]) -> None:
            if clip_id is not None:
                case.path_parameters["clip_id"] = clip_id
            request = case.as_transport_kwargs(base_url=str(client.base_url))
            request["content"] = request.pop("data", None)
            try:
                answer = client.request(**request)
            except httpx2.InvalidURL:  # an address that is too long for the client to send: another one is made
                reject()
            # A filter that fits the schema is still refused where it is no sentence of the filter language.
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])

        answered()


def test_every_address_is_asked(api: schemathesis.BaseSchema) -> None:
    assert set(api) == set(PLAIN + ASKED + OF_A_CLIP)


@pytest.mark.parametrize("path", PLAIN + ASKED + OF_A_CLIP)
def test_what_fits_the_document_is_answered_as_documented(
    client: TestClient, api: schemathesis.BaseSchema, path: str
) -> None:
    ask(client, api[path].values(), GenerationMode.POSITIVE, None)


@pytest.mark.parametrize("path", ASKED + OF_A_CLIP)
def test_what_does_not_fit_it_is_refused(client: TestClient, api: schemathesis.BaseSchema, path: str) -> None:
    taking = [one for one in api[path].values() if {"parameters", "requestBody"} & one.definition.raw.keys()]
    ask(client, taking, GenerationMode.NEGATIVE, None)


@pytest.mark.parametrize("path", OF_A_CLIP)
def test_a_clip_that_is_there(client: TestClient, api: schemathesis.BaseSchema, path: str) -> None:
    files = client.get("/api/v1/files", params={"text": "star"}).json()["files"]
    ask(client, api[path].values(), GenerationMode.POSITIVE, files[0]["clip_id"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="constraints.txt pins what writes it from Python 3.11 on")
def test_the_file_is_what_the_server_says_of_itself() -> None:
    assert FILE.read_text("utf-8") == document(), "run make openapi"


def test_every_address_is_told_and_has_a_name_of_its_own_for_generated_clients() -> None:
    methods = [method for path in json.loads(FILE.read_text("utf-8"))["paths"].values() for method in path.values()]
    assert all(method["summary"] for method in methods)
    names = Counter(method["operationId"] for method in methods)
    assert set(names.values()) == {1}
    assert {"search", "clip", "browse", "transcripts"} <= set(names)


NAMED = """source "source" duration_s has_text name nothing 'camera' 'it''s' '%' 1e999 -1 = != < >= in like not and or
is null true nan 0x10 ( ) , ; -- /* \\ ' """
WORDS = st.sampled_from([*NAMED.split(), "\x00", "\ud800"])


@given(parts=st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=12), quoted=st.booleans())
@settings(max_examples=20, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_filter_is_applied_or_refused_in_a_sentence(client: TestClient, parts: list[str], quoted: bool) -> None:
    where = " ".join(parts).encode("utf-8", "replace").decode()
    asked = {"q": "a star", "where": f"source = '{where}'" if quoted else where}
    answer = client.get("/api/v1/search", params=asked)
    assert answer.status_code in {200, 400, 422}
    if answer.status_code != 200:
        assert answer.json()["detail"].strip()
