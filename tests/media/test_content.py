"""The digest of a file that is waited for."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from evenreel.media import content


def test_a_slow_read_is_waited_for_where_the_builtin_timeout_is_another_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Python 3.10, where a future's TimeoutError is not the builtin one."""

    class BuiltinError(OSError):
        """What `TimeoutError` names there."""

    real = content.content_digest

    def slow(path: str, reading: content._DigestProgress) -> str:
        time.sleep(0.05)
        return real(path, reading)

    monkeypatch.setattr(content, "TimeoutError", BuiltinError, raising=False)
    monkeypatch.setattr(content, "content_digest", slow)
    monkeypatch.setattr(content, "_POLL_S", 0.01)
    (tmp_path / "video").write_bytes(b"bytes")
    assert content.watched_digest(str(tmp_path / "video"), 5) == hashlib.blake2b(b"bytes", digest_size=16).hexdigest()
