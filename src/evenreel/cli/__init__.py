"""The command line; `evenreel --help` lists its commands."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_SET_ASIDE = 3
EXIT_INTERRUPTED = 130
INTERRUPTED = (
    "Interrupted; what was finished is kept: the same command goes on from there (`train` with --resume), or begins "
    "anew where it keeps nothing half done (`adapt`)."
)

FAREWELL_S = 3.0
"""How long an interrupted process may take to end by itself."""


class Interrupted(BaseException):
    """Raised when the user or the system stops the program; no `except Exception` takes it for a failure."""


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 3 done but inputs were set aside."""
    from evenreel.cli.app import app
    from evenreel.cli.output import open_output
    from evenreel.errors import EvenreelError, UsageError
    from evenreel.extras import needed_extra
    from evenreel.provenance import typed

    open_output()
    _listen_to_signals()
    try:
        with typed(sys.argv[1:]):
            app(standalone_mode=True)
    except UsageError as error:
        _fail(error.args, EXIT_USAGE)
    except EvenreelError as error:
        _fail(error.args, EXIT_FAILED)
    except ModuleNotFoundError as error:
        if (sentence := needed_extra(error, "This command")) is None:
            raise
        _fail([sentence], EXIT_FAILED)
    except Interrupted:
        _end_soon(EXIT_INTERRUPTED)
        _fail([INTERRUPTED], EXIT_INTERRUPTED)


def _listen_to_signals() -> None:
    """Stop cleanly when asked to, but not by a signal that our parent has told us to ignore, as `nohup` does."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


def _end_soon(code: int) -> None:
    """See to it that the process ends; Python would wait for a thread that hears nothing, where a model is loading."""
    last = threading.Timer(FAREWELL_S, os._exit, (code,))
    last.daemon = True
    last.start()


def _fail(sentences: Sequence[object], code: int) -> None:
    from evenreel.wording import printable

    if sys.stderr is not None:
        sys.stderr.write("evenreel: " + "\n  ".join(printable(str(one)) for one in sentences) + "\n")
    sys.exit(code)
