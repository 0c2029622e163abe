"""Standard output that no reader and no character can break, and text that cannot steer the terminal."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from evenreel.errors import EvenreelError


class Output(io.TextIOWrapper):
    """A text stream that falls silent when its reader has gone, as in `evenreel ... | head -1`.

    The command goes on and keeps its exit status; as an exception, the closed pipe would become a failure in
    typer and in rich before we could catch it.
    """

    def write(self, text: str, /) -> int:
        """Write text, or drop it where nobody reads."""
        try:
            return super().write(text)
        except OSError as error:
            self._fall_silent(error)
            return len(text)

    def flush(self) -> None:
        """Hand everything on, or drop it where nobody reads."""
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


def open_output() -> None:
    """Make standard output forgiving: a closed reader is no failure, and what it cannot encode is escaped.

    Standard error escapes by itself, whatever the environment says.
    """
    if sys.stdout is None:  # started with `>&-`; the catalog must not become file 1
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- open to the end
    elif isinstance(sys.stdout, io.TextIOWrapper):
        encoding, by_line = sys.stdout.encoding, sys.stdout.line_buffering
        sys.stdout = Output(sys.stdout.detach(), encoding, "backslashreplace", line_buffering=by_line)


def as_utf8(argument: str | None) -> str | None:
    """Read an argument as UTF-8 whose bytes Python has kept as surrogates, because the locale cannot hold them."""
    if argument is None or argument.isascii():
        return argument
    try:
        argument.encode()
    except UnicodeEncodeError:
        return os.fsencode(argument).decode("utf-8", "replace")
    return argument
