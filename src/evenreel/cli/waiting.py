"""A bar for work that reports its share, shown to those who wait long enough to wonder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from evenreel.progress import Progress

PATIENCE_S = 2.0


@contextlib.contextmanager
def share_bar(words: str) -> Iterator[Progress]:
    """A function to call with the share that is done; a bar is drawn after `PATIENCE_S`, where someone is looking.

    Args:
        words: what is done; a file's name in them is shown as text.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from evenreel.wording import printable

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with contextlib.ExitStack() as stack:
        bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        task = bar.add_task(printable(words), total=1.0)
        started = time.monotonic()

        def report(share: float) -> None:
            if not bar.live.is_started and time.monotonic() - started > PATIENCE_S:
                stack.enter_context(bar)
            bar.update(task, completed=share)

        yield report
