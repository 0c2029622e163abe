"""To be preloaded by a server that forks for processes which are killed: it outlives a client that dies while asking.

A client that is killed between connecting and sending its pipes leaves an EOFError, which `multiprocessing.forkserver`
does not expect: the server would end, and every later process be refused. A connection that was given up is expected.
"""

from __future__ import annotations

import errno
import socket
from multiprocessing import reduction

_recvfds = reduction.recvfds


def _received(sock: socket.socket, size: int) -> list[int]:
    try:
        return _recvfds(sock, size)
    except EOFError:
        raise ConnectionAbortedError(errno.ECONNABORTED, "the client died before it had sent anything") from None


reduction.recvfds = _received
