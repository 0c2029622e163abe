"""What the application says when something goes wrong, and where it listens."""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from evenreel.errors import (
    CorpusError,
    EncoderError,
    EvenreelError,
    LibraryError,
    MediaError,
    NotFoundError,
    UsageError,
)
from evenreel.server import ServeSettings, make_app
from evenreel.server import app as server_app
from evenreel.server.desk import BusyError, LoadingError

SECRET = "/home/ana/films"


def failing(folder: Path, error: Exception) -> TestClient:
    """A visitor of an application with an address that raises an error."""
    app = make_app(folder, ServeSettings(cache=folder))

    async def fail() -> None:
        raise error

    app.add_api_route("/api/v1/fail", fail)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LibraryError(f"{SECRET} is damaged."), 503),
        (EncoderError(f"The model in {SECRET} is not complete."), 400),
        (CorpusError(f"{SECRET} breaks a rule."), 503),
        (EvenreelError(f"{SECRET} sent no picture."), 503),
        (PermissionError(13, "Permission denied", SECRET), 503),
        (ValueError(SECRET), 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failure_is_a_sentence_that_does_not_tell_how_the_disk_is_laid_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    caplog.set_level(logging.INFO, "evenreel")
    answer = failing(tmp_path, error).get("/api/v1/fail")
    assert (answer.status_code, set(answer.json())) == (status, {"detail"})
    assert SECRET not in answer.text and answer.json()["detail"].endswith(".")
    assert "retry-after" not in answer.headers  # it would be the same again
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-cache"
    assert status == 500 or SECRET in caplog.text  # a 500 is logged by what serves us
    assert "Traceback" not in caplog.text  # visitors can make as many of them as they like


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("The filter ends too early."), 400),
        (NotFoundError("There is no such clip."), 404),
        (MediaError("damaged", "The video is damaged."), 404),
        (BusyError("Too many wait."), 503),
        (LoadingError("The model is still being loaded."), 503),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_for_visitors_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    answer = failing(tmp_path, error).get("/api/v1/fail")
    assert (answer.status_code, answer.json()) == (status, {"detail": str(error)})
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
    assert not caplog.records


def test_nothing_can_be_put_before_the_guard(tmp_path: Path) -> None:
    app = make_app(tmp_path, ServeSettings(cache=tmp_path))
    assert isinstance(app, FastAPI)
    with pytest.raises(RuntimeError):
        app.add_middleware(lambda app: app)


@pytest.mark.parametrize(
    "settings",
    [
        lambda port: ServeSettings(port=port),
        lambda _: ServeSettings(host="192.0.2.1", token="long enough"),
        lambda _: ServeSettings(host="a" * 70 + ".example", token="long enough"),
    ],
    ids=["taken", "not ours", "no name"],
)
def test_an_address_that_cannot_be_had_is_one_sentence_and_leaves_nothing_open(
    settings: Callable[[int], ServeSettings],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(UsageError, match="choose another with --port or --host") as caught:
            server_app._listening(settings(taken.getsockname()[1]))
        assert "\n" not in str(caught.value)
    del caught
    gc.collect()  # a socket that was left open warns here, and warnings fail


@pytest.mark.parametrize("path", ["/nothing", "/library/x", "/nothing/at/all?q=1"])
def test_an_address_of_nothing_is_a_page_to_browsers_and_a_sentence_to_programs(tmp_path: Path, path: str) -> None:
    visitor = TestClient(make_app(tmp_path, ServeSettings(cache=tmp_path)), base_url="http://127.0.0.1")
    page = visitor.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert '<a class="quiet" href="/">' in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    for accept in ("*/*", "application/json"):
        told = visitor.get(path, headers={"accept": accept})
        assert (told.status_code, told.headers["content-type"]) == (404, "application/json")
        assert set(told.json()) == {"detail"}
        assert "/api/v1/openapi.json" in told.json()["detail"]
    for answer in (page, told):
        assert "accept" in answer.headers["vary"].lower()
    assert set(visitor.get("/api/v1/nothing", headers={"accept": "text/html"}).json()) == {"detail"}
    wrong = visitor.post("/", headers={"accept": "text/html", "origin": "http://127.0.0.1"})
    assert (wrong.status_code, set(wrong.json())) == (405, {"detail"})
