"""The process in which Ray's driver runs: tasks come from an index run over a pipe, statuses go back.

Whatever Ray prints goes to standard error, which the index run keeps in a file. It ends when its input does.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO, Any

from evenreel.errors import LibraryError
from evenreel.library.machines.claims import Claims
from evenreel.library.machines.clip_worker import ClipWorker, fault_here
from evenreel.library.machines.orders import WorkOrder, node_name
from evenreel.media.worker_process import claim_pipes
from evenreel.media.workers import read_message, write_message

LOCAL = "local"
"""Address that stands for a cluster of this machine, started for the run."""

_STORE_BYTES = 80 * 2**20
"""Memory for objects: only tasks and statuses are passed through it."""

_WANTS_TOKEN = (
    "The Ray cluster at {} wants a token; set RAY_AUTH_MODE=token and put the token into RAY_AUTH_TOKEN, or into a "
    "file that RAY_AUTH_TOKEN_PATH names."
)

_OTHER_VERSION = (
    "This machine has another version of Ray or Python than the Ray cluster at {}; install the same on every machine."
)

_ATTEMPTS = 3
_MOST_STARTS_LOST = 20
"""Workers that may be killed one after the other before any of them has begun."""

_MOST_CORES = 4
_LOOK_S = 60.0


@dataclass(frozen=True)
class Team:
    """Workers of a run: how many, and the cores and GPUs, and files at a time, of each."""

    size: int
    cores: int
    gpus: int
    readers: int


def main() -> None:
    """Serve one index run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have had it ignored
    tasks, messages = claim_pipes()
    setup, _ = read_message(tasks)
    os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
    if setup["address"] == LOCAL:  # Ray would keep a token of its own making in the home folder
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    os.chdir(setup["temp"])  # Ray has its workers look for modules in the current folder first
    import ray

    driver = Driver(messages)
    try:
        _connect(setup)
        driver.prepare(setup)
        threading.Thread(target=_listen, args=(tasks, driver), daemon=True).start()
        driver.serve()
    except LibraryError as error:
        write_message(messages, {"kind": "failed", "sentence": str(error)})
    except KeyboardInterrupt:
        pass  # the index run has ended
    except Exception as error:
        sentence = f"Ray failed ({type(error).__name__}: {_in_short(error)})."
        write_message(messages, {"kind": "failed", "sentence": sentence})
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ray.shutdown()
        shutil.rmtree(setup["temp"], ignore_errors=True)


def _connect(setup: dict[str, Any]) -> None:
    import ray

    usual: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if setup["address"] != LOCAL:
        try:
            ray.init(address=setup["address"], **usual)
        except Exception as error:
            why = str(error) + repr(error.__cause__)
            known = {"Authentication": _WANTS_TOKEN, "Version mismatch": _OTHER_VERSION}
            sentence = next((told for words, told in known.items() if words in why), "")
            raise LibraryError(sentence.format(setup["address"])) from error
        return
    usual |= {"include_dashboard": False, "_temp_dir": setup["temp"], "object_store_memory": _STORE_BYTES}
    for attempt in range(_ATTEMPTS):
        try:
            ray.init(address=LOCAL, num_cpus=setup["cores"], **usual)
            return
        except Exception as error:  # on a busy machine Ray gives itself up after 30 s
            ray.shutdown()
            if attempt + 1 == _ATTEMPTS:
                raise LibraryError(
                    f"Ray could not be started on this machine ({_in_short(error)}); wait until it is less busy, or "
                    "leave --ray out."
                ) from error


