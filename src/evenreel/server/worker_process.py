"""One of several processes that serve a library; started by `evenreel.server.supervisor`, which gives it visitors."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys

from evenreel.server.app import make_app, server_config
from evenreel.server.connections import LimitedServer
from evenreel.server.peers import Peers
from evenreel.server.supervisor import ALIVE, ALL_READY, BEAT_S, ENDED, LEAVING, NO_MORE, READY, UP, VISITOR
from evenreel.server.worker_task import WorkerTask

LOOK_S = 0.05
"""Seconds between two looks at whether the model is loaded, and for what the last visitors say to arrive."""
LAST_WORD_S = 1.0
"""Seconds that the supervisor has to say that no more visitors will come."""


class HandedServer(LimitedServer):
    """Server without a port of its own: it is handed connections over a socket pair."""

    def __init__(self, task: WorkerTask, channel: socket.socket) -> None:
        self._channel, self._peers = channel, Peers(task.shared)
        self._no_more = asyncio.Event()
        settings = task.settings.of_one_worker()
        self._app = make_app(task.library, settings, self._peers)
        super().__init__(server_config(self._app), settings.connections, settings.idle_s)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the library, say that visitors may come, and begin to take them."""
        await super().startup(sockets=[])
        self._channel.setblocking(False)
        asyncio.get_running_loop().add_reader(self._channel, self._hear)
        self._say(UP)
        self._loading = asyncio.create_task(self._say_when_ready())
        self._living = asyncio.create_task(self._say_now_and_then())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Have no more visitors sent, end the answers under way, those to the last visitors too, close the library."""
        self._say(LEAVING)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._no_more.wait(), LAST_WORD_S)
        asyncio.get_running_loop().remove_reader(self._channel)
        if self._arriving:
            await asyncio.wait(self._arriving, timeout=LAST_WORD_S)
        await asyncio.sleep(LOOK_S)
        self._loading.cancel()
        self._living.cancel()
        await super().shutdown(sockets=None)

    async def _say_when_ready(self) -> None:
        while self._app.state.desk.model == "loading":
            await asyncio.sleep(LOOK_S)
        self._say(READY)

    async def _say_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self._say(ALIVE)

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # the supervisor has gone
            self._channel.send(word)

    def _hear(self) -> None:
        """Take one visitor or one word; where the supervisor has gone, end."""
        try:
            word, files, _, _ = socket.recv_fds(self._channel, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            word, files = b"", []
        if word == ALL_READY:
            self._peers.all_ready = True
        elif word == NO_MORE:
            self._no_more.set()
        elif word == VISITOR:
            for file in files:
                self.take(socket.socket(fileno=file))
        elif not word:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._no_more.set()
            self.should_exit = True

    def lost(self) -> None:
        """Say that a connection has ended."""
        self._say(ENDED)


def main() -> None:
    """Serve what standard input says, over the socket whose number is the first argument, until told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    task = WorkerTask.from_json(sys.stdin.buffer.read())
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        HandedServer(task, channel).run()


if __name__ == "__main__":
    main()
