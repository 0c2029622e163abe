"""Searches that wait for a thread: which of them it takes together."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from evenreel.errors import EvenreelError
from evenreel.library import Library
from evenreel.library.search.query import read_query, readable

MOST = 16
"""Most searches that are taken together."""


@dataclass(frozen=True)
class Wanted:
    """The text that a search is for."""

    text: str


@dataclass(frozen=True)
class RequestNeeds:
    """What a function needs to be run on the library.

    Attributes:
        model: whether it is not to be run while the model is being loaded, or exchanged for another one.
        rerank: whether it re-ranks, which one thread does for all.
        wanted: the text that it searches for; texts that wait are encoded together.
    """

    model: bool = False
    rerank: bool = False
    wanted: Wanted | None = None


@dataclass(eq=False)
class Request:
    """A function that waits to be run on the library.

    Attributes:
        function: the function.
        wanted: what it searches for; None where that is no text.
        answer: receives what the function returns or raises.
    """

    function: Callable[[Library], Any]
    wanted: Wanted | None = None
    answer: Future[Any] = field(default_factory=Future)

    def run(self, library: Callable[[], Library]) -> None:
        """Run the function, unless whoever asked has gone."""
        if not self.answer.set_running_or_notify_cancel():
            return
        try:
            answer = self.function(library())
        except BaseException as error:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(answer)


class Turns:
    """Line of requests that some threads work off, first come, first served.

    A thread takes one request at a time, until none waits. Where searches for texts wait, it takes an equal share of
    them together, so that their texts are encoded at once; nothing waits for others to come.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._taking = 0  # threads that take from the line until it is empty
        self._line: deque[Request] = deque()
        self._lock = threading.Lock()

    def put(self, request: Request) -> bool:
        """Put a request at the end of the line; return whether one more thread has to begin to take from it."""
        with self._lock:
            self._line.append(request)
            begins = self._taking < self._threads
            self._taking += begins
            return begins

    def cancel(self) -> None:
        """Cancel the requests that no thread has taken."""
        with self._lock:
            waiting, self._line = self._line, deque()
        for request in waiting:
            request.answer.cancel()

    def take(self) -> list[Request]:
        """Take the first request, and with a search for a text further ones; of none, the thread takes no more."""
        with self._lock:
            if not self._line:
                self._taking -= 1
                return []
            if self._line[0].wanted is None:
                return [self._line.popleft()]
            searches = [request for request in self._line if request.wanted is not None]
            taken = searches[: min(MOST, -(-len(searches) // self._threads))]
            self._line = deque(request for request in self._line if request not in taken)
            return taken


def look_ahead(library: Library, wanted: Sequence[Wanted]) -> None:
    """Encode texts that are searched for next together, by an encoder that keeps what it has encoded.

    What cannot be read or encoded is left to the search for it.
    """
    encoder, texts = library.encoder, list[str]()
    for one in wanted:
        with contextlib.suppress(EvenreelError):
            asked = read_query(readable(one.text) or "-")
            texts += [asked.text] if asked.sees else []
    if encoder is not None and texts:
        with contextlib.suppress(EvenreelError):
            encoder.encode_text(texts)
