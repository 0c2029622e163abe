"""An S3 server on the loopback address, and a bucket of it that the environment gives the right to."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

SECRET = "secret-of-the-tests"


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """Address of moto's server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "key-of-the-tests",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    if not files.exists("films"):
        files.mkdir("films")
    for left in files.ls("films", refresh=True):
        files.rm(left, recursive=True)
    return "s3://films"