def _in_short(error: Exception) -> str:
    """The last line of what an error says."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].rstrip(".")


def _listen(tasks: IO[bytes], driver: Driver) -> None:
    """Hand on what the index run says; where it is gone, interrupt what is under way."""
    while True:
        try:
            message, _ = read_message(tasks)
        except (EOFError, ValueError, OSError):
            os.kill(os.getpid(), signal.SIGINT)
            return
        driver.hear(message)


class Driver:
    """Runs rounds of tasks with Ray Data on all machines."""

    def __init__(self, messages: IO[bytes]) -> None:
        self._messages = messages
        self._rounds: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._tasks: list[str] = []

    def prepare(self, setup: dict[str, Any]) -> None:
        """Look whether every machine can take part, and begin to keep claims."""
        import ray
        from ray.data import DataContext
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._order, self._most_blocks = setup["order"], setup["blocks"]
        write_message(self._messages, {"kind": "connected"})
        _check_nodes(self._order)
        self._team = _team(ray.nodes(), WorkOrder.from_json(self._order), setup["workers"])
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)  # where catalogs are
        claims = ray.remote(Claims).options(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)
        self._claimed = claims.remote(self._order)
        ray.get(self._claimed.begin.remote())
        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.target_max_block_size = 1  # each status is handed on at once
        context.execution_no_progress_timeout_s = -1  # a film may take longer than any limit; its reader has one
        context.max_consecutive_actor_init_deaths = _MOST_STARTS_LOST
        write_message(self._messages, {"kind": "ready"})

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message of the index run."""
        if message["kind"] == "settled":
            self._claimed.settle.remote(message["number"])
        elif message["kind"] == "tasks":
            self._tasks += [json.dumps(task) for task in message["tasks"]]
        else:
            self._rounds.put({"tasks": self._tasks, "alone": message["alone"]})
            self._tasks = []

    def serve(self) -> None:
        """Run rounds for ever."""
        import ray

        while True:
            given = self._rounds.get()
            ray.get(self._claimed.begin.remote())
            for status in self._statuses(given["tasks"], alone=given["alone"]):
                write_message(self._messages, {"kind": "status", "status": json.loads(status)})
            write_message(self._messages, {"kind": "end"})

    def _statuses(self, tasks: list[str], *, alone: bool) -> Iterator[str]:
        """Have the workers read files; where a file may be to blame for their end, each alone with its worker."""
        import ray.data
        from ray.data import ActorPoolStrategy

        team, blocks = self._team, min(len(tasks), self._most_blocks)
        readers = 1 if alone else team.readers
        size = max(1, min(team.size, -(-len(tasks) // readers)))
        pool = ActorPoolStrategy(
            min_size=1,
            max_size=size,
            initial_size=size,
            max_tasks_in_flight_per_actor=readers if alone else 2 * readers,
            max_concurrent_calls_per_actor=readers,
            enable_true_multi_threading=True,
        )
        found = ray.data.from_items([{"task": task} for task in tasks], override_num_blocks=blocks).map_batches(
            _RayWorker,
            fn_constructor_args=({**self._order, "readers": readers}, self._claimed),
            batch_size=1,
            batch_format="numpy",
            compute=pool,
            num_cpus=team.cores,
            num_gpus=team.gpus or None,
        )
        for row in found.iter_rows():
            yield row["status"]


class _RayWorker(ClipWorker):
    """A worker that asks for claims at an actor of Ray."""

    def __init__(self, order: dict[str, Any], claims: Any) -> None:
        import ray

        super().__init__(order, lambda method, *values: ray.get(getattr(claims, method).remote(*values)))


def _check_nodes(order: dict[str, Any]) -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(fault_here)
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        try:
            fault = ray.get(look.options(num_cpus=0, scheduling_strategy=here).remote(order), timeout=_LOOK_S)
        except Exception as error:
            name = node.get("NodeManagerHostname", node_name())
            what = _in_short(error)
            raise LibraryError(
                f"evenreel does not run on {name} ({what}); install evenreel {order['version']} with the extra 'scale' "
                "on every machine of the Ray cluster."
            ) from error
        if fault is not None:
            raise LibraryError(fault)


def _team(nodes: list[dict[str, Any]], order: WorkOrder, workers: int) -> Team:
    """The workers of a run: one for each GPU with its share of the cores, else one for at most four cores."""
    has = [node["Resources"] for node in nodes if node["Alive"]]
    cores = [int(one.get("CPU", 0)) for one in has if one.get("CPU", 0) >= 1] or [1]
    gpus = sum(int(one.get("GPU", 0)) for one in has) if order.device in {"auto", "cuda"} and order.model else 0
    if gpus:
        share, size = max(1, sum(cores) // gpus), gpus
    else:
        share = min(_MOST_CORES, max(1, min(cores) // 2))
        size = sum(one // share for one in cores)
    readers = min(share, workers or share)
    return Team(min(size, -(-workers // readers)) if workers else size, share, min(1, gpus), readers)


if __name__ == "__main__":
    main()
