"""What is sent of the files of clips, and the pictures that visitors search by.

First the files themselves: opened where they are regular and reached through no link, compared with what was indexed,
and sent to players, in ranges, by threads of their own. Then stills and previews of them, made once and kept by the
content they show. Pictures are decoded by processes that can be killed, which run `PictureReader`, at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import re
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePath
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from evenreel.config import MediaLimits
from evenreel.errors import MediaError, NotFoundError
from evenreel.features.pool import TRANSIENT
from evenreel.features.shards import SIDE_PX, read_still
from evenreel.files import printable, replacing
from evenreel.library.contents import ClipMedia, Located, SameContent, check_unchanged
from evenreel.library.search.query import decode_image, image_worker
from evenreel.media.sampling import EverySeconds, Part
from evenreel.media.workers import FileStamp, Worker
from evenreel.media.workers import Message as Told
from evenreel.server.desk import BusyError, Desk
from evenreel.server.settings import ServeSettings
from evenreel.types import Frame, Pixels

if TYPE_CHECKING:
    from av.container import OutputContainer

log = logging.getLogger("evenreel")
T = TypeVar("T")

TYPES = {
    "mp4": "video/mp4",
    "matroska": "video/x-matroska",
    "avi": "video/x-msvideo",
    "ogg": "video/ogg",
    "mpegts": "video/mp2t",
    "gif": "image/gif",
    "apng": "image/apng",
}
CODECS = {
    "H.264": "avc1.640028",
    "HEVC": "hvc1.1.6.L120.90",
    "VP8": "vp8",
    "VP9": "vp09.00.40.08",
    "AV1": "av01.0.08M.08",
    "Theora": "theora",
}
"""Codec as a browser is asked about it, by its name: an ordinary profile of each."""
IN_WEBM = frozenset({"VP8", "VP9", "AV1"})
CHUNK_BYTES = 2**18  # bytes of a file that are read at a time to be sent
READERS = 8  # threads that open and read files; on a disk that does not answer they are all that is held
COMPARED_S = 5.0  # seconds that a visitor waits while a file is read through; then the answer is 'come back later'
COMPARING = 100  # most files that may wait to be read through
MOST_OF_ALL = 3 / 5  # share of the connections that may play at a time, so that the others can still search

READER = "evenreel.server.media:PictureReader"
STILL_WIDTHS = (160, 320, 640, 1280)
PREVIEW_PART_S = 60.0
WAITING = 200  # most pictures that may be waited for; beyond it those requested first are given up
PAGE_GAP_S = 0.3  # longest pause between the requests of one page; after a longer one, a visitor has turned the page
REMEMBERED_S = 600.0  # seconds for which a picture that cannot be made is not tried again
REMEMBERED = 1_000
EXPORT = "export-"  # beginning of the names of folders in the cache in which `evenreel.server.exports` makes files
TRIM_SHARE = 1 / 16  # share of the cache's limit that may be written between two looks at its size
DECODING, QUEUED = 2, 16
"""Most pictures to search by that are decoded at a time in all workers, and that are received or waiting; a decoded one
may take some hundred megabytes."""
PREVIEW_SIDE_PX = 480
PREVIEW_RATE, PREVIEW_OPTIONS = 30, {"preset": "veryfast", "crf": "26"}
LAST_S = 1e-3  # seconds before the end of a video at which its last frame is still on screen
CLOCK = Fraction(90_000)  # ticks of a preview in a second

NOT_HERE = (
    "This clip cannot be played here: a published snapshot has no videos, and the file is not where it was indexed."
)

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def media_type(container: str, codec: str) -> str:
    """Return the media type of a file for browsers (`canPlayType` and Content-Type).

    >>> media_type("mp4", "H.264"), media_type("avi", "MPEG-4"), media_type("matroska", "VP8")
    ('video/mp4; codecs="avc1.640028"', 'video/x-msvideo', 'video/webm; codecs="vp8"')
    """
    kind = TYPES.get(container, "application/octet-stream")
    if container == "matroska" and codec in IN_WEBM:
        kind = "video/webm"
    return f'{kind}; codecs="{CODECS[codec]}"' if codec in CODECS else kind


def open_beneath(root: str, path: str) -> int:
    """Open a regular file below a folder without following links; returns its descriptor."""
    parts = Path(os.path.relpath(path, root)).parts
    if not parts or ".." in parts or os.path.isabs(os.path.join(*parts)):
        raise FileNotFoundError(path)
    if os.open not in os.supports_dir_fd:  # Windows
        return _checked(os.open(path, _FLAGS))
    folder = os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = inner
        return _checked(os.open(parts[-1], _FLAGS | _NO_LINK, dir_fd=folder))
    finally:
        os.close(folder)


def _checked(descriptor: int) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise FileNotFoundError("not a regular file")


@dataclass(frozen=True)
class SentAs:
    kind: str  # media type
    name: str
    tag: str  # entity tag, which changes with the content
    to_save: bool = False  # instead of showing it
    patience_s: float | None = None  # for which its receiver may take nothing of it; players may pause for ever


class OpenedFile(FileResponse):
    """Response with a file that is open already, whole or one range of it (RFC 9110, section 14); of several, whole.

    It stops when the file changes. A refusal is one sentence.
    """

    chunk_size = CHUNK_BYTES

    def __init__(
        self, descriptor: int, sent_as: SentAs, readers: Executor, ended: Callable[[], None] = lambda: None
    ) -> None:
        found = os.fstat(descriptor)
        self._descriptor, self._stamp = descriptor, FileStamp.of(found)
        self._readers, self._ended, self._patience_s = readers, ended, sent_as.patience_s
        self._latest: Future[bytes] | None = None
        super().__init__(
            sent_as.name,
            stat_result=found,
            media_type=sent_as.kind,
            filename=sent_as.name,
            content_disposition_type="attachment" if sent_as.to_save else "inline",
            headers={"cache-control": "private, no-cache", "etag": f'"{sent_as.tag}"'},
        )

    def set_stat_headers(self, stat_result: os.stat_result) -> None:
        """Set the size and date headers; a date before year 1 or after 9999 has no form in HTTP and is left out."""
        try:
            super().set_stat_headers(stat_result)
        except (ValueError, OverflowError):
            self.headers.setdefault("content-length", str(stat_result.st_size))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file; where it changes meanwhile, or is not taken, hang up before it is sent whole."""
        try:
            await self._send(scope, send)
        except _HungUpError as error:
            log.info("%s %s; its receiver was hung up on", self.filename, error)
        finally:
            if self._latest is None:
                self._close()
            else:  # a receiver who goes leaves a thread reading, and the number of the descriptor is soon another's
                self._latest.add_done_callback(self._close)

    async def _send(self, scope: Scope, send: Send) -> None:
        start, stop = 0, self._stamp.size
        found = self._range(Headers(scope=scope))
        if found is not None:
            start, stop = found
            self.status_code = 206
            self.headers["content-range"] = f"bytes {start}-{stop - 1}/{self._stamp.size}"
            self.headers["content-length"] = str(stop - start)
        head: Message = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(head)
        if scope["method"] == "HEAD":
            start = stop
        while start < stop:
            self._latest = self._readers.submit(self._read, start, min(self.chunk_size, stop - start))
            chunk = await asyncio.wrap_future(self._latest)
            start += len(chunk)
            body: Message = {"type": "http.response.body", "body": chunk, "more_body": True}
            try:
                await asyncio.wait_for(send(body), self._patience_s)
            except asyncio.TimeoutError:
                raise _HungUpError(f"was not taken for {self._patience_s:g} s") from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _range(self, asked: Headers) -> tuple[int, int] | None:
        """The bytes that are asked for; None for all, as where they are to be of what the file was before."""
        unit, _, ranges = asked.get("range", "").partition("=")
        unchanged = asked.get("if-range") in (None, self.headers["etag"], self.headers.get("last-modified"))
        if unit.strip().lower() != "bytes" or not unchanged:
            return None
        found = [re.fullmatch(r"\s*([0-9]{0,18})-([0-9]{0,18})\s*", one) for one in ranges.split(",")]
        size, places = self._stamp.size, [one.groups() for one in found if one is not None]
        reversed_ones = [one for one in places if all(one) and int(one[1]) < int(one[0])]
        if len(places) < len(found) or ("", "") in places or reversed_ones:
            raise HTTPException(400, "The Range header cannot be read; write it as 'bytes=0-99'.")
        if len(places) > 1:
            return None
        first, last = places[0]
        start = max(0, size - int(last)) if not first else int(first)
        stop = min(size, int(last) + 1) if first and last else size
        if start >= stop:
            raise HTTPException(
                416, "The range begins after the end of the file.", {"content-range": f"bytes */{size}"}
            )
        return start, stop

    def _read(self, position: int, size: int) -> bytes:
        os.lseek(self._descriptor, position, os.SEEK_SET)  # one thread at a time reads of a descriptor
        chunk = os.read(self._descriptor, size)
        if len(chunk) != size or FileStamp.of(os.fstat(self._descriptor)) != self._stamp:
            raise _HungUpError("changed while it was sent")
        return chunk

    def _close(self, _: object = None) -> None:
        os.close(self._descriptor)
        self._ended()


