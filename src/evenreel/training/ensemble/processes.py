"""Training of several members at a time, each in a process of its own, with results in their folders."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, cast

import torch

from evenreel.errors import EvenreelError, UsageError
from evenreel.media.workers import safe_path
from evenreel.training.ensemble.runs import MemberRun
from evenreel.training.loop.milestones import TrainingError
from evenreel.training.loop.run import RunHooks

CONTEXT: Any = multiprocessing.get_context("spawn")
"""A fork of a process with threads may hang."""

Working = dict[Connection, tuple[MemberRun, BaseProcess]]
Message = tuple[int, Mapping[str, float]] | EvenreelError
"""The number of a step with the latest figures, or why the training ended."""


def train_apart(runs: Sequence[MemberRun], folder: Path, at_once: int, outside: RunHooks) -> None:
    """Train members in several processes, each with its own copy of the features and its share of the threads.

    When this process ends, the others end too, at their next step at the latest.

    Args:
        runs: members to train.
        folder: folder in which each run has its own.
        at_once: number of processes at a time.
        outside: callbacks; `watch` is called with the steps of all runs added up.

    Raises:
        UsageError: the measure cannot be sent to another process.
        TrainingError: a process ended without a result, for lack of memory for example.
        EvenreelError: the training of a member failed; the error is the member's own.
    """
    _check_sendable(outside)
    steps, total = {run.name: 0 for run in runs}, sum(run.steps for run in runs)
    threads = max(1, torch.get_num_threads() // at_once)
    waiting = list(runs)
    with _ended_with() as working:
        while waiting or working:
            while waiting and len(working) < at_once:
                working.update(_begun(waiting.pop(0), folder, outside, threads))
            for connection in cast("list[Connection]", wait(list(working))):
                message = _heard(connection, *working[connection])
                if message is None:
                    del working[connection]
                    continue
                steps[working[connection][0].name], figures = message
                outside.watch(sum(steps.values()), total, figures)


@contextmanager
def _ended_with() -> Iterator[Working]:
    """Room for processes that end here at the latest."""
    working: Working = {}
    try:
        yield working
    finally:
        for _, process in working.values():
            process.kill()
            process.join()


def _begun(run: MemberRun, folder: Path, outside: RunHooks, threads: int) -> Working:
    here, there = CONTEXT.Pipe(duplex=False)
    sent = replace(outside, watch=_no_watch)
    process = CONTEXT.Process(target=_train, args=(run, folder, sent, threads, there), daemon=True)
    with safe_path():
        process.start()
    there.close()
    return {here: (run, process)}


def _heard(connection: Connection, run: MemberRun, process: BaseProcess) -> tuple[int, Mapping[str, float]] | None:
    """What a process says of its latest step; None where its training is over."""
    try:
        message: Message = connection.recv()
    except EOFError:
        process.join()
        if process.exitcode:
            raise TrainingError(
                f"The process that trained member {run.name} came to an end by itself (status {process.exitcode}), "
                "perhaps for want of memory; go on with --resume, and train fewer at a time (members.at_once)."
            ) from None
        return None
    if isinstance(message, EvenreelError):
        raise message
    return message


def _train(run: MemberRun, folder: Path, outside: RunHooks, threads: int, connection: Connection) -> None:
    """All that a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts means the process that started this one
    torch.set_num_threads(threads)

    def watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
        connection.send((step, dict(figures)))

    try:
        run.train(folder, replace(outside, watch=watch))
    except BrokenPipeError:
        return  # nobody is there any more
    except EvenreelError as error:
        connection.send(error)


def _no_watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
    """Stands in for what a process cannot be sent."""


def _check_sendable(outside: RunHooks) -> None:
    try:
        ForkingPickler.dumps(outside.measure)
    except Exception as error:  # whatever its parts raise
        raise UsageError(
            "members.at_once trains in processes of their own, and the measure cannot be sent to one "
            f"({type(error).__name__}: {error}); make it a function of a module, or an object of a class of one."
        ) from error
