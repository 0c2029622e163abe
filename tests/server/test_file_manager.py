"""Files in the file manager: for whoever sits at the machine and started the server for it, and for nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenreel.errors import UsageError
from evenreel.server import ServeSettings, exports, make_app
from tests.server.conftest import Served

HERE, ELSEWHERE = ("127.0.0.1", 50_000), ("192.0.2.7", 50_000)


def visitor(served: Served, address: tuple[str, int], *, open_folders: bool) -> TestClient:
    """Somebody at an address."""
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


def test_a_token_is_asked_for_where_there_is_one(served: Served, started: list[list[str]]) -> None:
    settings = replace(served.settings, open_folders=True, vision=False, token="correct horse battery")
    app = make_app(served.library, settings)
    with TestClient(app, base_url="http://127.0.0.1:8765", client=HERE) as client:
        assert client.post(f"/api/v1/clips/{'0' * 32}/folder").status_code == 401
        told = {"authorization": "Bearer correct horse battery"}
        assert client.post(f"/api/v1/clips/{'0' * 32}/folder", headers=told).status_code == 404
    assert started == []


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
def test_a_machine_without_a_exports_says_so(
    here: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trouble: str
) -> None:
    program = tmp_path / "xdg-open"
    program.write_text("no program")  # cannot be run
    monkeypatch.setattr(exports.sys, "platform", "linux")
    monkeypatch.setattr(exports.shutil, "which", lambda _: None if trouble == "missing" else str(program))
    answer = here.post(folder_of(here, "star"))
    assert (answer.status_code, "copy the path instead" in answer.json()["detail"]) == (400, True)


def test_a_server_for_others_opens_no_folders() -> None:
    with pytest.raises(UsageError, match="--open-folders"):
        ServeSettings(host="0.0.0.0", token="correct horse battery", open_folders=True)
    for far in ({"allowed_hosts": ("films.example",)}, {"trusted_proxies": ("127.0.0.1",)}):
        with pytest.raises(UsageError, match="Through a proxy others reach the server.*--open-folders"):
            ServeSettings(open_folders=True, **far)


def test_no_name_becomes_an_option_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Any] = []
    monkeypatch.setattr(exports.shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    exports.show_in_folder(os.path.join(os.sep, "v", "--help", "-a;b.mp4"))
    assert sys.platform != "linux" or commands == [["xdg-open", "/v/--help"]]
