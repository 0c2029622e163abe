"""A model hub of one model on the loopback, as far as the hub's client needs one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from huggingface_hub import constants

LARGE = (".safetensors", ".bin", ".onnx")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves the files of a folder as `org/tiny` at `COMMIT`, or answers everything with one status."""

    daemon_threads = True

    def __init__(self, folder: Path, refuse: int | None = None, spoil: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.refuse = refuse
        self.spoil = spoil
        self.requests: list[str] = []
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def content(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def files(self) -> list[dict[str, Any]]:
        entries = []
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            name = path.relative_to(self.folder).as_posix()
            content = self.content(name)
            entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": "0" * 40}
            if path.suffix in LARGE:
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
            entries.append(entry)
        return entries


@contextmanager
def serving(patch: pytest.MonkeyPatch) -> Iterator[Callable[..., Hub]]:
    """What starts a hub, and lets the client look there; the sockets stay guarded."""
    hubs: list[Hub] = []

    def start(folder: Path, **options: Any) -> Hub:
        hubs.append(Hub(folder, **options))
        template = hubs[-1].address + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr(constants, "ENDPOINT", hubs[-1].address)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        return hubs[-1]

    go_online(patch)
    yield start
    for hub in hubs:
        hub.shutdown()
        hub.server_close()


def go_online(patch: pytest.MonkeyPatch) -> None:
    """As if the network might be used; the sockets stay guarded."""
    patch.delenv("HF_HUB_OFFLINE", raising=False)
    patch.delenv("EVENREEL_OFFLINE", raising=False)
    patch.setattr(constants, "HF_HUB_OFFLINE", False)


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.server.requests.append(f"{self.command} {path}")
        if self.server.refuse is not None:
            self._answer(b"no", {}, self.server.refuse)
        elif path.startswith("/api/models/org/tiny/revision/"):
            names = [{"rfilename": entry["path"]} for entry in self.server.files()]
            self._json({"id": "org/tiny", "sha": COMMIT, "siblings": names})
        elif path.startswith("/api/models/org/tiny/tree/"):
            self._json(self.server.files())
        elif path.startswith(f"/org/tiny/resolve/{COMMIT}/"):
            self._file(path.removeprefix(f"/org/tiny/resolve/{COMMIT}/"))
        else:
            self._answer(b"", {"X-Error-Code": "RepoNotFound"}, 404)

    def _json(self, value: Any) -> None:
        self._answer(json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _file(self, name: str) -> None:
        content = self.server.content(name)
        large = name.endswith(LARGE)
        tag = hashlib.sha256(content).hexdigest() if large else hashlib.sha1(content).hexdigest()
        if name == self.server.spoil:
            content = content[:-1] + bytes([content[-1] ^ 1])
        self._answer(content, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"})

    def _answer(self, content: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
