"""The command line; `evenreel --help` lists its commands."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from evenreel.errors import EvenreelError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_SET_ASIDE = 3
EXIT_INTERRUPTED = 130
INTERRUPTED = (
    "Interrupted; what was finished is kept: the same command goes on from there (`train` with --resume), or begins "
    "anew where it keeps nothing half done (`adapt`)."
)

FAREWELL_S = 3.0  # how long an interrupted process may take to end by itself


class Interrupted(BaseException):
    """Raised when the user or the system stops the program; no `except Exception` takes it for a failure."""


class Output(io.TextIOWrapper):
    """A text stream that falls silent when its reader has gone, as in `evenreel ... | head -1`.

    The command goes on and keeps its exit status; as an exception, the closed pipe would become a failure in
    typer and in rich before we could catch it.
    """

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._fall_silent(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._fall_silent(error)

    def _fall_silent(self, error: OSError) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        if not isinstance(error, BrokenPipeError):
            why = (error.strerror or str(error)).lower()
            raise EvenreelError(f"The output cannot be written ({why}); send it elsewhere.") from error


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 3 done but inputs were skipped."""
    from evenreel import extras
    from evenreel.cli.app import app, asked
    from evenreel.cli.progress import LogLines
    from evenreel.errors import UsageError
    from evenreel.extras import needed_extra
    from evenreel.provenance import typed

    _open_output()
    _listen_to_signals()
    try:
        words = sys.argv[1:] or asked()
    except (EOFError, Interrupted):
        sys.stdout.write("\n")
        return
    if words is None:
        return
    try:
        extras.on_download = LogLines().download
        with typed(words):
            app(words, standalone_mode=True)
    except UsageError as error:
        _fail(error.args, EXIT_USAGE)
    except EvenreelError as error:
        _fail(error.args, EXIT_FAILED)
    except ModuleNotFoundError as error:
        if (sentence := needed_extra(error, "This command")) is None:
            raise
        _fail([sentence], EXIT_FAILED)
    except Interrupted:
        last = threading.Timer(FAREWELL_S, os._exit, (EXIT_INTERRUPTED,))  # Python waits for a model that is loading
        last.daemon = True
        last.start()
        _fail([INTERRUPTED], EXIT_INTERRUPTED)


def _open_output() -> None:
    """Make standard output forgiving: a closed reader is no failure, and what it cannot encode is escaped.

    Standard error escapes by itself, whatever the environment says.
    """
    if sys.stdout is None:  # started with `>&-`; the catalog must not become file 1
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- open to the end
    elif isinstance(sys.stdout, io.TextIOWrapper):
        encoding, by_line = sys.stdout.encoding, sys.stdout.line_buffering
        sys.stdout = Output(sys.stdout.detach(), encoding, "backslashreplace", line_buffering=by_line)


def _listen_to_signals() -> None:
    """Stop cleanly when asked to, but not by a signal that our parent has told us to ignore, as `nohup` does."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


def _fail(sentences: Sequence[object], code: int) -> None:
    from evenreel.files import printable

    if sys.stderr is not None:
        sys.stderr.write("evenreel: " + "\n  ".join(printable(str(one)) for one in sentences) + "\n")
    sys.exit(code)
