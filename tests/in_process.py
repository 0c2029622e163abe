"""The command line as it is typed, in this process: its imports take a new one a second or more of processor time."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from evenreel import cli


def run_here(*arguments: str | Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The exit status and both streams of `evenreel` with these words; an exception that `main` lets pass is raised.

    The environment is added to ours. What listens to signals is left out, since they are the test runner's, and what
    is logged goes to standard error as in a new process.
    """
    command = ["evenreel", *map(str, arguments)]
    root, written, said = logging.getLogger(), io.BytesIO(), io.BytesIO()
    level = root.level
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(cli, "_listen_to_signals", lambda: None)
        patch.setattr(root, "handlers", [])
        patch.setattr(sys, "argv", command)
        patch.setattr(sys, "stdout", io.TextIOWrapper(written, "utf-8"))
        patch.setattr(sys, "stderr", io.TextIOWrapper(said, "utf-8", "backslashreplace", write_through=True))
        try:
            with pytest.raises(SystemExit) as end:
                cli.main()
            sys.stdout.flush()
            output, errors = (stream.getvalue().decode("utf-8") for stream in (written, said))
        finally:
            root.setLevel(level)
    code = end.value.code
    assert code is None or isinstance(code, int)
    return subprocess.CompletedProcess(command, code or 0, output, errors)
