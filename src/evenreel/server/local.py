"""How commands of the same person on this machine find a server of their library, and ask it in place of a model.

A server leaves a note in the person's cache folder, readable to them alone: its port, its version and a secret that it
makes anew each time. The secret never travels. A question carries an HMAC by it, so that nobody else's is answered; an
answer carries one too, over the question's nonce, so that whoever has taken the port of a server that is gone learns
the question and can say nothing. Whatever is not as expected, the command searches by itself.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evenreel.files import file_state, replacing
from evenreel.version import __version__

ADDRESS = "/api/v1/own"
NONCE, PROOF = "evenreel-nonce", "evenreel-proof"  # headers of a question
HERE = {"127.0.0.1": "127.0.0.1", "::1": "::1", "localhost": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a server is asked that listens at one of these addresses; at any other it is not."""
BEGIN_S, ANSWER_S = 0.05, 15.0  # seconds until a server has begun to answer, and has answered
LARGEST_NOTE, LARGEST_ANSWER, PART = 4_096, 64 * 2**20, 2**18
UNEXPECTED = (OSError, ValueError, TypeError, AttributeError, RecursionError)  # of a note or an answer


@contextmanager
def noted(
    library: Path, host: str, files: tuple[str, ...], on_ready: Callable[[str], None]
) -> Iterator[Callable[[str], None]]:
    """Leave a note of a server at `host` once it is ready; `files` are those that change with the library."""
    place, secret = _place(library), secrets.token_hex(32)

    def ready(address: str) -> None:
        note = {"version": __version__, "port": urlsplit(address).port, "secret": secret, "files": files}
        if host in HERE:
            with (
                suppress(OSError),  # without a note, commands search by themselves
                replacing(place) as part,
                open(part, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file,
            ):
                json.dump(note | {"host": HERE[host]}, file)
        on_ready(address)

    try:
        yield ready
    finally:
        if (left := read_note(library)) is not None and left["secret"] == secret:
            place.unlink(missing_ok=True)


def _place(library: Path) -> Path:
    from platformdirs import user_cache_path

    digest = hashlib.sha256(os.fsencode(os.path.realpath(library))).hexdigest()
    return user_cache_path("evenreel") / "served" / f"{digest[:32]}.json"


def read_note(library: Path) -> dict[str, Any] | None:
    """Read the note of this version's server of a library; None where there is none that only its owner could write."""
    with suppress(*UNEXPECTED), open(_place(library), "rb") as file:
        found = os.fstat(file.fileno())
        if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
            return None
        note: dict[str, Any] = json.loads(file.read(LARGEST_NOTE))
        whole = note.keys() >= {"port", "secret", "files"} and note.get("host") in HERE
        return note if whole and note.get("version") == __version__ else None
    return None


def proof(secret: str, of: str, nonce: str, body: bytes) -> str:
    """Return what only who knows the secret can say of a question or an answer."""
    return hmac.new(secret.encode(), f"{of} {nonce} ".encode() + body, hashlib.sha256).hexdigest()


class Told(dict[str, Any]):
    """A record as it came, whose entries are read as the fields of the record that it stands for."""

    __getattr__ = dict.__getitem__


def ask(library: Path, question: Mapping[str, Any]) -> Told | None:
    """Ask a running server what `evenreel.server.api` takes at `ADDRESS`; None where none gives an answer."""
    if (note := read_note(library)) is None:
        return None
    with suppress(*UNEXPECTED):
        states = [file_state(library / name) or (0, 0, 0) for name in note["files"]]
        body, nonce = json.dumps({**question, "states": states}).encode(), secrets.token_hex(16)
        head = {"Host": "localhost", NONCE: nonce, PROOF: proof(note["secret"], "question", nonce, body)}
        head["Content-Length"] = str(len(body))
        lines = [f"POST {ADDRESS} HTTP/1.0", *(f"{name}: {one}" for name, one in head.items()), "\r\n"]
        with socket.create_connection((note["host"], note["port"]), BEGIN_S) as held:
            held.sendall("\r\n".join(lines).encode() + body)
            given, until = held.recv(PART), time.monotonic() + ANSWER_S  # the head comes before the search has begun
            held.settimeout(ANSWER_S)
            while (part := held.recv(PART)) and len(given) < LARGEST_ANSWER and time.monotonic() < until:
                given += part
        shown, _, text = given.partition(b"\r\n\r\n")[2].partition(b"\n")
        if text and hmac.compare_digest(shown, proof(note["secret"], "answer", nonce, text).encode()):
            told: Told = json.loads(text, object_hook=Told)
            return told
    return None
