"""The process that indexes, with readers that need no recogniser, held after its first video until a file is there."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from evenreel.library.index import run as index_run
from evenreel.server import adding_run as run

GATE = "EVENREEL_TEST_GATE"


def main() -> None:
    gate, stopped, really = Path(os.environ[GATE]), threading.Event(), run._stop
    file_done = run.SaidProgress.file_done

    def held(progress: run.SaidProgress, path: str) -> None:
        file_done(progress, path)
        while not (gate.exists() or stopped.is_set()):
            time.sleep(0.01)

    def stop() -> None:
        stopped.set()
        really()

    run.SaidProgress.file_done = held  # type: ignore[method-assign, assignment]
    run.SAID_EVERY_S = 0.01
    run._stop = stop
    index_run.READER = "tests.library.stub_reader:QuickReader"
    run.main()


if __name__ == "__main__":
    main()
