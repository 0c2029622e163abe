"""Runs commands of `evenreel` for `same_outputs`, each in a fork that has the heavy imports of others behind it.

Begun with the number of the core to run on. Reads a task a line and answers a line, both JSON. Nothing of evenreel is
imported before a fork.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

HEAVY = (
    "numpy", "polars", "torch", "torch.utils.data", "torch.nn", "av", "PIL.Image", "scipy.stats", "scipy.optimize",
    "typer", "rich.console", "yaml", "safetensors.torch", "lightning_fabric", "lightning.fabric", "tokenizers",
    "transformers.models.clip.modeling_clip", "transformers.models.clip.tokenization_clip", "plotly.graph_objects",
    "lemminflect", "sklearn.manifold", "sqlglot", "pydantic", "jinja2", "cv2", "torch.utils.flop_counter",
)  # fmt: skip
LIMIT_S = 1200


def in_a_fork(body: Any) -> tuple[int, str, str]:
    """Exit status and both streams of a function that is called in a child."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
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
        _, ended = os.waitpid(child, 0)
        streams = []
        for file in (out, err):
            file.seek(0)
            streams.append(file.read().decode("utf-8", "replace"))
        return os.waitstatus_to_exitcode(ended), streams[0], streams[1]


def run(words: list[str]) -> None:
    """As the shell would begin it."""
    import signal

    signal.alarm(LIMIT_S)
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
            code, out, err = in_a_fork(lambda words=task["words"]: run(words))
            answer: dict[str, Any] = {"code": code, "out": out, "err": err}
        elif task["task"] == "commands":
            code, out, err = in_a_fork(print_commands)
            answer = json.loads(out) if code == 0 else sys.exit(err)
        else:
            answer = {"where": str(Path(in_a_fork(print_place)[1].strip()).resolve())}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