class _HungUpError(Exception):
    """The rest of a file is not sent."""


class Playback:
    def __init__(self, desk: Desk, settings: ServeSettings) -> None:
        self._desk = desk
        self._playing, self._most = 0, max(1, int(settings.connections * MOST_OF_ALL))
        self._closed = False
        self._same = SameContent(settings.limits.stall_timeout_s, lambda: self._closed)
        self._comparing: dict[tuple[str, FileStamp], asyncio.Future[Located]] = {}

    def start(self) -> None:
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="play")
        self._comparer = ThreadPoolExecutor(1, thread_name_prefix="compare")

    def close(self) -> None:
        self._closed = True
        for pool in (self._comparer, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)

    async def media(self, clip_id: str) -> OpenedFile:
        clip = await self._desk.locate(clip_id)
        file, descriptor = await self._open_unchanged(clip_id, clip)
        name = printable(PurePath(file.path).name)
        return self._send(descriptor, SentAs(media_type(clip.container, clip.codec), name, clip_id))

    async def sent(self, path: Path, sent_as: SentAs, ended: Callable[[], None] = lambda: None) -> OpenedFile:
        opening = asyncio.get_running_loop().run_in_executor(self._readers, os.open, path, _FLAGS)
        return self._send(await opening, sent_as, ended)

    async def unchanged(self, clip_id: str, clip: ClipMedia) -> Located:
        """Find a readable file of a clip that is unchanged since it was indexed; return it with its present stamp."""
        file, descriptor = await self._open_unchanged(clip_id, clip)
        os.close(descriptor)
        return file

    def _send(self, descriptor: int, sent_as: SentAs, ended: Callable[[], None] = lambda: None) -> OpenedFile:
        if self._playing >= self._most:
            os.close(descriptor)
            raise BusyError("Too many clips are being played; try again in a moment.")
        self._playing += 1

        def played() -> None:
            self._playing -= 1
            ended()

        return OpenedFile(descriptor, sent_as, self._readers, played)

    async def _open_unchanged(self, clip_id: str, clip: ClipMedia) -> tuple[Located, int]:
        why, busy = "is not there any more; is its disk connected?", None
        for file in clip.files:
            opening = asyncio.get_running_loop().run_in_executor(self._readers, open_beneath, file.root, file.path)
            try:
                descriptor = await opening
            except (OSError, ValueError) as error:
                log.info("%s cannot be opened: %s", printable(file.path), error)
                continue
            try:
                return await self._compare(clip_id, file, os.fstat(descriptor)), descriptor
            except BusyError as error:
                os.close(descriptor)
                busy = error
            except (MediaError, OSError):
                os.close(descriptor)
                why = "has changed since it was indexed."
            except BaseException:
                os.close(descriptor)
                raise
        if self._desk.followed.is_published:
            raise busy or NotFoundError(NOT_HERE)
        raise busy or NotFoundError(f"The file {why} `evenreel index` looks again.")

    async def _compare(self, clip_id: str, file: Located, found: os.stat_result) -> Located:
        """The file as it is now; it is read through in the background where only its times have changed."""
        now = FileStamp.of(found)
        if now == file.stamp or now.size != file.stamp.size:
            return self._same.check(clip_id, file, found)
        key = (file.path, now)

        def forget(done: asyncio.Future[Located]) -> None:
            del self._comparing[key]
            if not done.cancelled():
                done.exception()  # whoever asked may have gone

        if key not in self._comparing:
            if len(self._comparing) >= COMPARING:
                raise BusyError("Many files are being compared with what was indexed; try again in a moment.")
            check = partial(self._same.check, clip_id, file, found)
            self._comparing[key] = asyncio.get_running_loop().run_in_executor(self._comparer, check)
            self._comparing[key].add_done_callback(forget)
        try:
            return await asyncio.wait_for(asyncio.shield(self._comparing[key]), COMPARED_S)
        except asyncio.TimeoutError as error:
            raise BusyError("The file is being compared with what was indexed; try again in a moment.") from error


