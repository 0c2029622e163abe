"""The command line: `evenreel index`, `search`, `info`, `verify`, `repair`, `demo`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_SET_ASIDE = 3
EXIT_INTERRUPTED = 130


class Interrupted(BaseException):
    """The user or the system asks us to stop; no part of the program takes it for a failure of its own."""


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 3 done but inputs were set aside."""
    from evenreel.cli.app import app
    from evenreel.errors import EvenreelError, UsageError

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    try:
        app(standalone_mode=True)
    except UsageError as error:
        _fail(str(error), EXIT_USAGE)
    except EvenreelError as error:
        _fail(str(error), EXIT_FAILED)
    except Interrupted:
        _fail(
            "Interrupted; what was finished is kept, and the same command goes on from there.",
            EXIT_INTERRUPTED,
        )
    except BrokenPipeError:  # the reader of our output has gone, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


def _fail(sentence: str, code: int) -> None:
    sys.stderr.write(f"evenreel: {sentence}\n")
    sys.exit(code)
