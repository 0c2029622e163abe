"""Favourites at a real server of several processes with a token: who may write, and that each sees what any wrote."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
from pathlib import Path

import pytest

from evenreel.library import open_library, verify
from tests.cli.test_serve import TOKEN, running
from tests.server.conftest import PATIENCE_S, Served, rendered, served

__all__ = ["rendered", "served"]

pytestmark = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="connections cannot be handed on here")
KNOWN = {"authorization": f"Bearer {TOKEN}"}


class Visitor:
    """A connection of its own, which one worker keeps."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, said: object = None, **headers: str) -> tuple[int, object]:
        body = None if said is None else json.dumps(said)
        self.connection.request(method, f"/api/v1{path}", body, {"content-type": "application/json", **headers})
        answer = self.connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None


def test_only_who_has_the_token_writes_and_each_worker_sees_it(served: Served, tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(served.library, library)
    with open_library(library, vision=False) as reader:
        clips = [file.clip_id for file in reader.files("indexed").files]
    with running(library, "--workers", "2", "--no-vision", token=TOKEN) as (_, port), contextlib.ExitStack() as opened:
        visitors = [Visitor(port) for _ in range(4)]
        for visitor in visitors:
            opened.callback(visitor.connection.close)
        assert visitors[0].ask("POST", f"/clips/{clips[0]}/mark", {"favourite": True})[0] == 401
        assert visitors[0].ask("GET", "/marks")[0] == 401
        assert visitors[0].ask("GET", "/marks", **KNOWN) == (200, [])
        for number, (visitor, clip_id) in enumerate(zip(visitors, clips, strict=True)):
            said = {"favourite": True, "note": f"note {number}"}
            assert visitor.ask("POST", f"/clips/{clip_id}/mark", said, **KNOWN)[0] == 200
            for other in visitors:
                status, marks = other.ask("GET", "/marks", **KNOWN)
                assert status == 200 and isinstance(marks, list)
                assert [mark["note"] for mark in marks] == [f"note {before}" for before in range(number + 1)]
                status, found = other.ask("GET", "/search?q=harbour&where=favourite&fold=false", **KNOWN)
                assert status == 200 and isinstance(found, dict)
                assert {hit["clip_id"] for hit in found["hits"]} == set(clips[: number + 1])
        assert visitors[1].ask("DELETE", f"/clips/{clips[0]}/mark")[0] == 401
        assert visitors[1].ask("DELETE", f"/clips/{clips[0]}/mark", **KNOWN)[0] == 204
    with open_library(library, vision=False) as reader:
        assert len(reader.personal.marks()) == 3
    assert verify(library) == []