async def received(receive: Receive, most: int, within_s: float) -> bytes:
    """Receive the body of a request; one that is larger than it may be is cut off behind `most` bytes."""

    async def body() -> bytes:
        content, more = bytearray(), True
        while more and len(content) <= most:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            content += message.get("body", b"")
            more = message.get("more_body", False)
        return bytes(content)

    return await asyncio.wait_for(body(), within_s)


class Workers:
    """A few processes that can be killed, each with a thread that waits for it."""

    def __init__(self, name: str, workers: list[Worker]) -> None:
        self._workers, self._idle = workers, SimpleQueue[Worker]()
        for worker in workers:
            self._idle.put(worker)
        self._pool = ThreadPoolExecutor(len(workers), thread_name_prefix=name)

    def run(self, function: Callable[[Worker], T]) -> asyncio.Future[T]:
        def called() -> T:
            worker = self._idle.get()
            try:
                return function(worker)
            finally:
                self._idle.put(worker)

        return asyncio.get_running_loop().run_in_executor(self._pool, called)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._pool.shutdown(wait=True, cancel_futures=True)


@dataclass(eq=False)
class _PictureJob:
    kept: Path
    paint: Callable[[Worker], bytes]
    done: asyncio.Future[bytes]
    page: int
    is_preview: bool = False


