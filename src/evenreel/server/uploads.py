"""Pictures that visitors search by: received within limits, decoded by processes that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from fastapi import HTTPException, Request

from evenreel.library.search.image import decode_image, image_worker
from evenreel.media.workers import Worker
from evenreel.server.desk import BusyError
from evenreel.server.senders import received
from evenreel.server.settings import ServeSettings
from evenreel.types import Pixels

RECEIVING, DECODING, WAITING = 8, 2, 16
"""Most pictures that are received, decoded and waiting at a time in all workers; a decoded one may take some hundred
megabytes."""


class Uploads:
    """Receives and decodes pictures; a few at a time, and a few more that wait for their turn."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._workers: list[Worker] = []
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._receiving, self._waiting = _Places(settings.share(RECEIVING)), _Places(settings.share(WAITING))
        self._decoding = settings.share(DECODING)
        self._turns = asyncio.Semaphore(self._decoding)

    def start(self) -> None:
        """Prepare the worker processes, which start when they are needed."""
        self._pool = ThreadPoolExecutor(self._decoding, thread_name_prefix="decode")
        self._workers = [image_worker(self._settings.image_limits) for _ in range(self._decoding)]
        for worker in self._workers:
            self._idle.put(worker)

    def close(self) -> None:
        """End the worker processes at once, whatever they decode."""
        for worker in self._workers:
            worker.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    @contextlib.asynccontextmanager
    async def picture(self, request: Request) -> AsyncIterator[Pixels]:
        """Receive and decode the picture of a request, (H, W, 3); the next one is decoded when the block has ended."""
        with self._receiving.one():
            content = await self._receive(request)
        with self._waiting.one():
            async with self._turns:
                yield await asyncio.get_running_loop().run_in_executor(self._pool, self._decode, content)

    def _decode(self, content: bytes) -> Pixels:
        worker = self._idle.get()
        try:
            return decode_image(content, worker)
        finally:
            self._idle.put(worker)

    async def _receive(self, request: Request) -> bytes:
        """The body of a request, within the limits of size and time."""
        kind = request.headers.get("content-type", "")
        if not kind.startswith(("image/", "application/octet-stream")):
            raise HTTPException(415, "Send the picture itself as the body, with its type, for example image/jpeg.")
        most = self._settings.max_upload_bytes
        refusal = HTTPException(413, f"The picture is too large; at most {most >> 20} MiB are read.")
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or len(declared) > len(str(most)) or int(declared) > most:
            raise refusal
        try:
            body = await received(request.receive, most, self._settings.upload_timeout_s)
        except asyncio.TimeoutError as error:
            raise HTTPException(408, "The picture came too slowly; send it again.") from error
        if len(body) > most:
            raise refusal
        return body


class _Places:
    """A few places; who finds them taken does not wait."""

    def __init__(self, count: int) -> None:
        self._free = count

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Take a place while the block runs."""
        if not self._free:
            raise BusyError("Other pictures are being searched for; try again in a moment.")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1
