"""Export of stretches, and files of clips in the file manager."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import urllib.parse
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import av
import httpx2
import opentimelineio as otio
import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from evenreel.errors import UsageError
from evenreel.server import ServeSettings, exports, make_app
from evenreel.server.app import BODY_BYTES
from evenreel.server.media import CHUNK_BYTES, OpenedFile, SentAs
from tests.server.conftest import Served

NOBODY = "0" * 32


@pytest.fixture(scope="module")
def ids(client: TestClient) -> dict[str, str]:
    files = client.get("/api/v1/files", params={"state": "indexed"}).json()["files"]
    return {file["name"]: file["clip_id"] for file in files}


def ask(client: TestClient, form: str, *stretches: tuple[str, float, float | None], **more: Any) -> httpx2.Response:
    named = [{"clip_id": clip_id, "start_s": start_s, "end_s": end_s} for clip_id, start_s, end_s in stretches]
    return client.post("/api/v1/export", json={"form": form, "stretches": named, **more})


def notes_of(answer: httpx2.Response) -> list[str]:
    found: list[str] = json.loads(urllib.parse.unquote(answer.headers.get("evenreel-notes", "[]")))
    return found


def length_s(content: bytes) -> float:
    with closing(av.open(io.BytesIO(content))) as container:
        return float(sum(1 for _ in container.decode(video=0)) / container.streams.video[0].average_rate)


def test_a_cut_is_sent_to_be_saved(client: TestClient, ids: dict[str, str]) -> None:
    answer = ask(client, "clip", (ids["star.mp4"], 1.0, 2.0), exact=True)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "video/mp4"
    assert answer.headers["content-disposition"] == (
        "attachment; filename*=utf-8''star%2000.00.01.000-00.00.02.000.mp4"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert length_s(answer.content) == pytest.approx(1.0)
    whole = ask(client, "clip", (ids["star.mp4"], 0.0, None))
    assert length_s(whole.content) == pytest.approx(3.0)


def test_several_files_come_as_one_and_what_is_left_out_is_told(client: TestClient, ids: dict[str, str]) -> None:
    wanted = [(ids["star.mp4"], 1.0, 2.0), (ids["circle <b>.mp4"], 2.0, 3.0), (NOBODY, 0.0, 1.0)]
    wanted += [(ids["star.mp4"], 50.0, 60.0), (ids["star.mp4"], 1.0, 1.0)]
    answer = ask(client, "clip", *wanted, title="a/b ☃")
    assert answer.headers["content-type"] == "application/zip"
    assert urllib.parse.quote("a_b ☃.zip") in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        names = archive.namelist()
        told = archive.read("notes.txt").decode()
    assert names == ["star 00.00.01.000-00.00.02.000.mp4", "circle _b_ 00.00.02.000-00.00.03.000.mp4", "notes.txt"]
    for sentence in ("has no clip", "is outside of the clip, which is 3.00 s long", "from 1 to 1 s is empty"):
        assert sentence in told
        assert any(sentence in one for one in notes_of(answer))


def test_lists_name_files_from_the_indexed_folder_on(client: TestClient, ids: dict[str, str], served: Served) -> None:
    stretches = ((ids["star.mp4"], 1.0, 2.0), (ids["heart.mp4"], 0.5, 2.5))
    for form, suffix in (*((one, one) for one in ("edl", "fcpxml", "otio", "csv", "json")), ("xmeml", "xml")):
        answer = ask(client, form, *stretches, title="trams")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-disposition"] == f'attachment; filename="trams.{suffix}"'
        assert str(served.videos.parent) not in answer.text
        assert "star.mp4" in answer.text
    assert list(served.settings.cache.glob("export-*")) == []  # nothing of what was made stays
    clips = otio.adapters.read_from_string(ask(client, "otio", *stretches).text, "otio_json").video_tracks()[0]
    fps = clips[0].source_range.duration.rate
    assert [clip.source_range.duration.value / fps for clip in clips] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("wanted", "status", "sentence"),
    [
        ({"form": "gif"}, 422, "form: input should be 'clip', "),
        ({"stretches": []}, 422, "stretches: list should have at least 1 item"),
        ({"stretches": [{"clip_id": "../x", "start_s": 0}]}, 422, "string should match pattern"),
        ({"stretches": [{"clip_id": NOBODY, "start_s": -1}]}, 422, "greater than or equal to 0"),
        ({"stretches": [{"clip_id": NOBODY, "start_s": 0}] * 201}, 422, "at most 200 items"),
        ({"stretches": [{"clip_id": NOBODY, "start_s": 0}]}, 404, "The library has no clip"),
        ({"title": "x" * 201}, 422, "at most 200 characters"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(
    client: TestClient, ids: dict[str, str], wanted: dict[str, Any], status: int, sentence: str
) -> None:
    usual = {"form": "clip", "stretches": [{"clip_id": ids["star.mp4"], "start_s": 0, "end_s": 1}]}
    answer = client.post("/api/v1/export", json=usual | wanted)
    assert (answer.status_code, sentence in answer.json()["detail"]) == (status, True), answer.text


def test_more_than_the_limits_is_refused(
    client: TestClient, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [(ids["star.mp4"], 0.0, 3.0)] * 4
    monkeypatch.setattr(exports, "MOST_COPIED_S", 10.0)
    answer = ask(client, "clip", *wanted)
    assert (answer.status_code, "12 s long; at most 10 s are exported" in answer.json()["detail"]) == (400, True)
    assert ask(client, "csv", *wanted).status_code == 200
    monkeypatch.setattr(exports, "MOST_COPIED_S", 3_600.0)
    monkeypatch.setattr(exports, "MOST_BYTES", 10)
    assert "are exported at a time" in ask(client, "clip", *wanted).json()["detail"]
    body = b'{"form": "csv", "stretches": [' + b" " * BODY_BYTES + b"]}"
    large = client.post("/api/v1/export", content=body, headers={"content-type": "application/json"})
    assert (large.status_code, "at most 256 KiB" in large.json()["detail"]) == (413, True)


def test_nothing_is_made_for_a_visitor_who_has_gone(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "LOOKED_AFTER_S", 0.01)
    api: Any = exports.Exports(None, None, served.settings)  # type: ignore[arg-type]
    api.start()
    closed, begun = Event(), Event()
    api._worker = worker = SimpleNamespace(close=closed.set)  # at work until it is closed

    async def gone() -> bool:
        return True

    async def leave_both() -> None:
        visitor = SimpleNamespace(is_disconnected=gone)
        under_way, queued = api._pool.submit(closed.wait), api._pool.submit(begun.set)
        assert await api._while_there(queued, visitor) is None
        assert (queued.cancelled(), closed.is_set()) == (True, False)
        assert await api._while_there(under_way, visitor) is None
        assert closed.is_set() and not begun.is_set()

    asyncio.run(leave_both())
    assert api._worker is not worker
    api.close()


def test_a_visitor_who_takes_nothing_of_a_file_is_hung_up_on(tmp_path: Path) -> None:
    path, ended = tmp_path / "cut.mp4", list[bool]()
    path.write_bytes(b"x" * (3 * CHUNK_BYTES))
    sent = list[int]()

    async def take_one(message: Message) -> None:
        if message["type"] == "http.response.body":
            if sent:
                await asyncio.Event().wait()
            sent.append(len(message["body"]))

    async def receive() -> Message:
        raise AssertionError("whether the visitor is there is told by what it takes")

    with ThreadPoolExecutor(1) as readers:
        sent_as = SentAs("video/mp4", "cut.mp4", "a", to_save=True, patience_s=1.0)
        answer = OpenedFile(os.open(path, os.O_RDONLY), sent_as, readers, lambda: ended.append(True))
        scope = {"type": "http", "method": "GET", "headers": [], "asgi": {"spec_version": "2.4"}}
        asyncio.run(answer(scope, receive, take_one))
    assert (sent, ended) == ([CHUNK_BYTES], [True])


def test_too_many_at_a_time_are_told_to_come_back(
    client: TestClient, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "SENDING", 1)
    assert [ask(client, "csv", (ids["star.mp4"], 0.0, 1.0)).status_code for _ in range(3)] == [200] * 3
    for limit in ("SENDING", "WAITING"):
        with monkeypatch.context() as patch:
            patch.setattr(exports, limit, 0)
            answer = ask(client, "csv", (ids["star.mp4"], 0.0, 1.0))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_a_cache_that_cannot_be_written_is_one_sentence(served: Served, tmp_path: Path, ids: dict[str, str]) -> None:
    (tmp_path / "file").write_text("")
    app = make_app(served.library, replace(served.settings, cache=tmp_path / "file"))
    with TestClient(app, base_url="http://127.0.0.1:8765") as visitor:
        answer = ask(visitor, "csv", (ids["star.mp4"], 0.0, 1.0))
    assert answer.status_code == 503
    assert "The server cannot read or write a file" in answer.json()["detail"]


HERE, ELSEWHERE = ("127.0.0.1", 50_000), ("192.0.2.7", 50_000)


def visitor(served: Served, address: tuple[str, int], *, open_folders: bool) -> TestClient:
    settings = replace(served.settings, open_folders=open_folders, vision=False)
    return TestClient(make_app(served.library, settings), base_url="http://127.0.0.1:8765", client=address)


@pytest.fixture(scope="module")
def here(served: Served) -> Iterator[TestClient]:
    """Whoever sits at the machine of a server that opens folders."""
    with visitor(served, HERE, open_folders=True) as client:
        yield client


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The programs that were started, none of which is."""
    commands: list[list[str]] = []
    monkeypatch.setattr(exports.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    return commands


def folder_of(client: TestClient, name: str) -> str:
    """Address of the folder of a clip."""
    (file,) = client.get("/api/v1/files", params={"text": name}).json()["files"]
    return f"/api/v1/clips/{file['clip_id']}/folder"


@pytest.mark.parametrize(
    ("platform", "command"),
    [
        ("linux", ["/usr/bin/xdg-open", "{folder}"]),
        ("darwin", ["/usr/bin/open", "-R", "{path}"]),
        ("win32", ["/usr/bin/explorer", "/select,{path}"]),
    ],
)
def test_the_file_is_shown_by_the_program_of_the_system(
    here: TestClient,
    served: Served,
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    command: list[str],
) -> None:
    address, path = folder_of(here, "star"), str(served.videos / "star.mp4")
    monkeypatch.setattr(exports.sys, "platform", platform)
    assert here.get(address).json() == {"path": path}
    assert started == []  # a path that is read opens nothing
    assert here.post(address).json() == {"path": path}
    assert started == [[part.format(folder=os.path.dirname(path), path=path) for part in command]]


def test_nobody_else_is_told_or_opens_anything(here: TestClient, served: Served, started: list[list[str]]) -> None:
    address = folder_of(here, "star")
    proxied = {"x-forwarded-for": "192.0.2.7"}
    with (
        visitor(served, ELSEWHERE, open_folders=True) as stranger,
        visitor(served, HERE, open_folders=False) as not_started,
    ):
        answers = [
            *(client.request(method, address) for client in (stranger, not_started) for method in ("GET", "POST")),
            here.get(address, headers=proxied),
            here.post(address, headers=proxied),
            here.post(address, headers={"origin": "http://evil.example"}),
        ]
        assert not_started.get("/api/v1/stats").json()["opens_folders"] is False
    assert [answer.status_code for answer in answers] == [403] * 7
    assert not any(str(served.videos) in answer.text for answer in answers)
    assert started == []
    assert here.get("/api/v1/stats").json()["opens_folders"] is True


NO_PATHS = "The list names files without their folder; evenreel serve --open-folders writes full paths"


def test_lists_have_full_paths_for_whoever_sits_here(here: TestClient, ids: dict[str, str], served: Served) -> None:
    wanted, address = (ids["star.mp4"], 1.0, 2.0), (served.videos / "star.mp4").as_uri()
    for form in ("edl", "fcpxml", "otio"):
        answer = ask(here, form, wanted)
        assert address in answer.text and NO_PATHS not in notes_of(answer)
    with visitor(served, ELSEWHERE, open_folders=True) as stranger:
        answer = ask(stranger, "edl", wanted)
        assert address not in answer.text and NO_PATHS not in notes_of(answer)
    with visitor(served, HERE, open_folders=False) as not_started:
        answer = ask(not_started, "edl", wanted)
        assert address not in answer.text and NO_PATHS in notes_of(answer)


def test_a_file_that_has_gone_is_a_sentence(here: TestClient, served: Served, started: list[list[str]]) -> None:
    address = folder_of(here, "heart")
    gone = served.videos / "heart.mp4"
    gone.rename(served.videos / "heart.gone")
    try:
        answer = here.post(address)
    finally:
        (served.videos / "heart.gone").rename(gone)
    assert (answer.status_code, "is not there any more" in answer.json()["detail"]) == (404, True)
    assert started == []


@pytest.mark.parametrize("trouble", ["missing", "broken"])
def test_a_machine_without_a_file_manager_says_so(
    here: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trouble: str
) -> None:
    program = tmp_path / "xdg-open"
    program.write_text("no program")  # cannot be run
    monkeypatch.setattr(exports.sys, "platform", "linux")
    monkeypatch.setattr(exports.shutil, "which", lambda _: None if trouble == "missing" else str(program))
    answer = here.post(folder_of(here, "star"))
    assert (answer.status_code, "copy the path instead" in answer.json()["detail"]) == (400, True)


def test_no_name_becomes_an_option_of_the_program(started: list[list[str]]) -> None:
    exports.show_in_folder(os.path.join(os.sep, "v", "--help", "-a;b.mp4"))
    assert sys.platform != "linux" or started == [["/usr/bin/xdg-open", "/v/--help"]]


def test_a_server_for_others_opens_no_folders() -> None:
    with pytest.raises(UsageError, match="--open-folders"):
        ServeSettings(host="0.0.0.0", token="correct horse battery", open_folders=True)
    for far in ({"allowed_hosts": ("films.example",)}, {"trusted_proxies": ("127.0.0.1",)}):
        with pytest.raises(UsageError, match="Through a proxy others reach the server.*--open-folders"):
            ServeSettings(open_folders=True, **far)


def test_a_stretch_outside_of_its_clip_is_one_sentence(client: TestClient, ids: dict[str, str]) -> None:
    answer = ask(client, "clip", (ids["star.mp4"], 100.0, 101.0))
    assert (answer.status_code, "from 100 to 101 s is outside of the clip" in answer.json()["detail"]) == (404, True)


def test_another_site_and_a_visitor_without_the_token_take_nothing_away(client: TestClient, served: Served) -> None:
    wanted = {"form": "csv", "stretches": [{"clip_id": NOBODY}]}
    assert client.post("/api/v1/export", json=wanted, headers={"origin": "http://evil.example"}).status_code == 403
    app = make_app(served.library, replace(served.settings, token="a-long-token"))
    with TestClient(app, base_url="http://127.0.0.1:8765") as stranger:
        assert stranger.post("/api/v1/export", json=wanted).status_code == 401