class Pictures:
    """Makes stills and previews of files and caches them; those of the latest page come first.

    The small stills that were kept when a clip was indexed are not made again.

    What is kept is named by the clip's id, which is a digest of its content, and only kept if the file was the one that
    was indexed before and after, so that it never goes stale.
    """

    def __init__(self, settings: ServeSettings, stills_of: Callable[[str], Path]) -> None:
        self._settings, self._stills_of = settings, stills_of
        self._under_way: dict[Path, _PictureJob] = {}
        self._waiting: list[_PictureJob] = []
        self._painting = self._painting_previews = 0
        self._page, self._asked_at = 0, 0.0
        self._failed: OrderedDict[Path, tuple[float, MediaError]] = OrderedDict()
        self._written = float("inf")  # since the cache was trimmed: look at the start
        self._lock = threading.Lock()

    def start(self) -> None:
        limits = self._settings.limits
        workers = [Worker(READER, {"limits": asdict(limits)}, limits) for _ in range(self._settings.painters)]
        self._workers = Workers("paint", workers)

    def close(self) -> None:
        self._workers.close()

    def kept_still(self, clip_id: str, time_s: float, width: int) -> bytes | None:
        """Return a still made before, None without; one made when the clip was indexed is of the nearest moment."""
        if _round_up(width) == SIDE_PX and (still := read_still(self._stills_of(clip_id), clip_id, time_s)) is not None:
            return still
        with contextlib.suppress(OSError):
            return self._still_path(clip_id, time_s, width).read_bytes()
        return None

    async def still(self, clip_id: str, file: Located, time_s: float, width: int) -> bytes:
        kept = self._still_path(clip_id, time_s, width)
        task = {"still": file.path, "time_s": time_s, "width": _round_up(width)}
        return await self._made_once(kept, lambda worker: self._paint_still(worker, kept, file, task))

    async def preview(self, clip_id: str, file: Located, part: int) -> Path:
        kept = self.preview_path(clip_id, part)
        start_s = part * PREVIEW_PART_S
        task = {"preview": file.path, "start_s": start_s, "end_s": start_s + PREVIEW_PART_S}
        await self._made_once(kept, lambda worker: self._paint_preview(worker, kept, file, task), is_preview=True)
        return kept

    def preview_path(self, clip_id: str, part: int) -> Path:
        return self._place(clip_id, f"{part}-preview.mp4")

    def _still_path(self, clip_id: str, time_s: float, width: int) -> Path:
        return self._place(clip_id, f"{round(time_s * 1000)}-{_round_up(width)}.jpg")

    def _place(self, clip_id: str, name: str) -> Path:
        return self._settings.cache / clip_id[:2] / f"{clip_id}-{name}"

    async def _made_once(self, kept: Path, paint: Callable[[Worker], bytes], *, is_preview: bool = False) -> bytes:
        """Who asks for what another has asked for already waits for the same picture."""
        now = time.monotonic()
        until, error = self._failed.get(kept, (0.0, None))
        if error is not None and now < until:
            raise error
        job = self._under_way.get(kept)
        if job is None:
            self._page += now - self._asked_at > PAGE_GAP_S
            self._asked_at = now
            job = _PictureJob(kept, paint, asyncio.get_running_loop().create_future(), self._page, is_preview)
            self._under_way[kept] = job
            self._waiting.append(job)
            if len(self._waiting) > WAITING:
                oldest = self._waiting.pop(0)
                self._finish(oldest, BusyError("Too many stills are being made; try again in a moment."))
            self._go_on()
        return await asyncio.shield(job.done)

    def _go_on(self) -> None:
        """Start what can be started: the latest page first, and stills whatever previews there are."""
        while self._painting < self._settings.painters:
            previews = self._painting_previews < max(1, self._settings.painters - 1)
            ready = [job for job in self._waiting if previews or not job.is_preview]
            if not ready:
                return
            job = max(ready, key=lambda one: one.page)
            self._waiting.remove(job)
            self._painting += 1
            self._painting_previews += job.is_preview
            self._workers.run(job.paint).add_done_callback(partial(self._painted_one, job))

    def _painted_one(self, job: _PictureJob, painted: asyncio.Future[bytes]) -> None:
        self._painting -= 1
        self._painting_previews -= job.is_preview
        if painted.cancelled():
            self._finish(job, BusyError("The server is stopping."))
            return
        error = painted.exception()
        if isinstance(error, MediaError) and error.reason not in TRANSIENT:
            self._failed[job.kept] = (time.monotonic() + REMEMBERED_S, error)
            if len(self._failed) > REMEMBERED:
                self._failed.popitem(last=False)
        self._finish(job, error, b"" if error else painted.result())
        self._go_on()

    def _finish(self, job: _PictureJob, error: BaseException | None, made: bytes = b"") -> None:
        self._under_way.pop(job.kept, None)
        if error is None:
            job.done.set_result(made)
        else:
            job.done.set_exception(error)
            job.done.exception()  # whoever asked may have gone

    def _paint_still(self, worker: Worker, kept: Path, file: Located, task: dict[str, object]) -> bytes:
        made = b"".join(array.tobytes() for _, array in worker.run(task) if array is not None)
        check_unchanged(file.path, file.stamp)  # what was painted is the clip's only if the file was until now
        try:
            self._make_cache()
            with replacing(kept) as part:
                part.write_bytes(made)
        except OSError as error:  # it costs speed, nothing else
            log.warning("pictures cannot be kept in %s: %s", self._settings.cache, error.strerror or error)
        self._note_written(len(made))
        return made

    def _paint_preview(self, worker: Worker, kept: Path, file: Located, task: dict[str, object]) -> bytes:
        """Nothing is handed on; the file is what was asked for."""
        self._make_cache()
        with replacing(kept) as part:
            for _ in worker.run({**task, "out": str(part)}):
                pass
            check_unchanged(file.path, file.stamp)
            size_bytes = part.stat().st_size
        self._note_written(size_bytes)
        return b""

    def _make_cache(self) -> None:
        """Make the cache folder, readable by this user alone: its pictures may be of private videos."""
        self._settings.cache.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _note_written(self, size_bytes: int) -> None:
        with self._lock:
            self._written += size_bytes
            due = self._written > self._settings.cache_bytes * TRIM_SHARE / self._settings.workers
            self._written = 0 if due else self._written
        if due:
            trim(self._settings.cache, round(self._settings.cache_bytes * (1 - TRIM_SHARE)))


