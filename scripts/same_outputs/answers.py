"""What a server answers to the requests of `requests.txt`, as text that can be compared."""

from __future__ import annotations

import io
import json
import re
import time
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

SHOWN = ("content-type", "cache-control", "content-disposition", "evenreel-notes")
CLIP = re.compile(r"<([\w. -]+)>")
PATIENCE_S = 120


def answers_of(address: str, requests: list[str]) -> list[str]:
    """The answers of a server, asked one after another once its model is loaded."""
    for _ in range(10 * PATIENCE_S):
        if '"loading"' not in _asked(address, "GET /api/v1/health")[2].decode():
            break
        time.sleep(0.1)
    return [_answer(address, request) for request in requests]


def _answer(address: str, request: str) -> str:
    """Status, headers and body; of what is no text, only what kind it is."""
    status, headers, body = _asked(address, CLIP.sub(lambda found: _clip_id(address, found[1]), request))
    kind = headers.get("content-type", "")
    told = [str(status), *(f"{name}: {headers[name]}" for name in SHOWN if name in headers)]
    if kind == "application/zip":
        with zipfile.ZipFile(io.BytesIO(body)) as made:
            for name in sorted(made.namelist()):
                told += [name, "" if name.endswith((".mp4", ".jpg")) else made.read(name).decode()]
    elif kind == "application/json":
        told.append(json.dumps(json.loads(body), indent=1, ensure_ascii=False, sort_keys=True))
    elif kind.startswith(("text/csv", "text/plain", "text/vtt", "application/x")):
        told.append(body.decode())
    return "\n".join(told)


def _clip_id(address: str, name: str) -> str:
    """The clip of the first file whose path holds these words."""
    body = _asked(address, f"GET /api/v1/files?text={urllib.parse.quote(name)}")[2]
    return str(next((file["clip_id"] for file in json.loads(body)["files"]), name))


def _asked(address: str, request: str) -> tuple[int, Any, bytes]:
    """Status, headers and body of the answer to `METHOD PATH`, `METHOD PATH JSON` or `METHOD PATH @FILE`."""
    method, path, body = (*request.split(" ", 2), "")[:3]
    kind = "image/png" if body.startswith("@") else "application/json"
    data = Path(body[1:]).read_bytes() if body.startswith("@") else body.encode() or None
    asked = urllib.request.Request(address + path.lstrip("/"), data, {"content-type": kind}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            return answer.status, answer.headers, answer.read()
    except HTTPError as error:
        return error.code, error.headers, error.read()
