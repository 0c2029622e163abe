"""Runs commands of `evenreel` for `same_outputs`, each in a fork that has the heavy imports of others behind it.

Begun with the number of the core to run on, and the root of the checkout. Reads a task a line and answers a line, both
JSON. Nothing of evenreel is imported before a fork.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import runpy
import signal
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from answers import answers_of

HEAVY = (
    "numpy", "polars", "torch", "torch.utils.data", "torch.nn", "av", "PIL.Image", "scipy.stats", "scipy.optimize",
    "typer", "rich.console", "yaml", "safetensors.torch", "lightning_fabric", "lightning.fabric", "tokenizers",
    "transformers.models.clip.modeling_clip", "transformers.models.clip.tokenization_clip", "plotly.graph_objects",
    "lemminflect", "sklearn.manifold", "pydantic", "jinja2", "cv2", "torch.utils.flop_counter",
)  # fmt: skip
LIMIT_S = 1200


def begun(body: Any) -> tuple[int, Any, Any]:
    """Process that calls a function, and the files of what it prints."""
    out, err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115 -- `ended` closes them
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 70
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
            sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
            body()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return child, out, err


def ended(child: int, out: Any, err: Any) -> dict[str, Any]:
    """Exit status of a process, all it printed, and the seconds of processor time it took with its children."""
    _, status, used = os.wait4(child, 0)
    streams = []
    for file in (out, err):
        with file:
            file.seek(0)
            streams.append(file.read().decode("utf-8", "replace"))
    code, used_s = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
    return {"code": code, "out": streams[0], "err": streams[1], "used_s": used_s}


def in_a_fork(body: Any) -> dict[str, Any]:
    """What came of a function that was called in a child."""
    return ended(*begun(body))


def served(words: list[str], requests: list[str]) -> dict[str, Any]:
    """What `evenreel serve` answers, run until all is answered."""
    child, out, err = begun(lambda: run([*words, "--port", "0"]))
    answers: list[str] = []
    try:
        while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            if address := re.search(rb"http://[\d.]+:\d+/", os.pread(out.fileno(), 4096, 0)):
                answers = answers_of(address[0].decode(), requests)
                break
            time.sleep(0.05)
    finally:
        os.kill(child, signal.SIGINT)
    return {**ended(child, out, err), "answers": answers}


def run(words: list[str]) -> None:
    """As the shell would begin it: `evenreel` with these words, or `python -m MODULE` of the checkout with the rest."""
    signal.alarm(LIMIT_S)
    if words[:2] == ["python", "-m"]:
        sys.path.insert(0, str(Path(sys.argv[2])))
        sys.argv = words[2:]
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        return
    sys.argv = ["evenreel", *words]
    from evenreel.cli import main

    main()


def print_commands() -> None:
    """Every command with its options, defaults and help."""
    import typer

    from evenreel.cli.app import app

    found: dict[str, Any] = {}

    def walk(command: Any, path: list[str]) -> None:
        for name, each in getattr(command, "commands", {}).items():
            walk(each, [*path, name])
        if path and not hasattr(command, "commands"):
            said = io.StringIO()  # typer prints a help in colours, and returns one without
            with typer.Context(command, info_name=" ".join(["evenreel", *path])) as context, redirect_stdout(said):
                text = command.get_help(context)
            text = text or said.getvalue()
            options = {max(one.opts, key=len): _about(one) for one in command.params if one.param_type_name == "option"}
            found[" ".join(path)] = {"options": options, "help": text}

    walk(typer.main.get_command(app), [])
    print(json.dumps(found))


def _about(option: Any) -> str:
    """What of an option is no wording: its default, and whether it must or may be given, and how often."""
    names = sorted([*option.opts, *option.secondary_opts])
    return f"{names} default={option.default!r} required={option.required} values={option.nargs} many={option.multiple}"


def print_place() -> None:
    """Where evenreel is imported from."""
    import evenreel

    print(evenreel.__file__)


def main() -> None:
    """Answer until nothing more is asked."""
    answers, sys.stdout = sys.stdout, sys.stderr
    if hasattr(os, "sched_setaffinity"):  # with one core, readers end in the order in which they began
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(sys.argv[1]) % len(cores)]})
    for name in HEAVY:
        try:
            importlib.import_module(name)
        except Exception:
            continue
    assert not any(name.partition(".")[0] == "evenreel" for name in sys.modules)
    for line in sys.stdin:
        task = json.loads(line)
        if task["task"] == "run":
            answer = in_a_fork(lambda words=task["words"]: run(words))
        elif task["task"] == "serve":
            answer = served(task["words"], task["requests"])
        elif task["task"] == "commands":
            done = in_a_fork(print_commands)
            answer = json.loads(done["out"]) if done["code"] == 0 else sys.exit(done["err"])
        else:
            answer = {"where": str(Path(in_a_fork(print_place)["out"].strip()).resolve())}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