def trim(folder: Path, most_bytes: int) -> None:
    found: list[tuple[float, int, str]] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(EXPORT)]  # what is just being made or sent
        for name in names:
            with contextlib.suppress(OSError):
                stat = os.stat(os.path.join(place, name))
                found.append((stat.st_mtime, stat.st_size, os.path.join(place, name)))
    excess = sum(size for _, size, _ in found) - most_bytes
    for _, size, path in sorted(found):
        if excess <= 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            excess -= size


def _round_up(width: int) -> int:
    return next((known for known in STILL_WIDTHS if known >= width), STILL_WIDTHS[-1])


class Uploads:
    """Receives and decodes pictures; a few at a time, and a few more that wait for their turn."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._decoding, self._free = settings.share(DECODING), settings.share(QUEUED)
        self._turns = asyncio.Semaphore(self._decoding)

    def start(self) -> None:
        self._workers = Workers("decode", [image_worker(self._settings.image_limits) for _ in range(self._decoding)])

    def close(self) -> None:
        self._workers.close()

    @contextlib.asynccontextmanager
    async def picture(self, request: Request) -> AsyncIterator[Pixels]:
        """Receive and decode the picture of a request, (H, W, 3); the next one is decoded when the block has ended."""
        if not self._free:
            raise BusyError("Other picture searches are running; try again in a moment.")
        self._free -= 1
        try:
            content = await self._receive(request)
            async with self._turns:
                yield await self._workers.run(partial(decode_image, content))
        finally:
            self._free += 1

    async def _receive(self, request: Request) -> bytes:
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


@dataclass(frozen=True)
class OneMoment:
    needs_end: ClassVar[bool] = True
    time_s: float

    def times(self, start_s: float, end_s: float) -> Iterator[float]:
        return iter([max(start_s, min(self.time_s, end_s - LAST_S))])

    def capped(self, duration_s: float, max_frames: int) -> OneMoment:
        return self


class PictureReader:
    """Worker that answers `{"still": path, "time_s", "width"}` with JPEG bytes.

    And `{"preview": path, "start_s", "end_s", "out"}` with a file at `out` and a message for each of its frames.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Told]:
        from evenreel.media.video import still_jpeg  # with PyAV, which the server itself does without

        if "still" in task:
            yield {}, still_jpeg(task["still"], OneMoment(task["time_s"]), task["width"], self._limits)
        else:
            yield from self._preview(task)

    def _preview(self, task: dict[str, Any]) -> Iterator[Told]:
        import av

        from evenreel.media import open_video

        part = Part(task["start_s"], task["end_s"])
        with open_video(task["preview"], self._limits, threads=2) as video:
            frames = video.frames(part.rule(EverySeconds(1 / PREVIEW_RATE)))
            first = next(frames, None)
            if first is None:
                raise MediaError("no_frames", "there are no pictures in this part of the video")
            try:
                with av.open(task["out"], "w", format="mp4", options={"movflags": "+faststart"}) as container:
                    yield from _encode(container, itertools.chain([first], _until_damaged(frames)), task["start_s"])
            except OSError as error:
                why = error.strerror or "it cannot be written"
                raise MediaError("unreadable", f"its preview cannot be written ({why.lower()})") from error


def _encode(container: OutputContainer, frames: Iterator[Frame], start_s: float) -> Iterator[Told]:
    """Write frames into a file whose shorter side is at most `PREVIEW_SIDE_PX`, and even as the codec needs it."""
    from evenreel.media.encode import add_h264, encoded

    stream = None
    for frame in frames:
        if stream is None:
            height, width = frame.pixels.shape[:2]
            factor = min(1.0, PREVIEW_SIDE_PX / min(height, width)) / 2
            size = 2 * max(1, round(width * factor)), 2 * max(1, round(height * factor))
            stream = add_h264(container, size, Fraction(PREVIEW_RATE), CLOCK, PREVIEW_OPTIONS)
        tick = round(max(0.0, frame.time_s - start_s) * CLOCK)
        container.mux(encoded(stream, frame.pixels, tick, CLOCK))
        yield {"time_s": frame.time_s}, None
    if stream is not None:
        container.mux(stream.encode(None))


def _until_damaged(frames: Iterator[Frame]) -> Iterator[Frame]:
    """The good frames of a video that is refused at its end for the others."""
    with contextlib.suppress(MediaError):
        yield from frames
