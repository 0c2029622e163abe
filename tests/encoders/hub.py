"""A model hub on the loopback, as far as the hub's client needs one, that can break off, be slow, corrupt and refuse.

In a test's own process `serving(monkeypatch)` lets the client look there. For processes of their own,
`environment(hub, place)` gives the variables of one that takes `hub` for the hub (a mirror by HF_ENDPOINT), keeps what
it fetches below `place`, and cannot import torch. `default_checkpoint` and `default_export` make what stands for the
default model:

    with Hub({DEFAULT_MODEL: default_checkpoint(one), EXPORT: default_export(other)}) as hub:
        subprocess.run([sys.executable, "-m", "evenreel", "index", "videos"], env=environment(hub, place))
        hub.break_after = 100_000  # bytes of each answer; None again for whole ones
        hub.sent[EXPORT, "onnx/text_model.onnx"]  # bytes that were sent of it
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from huggingface_hub import constants

from evenreel.encoders.loading import BUILTIN_FOLDER
from tests.encoders.onnx_files import public_export

LARGE = (".safetensors", ".bin", ".onnx", ".onnx_data", "tokenizer.json")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
EXPORT = "onnx-community/siglip2-base-patch16-224-ONNX"
PIECE = 16_384  # bytes that are sent at a time where the hub is slow


class Hub(ThreadingHTTPServer):
    """Serves the files of folders, each by its model's id (one alone is `org/tiny`) at `COMMIT`.

    Args:
        models: folder, or folders by id.
        refuse: status that everything is answered with; of files alone, where `refuse_files` is given.
        spoil: name of a file whose last byte is sent wrong.
        break_after: bytes of an answer after which the connection is closed.
        bytes_a_second: of each answer.
    """

    daemon_threads = True

    def __init__(
        self,
        models: Path | Mapping[str, Path],
        refuse: int | None = None,
        spoil: str | None = None,
        *,
        refuse_files: int | None = None,
        break_after: int | None = None,
        bytes_a_second: float | None = None,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = {"org/tiny": models} if isinstance(models, Path) else dict(models)
        self.refuse, self.refuse_files, self.spoil = refuse, refuse_files, spoil
        self.break_after, self.bytes_a_second = break_after, bytes_a_second
        self.requests: list[str] = []
        self.sent: Counter[tuple[str, str]] = Counter()  # bytes of each file, by id and name
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def files(self, model: str) -> list[dict[str, Any]]:
        folder, entries = self.models[model], []
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, content = path.relative_to(folder).as_posix(), path.read_bytes()
            entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": git_id(content)}
            if name.endswith(LARGE):
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
            entries.append(entry)
        return entries


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def default_export(folder: Path) -> Path:
    """Write a model in the layout of public exports, other precisions beside its own: the built-in one, 6 MB."""
    public_export(folder)
    for name in ("text_model", "vision_model"):
        for precision in ("fp16", "quantized"):
            shutil.copy(folder / "onnx" / f"{name}.onnx", folder / "onnx" / f"{name}_{precision}.onnx")
    (folder / "onnx" / "model.onnx").write_bytes(b"both towers")
    return folder


def default_checkpoint(folder: Path) -> Path:
    """Write the checkpoint that `default_export` is of."""
    return Path(shutil.copytree(BUILTIN_FOLDER, folder, ignore=shutil.ignore_patterns("*.onnx", "evenreel_*")))


def environment(hub: Hub | str, place: Path, **more: str) -> dict[str, str]:
    """Variables of a process without torch that takes `hub`, or an address, for the hub, its caches below `place`."""
    from tests.cli.test_without_extras import REFUSAL, TORCH

    (place / "site").mkdir(parents=True, exist_ok=True)
    (place / "site" / "sitecustomize.py").write_text(REFUSAL)
    kept = {name: text for name, text in os.environ.items() if name not in ("HF_HUB_OFFLINE", "EVENREEL_OFFLINE")}
    paths = [str(place / "site"), os.environ.get("PYTHONPATH", "")]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "MISSING": ",".join(TORCH),
        "HF_ENDPOINT": hub if isinstance(hub, str) else hub.address,
        "HF_HOME": str(place / "hf"),
        "XDG_CACHE_HOME": str(place / "cache"),
        **more,
    }


@contextmanager
def serving(patch: pytest.MonkeyPatch) -> Iterator[Callable[..., Hub]]:
    """What starts a hub, and lets the client look there; the sockets stay guarded."""
    hubs: list[Hub] = []

    def start(models: Path | Mapping[str, Path], **options: Any) -> Hub:
        hubs.append(Hub(models, **options))
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
        asked = re.fullmatch(r"(?:/api/models)?/([^/]+/[^/]+)/(revision|tree|resolve)/([^/]+)/?(.*)", path)
        model, what, revision, name = asked.groups() if asked else ("", "", "", "")
        if self.server.refuse is not None:
            self._answer(b"no", {}, self.server.refuse)
        elif model not in self.server.models:
            self._answer(b"", {"X-Error-Code": "RepoNotFound"}, 404)
        elif revision not in ("main", COMMIT):
            self._answer(b"", {"X-Error-Code": "RevisionNotFound"}, 404)
        elif what == "revision":
            self._json({"id": model, "sha": COMMIT, "siblings": [_sibling(one) for one in self.server.files(model)]})
        elif what == "tree":
            self._json(self.server.files(model))
        elif not (self.server.models[model] / name).is_file():
            self._answer(b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, 404)
        elif self.server.refuse_files is not None and self.command == "GET":
            self._answer(b"no", {}, self.server.refuse_files)
        else:
            self._file(model, name)

    def _json(self, value: Any) -> None:
        self._answer(json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _file(self, model: str, name: str) -> None:
        content = (self.server.models[model] / name).read_bytes()
        tag = hashlib.sha256(content).hexdigest() if name.endswith(LARGE) else git_id(content)
        headers = {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if name == self.server.spoil:
            content = content[:-1] + bytes([content[-1] ^ 1])
        status, whole = 200, len(content)
        if wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            if (first := int(wanted[1])) >= whole:
                self._answer(b"", {"Content-Range": f"bytes */{whole}"}, 416)
                return
            content, status = content[first:], 206
            headers["Content-Range"] = f"bytes {first}-{whole - 1}/{whole}"
        self._answer(content, headers, status, (model, name))

    def _answer(
        self, content: bytes, headers: dict[str, str], status: int = 200, of: tuple[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        end = len(content) if of is None or self.server.break_after is None else self.server.break_after
        for first in range(0, min(end, len(content)), PIECE):
            piece = content[first : min(first + PIECE, end)]
            try:
                self.wfile.write(piece)
            except OSError:  # whoever asked has gone
                return
            if of is not None:
                self.server.sent[of] += len(piece)
                if self.server.bytes_a_second is not None:
                    time.sleep(len(piece) / self.server.bytes_a_second)
        self.close_connection = True


def _sibling(entry: dict[str, Any]) -> dict[str, Any]:
    """A file as the hub tells of it with a model, where `blobs` are asked for."""
    told: dict[str, Any] = {"rfilename": entry["path"], "size": entry["size"], "blobId": entry["oid"]}
    if lfs := entry.get("lfs"):
        told["lfs"] = {"sha256": lfs["oid"], "size": lfs["size"], "pointerSize": lfs["pointerSize"]}
    return told
