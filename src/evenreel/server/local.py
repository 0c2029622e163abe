"""How commands of the same person on this machine find a server of their library, and ask it in place of a model.

A server leaves a note in the person's cache folder, readable to them alone: its port, its version and a secret that it
makes anew each time. The secret never travels. A question carries an HMAC by it, so that nobody else's is answered; an
answer carries one too, over the question's nonce, so that whoever has taken the port of a server that is gone learns
the question and can say nothing. Whatever is not as expected, the command searches by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evenreel.files import file_state, replacing
from evenreel.version import __version__

ADDRESS = "/api/v1/own"
NONCE, PROOF = "evenreel-nonce", "evenreel-proof"  # headers of a question
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where a server that listens everywhere is here
THIS_MACHINE = {"127.0.0.1", "::1", "localhost"}
BEGIN_S, ANSWER_S = 0.05, 15.0  # seconds until a server has begun to answer, and has answered
LARGEST_NOTE, LARGEST_ANSWER = 4_096, 64 * 2**20


@contextlib.contextmanager
def noted(library: Path, host: str, files: tuple[str, ...]) -> Iterator[Callable[[str], None]]:
    """Give a function that leaves the note of a server once it has an address; it is removed in the end.

    Args:
        library: what is served.
        host: address that it listens on; one of another machine leaves no note.
        files: names of the library's files that change with it.
    """
    place, secret = _place(library), secrets.token_hex(32)

    def leave(address: str) -> None:
        here = ANYWHERE.get(host, host)
        note = {"version": __version__, "host": here, "port": urlsplit(address).port, "secret": secret, "files": files}
        if here not in THIS_MACHINE:
            return
        with (
            contextlib.suppress(OSError),  # without a note, commands search by themselves
            replacing(place) as part,
            open(part, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file,
        ):
            json.dump(note, file)

    try:
        yield leave
    finally:
        if (left := read_note(library)) is not None and left["secret"] == secret:
            place.unlink(missing_ok=True)


def _place(library: Path) -> Path:
    from platformdirs import user_cache_path

    digest = hashlib.sha256(os.fsencode(os.path.realpath(library))).hexdigest()
    return user_cache_path("evenreel") / "served" / f"{digest[:32]}.json"


def read_note(library: Path) -> dict[str, Any] | None:
    """Read the note of this version's server of a library; None where there is none that only its owner could write."""
    with contextlib.suppress(OSError, ValueError, TypeError), open(_place(library), "rb") as file:
        found = os.fstat(file.fileno())
        if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
            return None
        note: dict[str, Any] = json.loads(file.read(LARGEST_NOTE))
        same = note.keys() >= {"host", "port", "secret", "files"} and note.get("version") == __version__
        return note if same and note["host"] in THIS_MACHINE else None
    return None


def proof(secret: str, of: str, nonce: str, body: bytes) -> str:
    """Return what only who knows the secret can say of a question or an answer."""
    return hmac.new(secret.encode(), f"{of} {nonce} ".encode() + body, hashlib.sha256).hexdigest()


def states(library: Path, files: tuple[str, ...]) -> list[list[int]]:
    return [list(file_state(library / name) or (0, 0, 0)) for name in files]


class Told(dict[str, Any]):
    """A record as it came; its fields are read as those of the record that it stands for."""

    __getattr__ = dict.__getitem__


def ask(library: Path, question: Mapping[str, Any]) -> Told | None:
    """Ask a running server of a library for the answer to a question; None where there is none that gives it.

    Args:
        library: folder of the library, whose files are to be in the state in which the server has them.
        question: what `evenreel.server.api` takes at `ADDRESS`, but for `states`.
    """
    if (note := read_note(library)) is None:
        return None
    import http.client

    body = json.dumps({**question, "states": states(library, note["files"])}).encode()
    nonce = secrets.token_hex(16)
    headers = {NONCE: nonce, PROOF: proof(note["secret"], "question", nonce, body)}
    with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
        connection = http.client.HTTPConnection(note["host"], note["port"], timeout=BEGIN_S)
        with contextlib.closing(connection):
            connection.connect()
            held = connection.sock
            connection.request("POST", ADDRESS, body, headers)
            answer = connection.getresponse()  # its head comes before the search has begun
            held.settimeout(ANSWER_S)
            given, _, text = answer.read(LARGEST_ANSWER).partition(b"\n")
        expected = proof(note["secret"], "answer", nonce, text).encode()
        if answer.status == 200 and text and hmac.compare_digest(given, expected):
            told: Told = json.loads(text, object_hook=Told)
            return told
    return None
