"""Indexing on many machines: Ray Data hands paths to workers, which leave files at a place and answer with a status.

The index run alone writes to the library. Ray's driver runs in a process of its own (`drive`), so that what Ray prints,
hangs on or dies of stays there: it is told its order in a line of JSON, answers with a line for each file, and ends
when its input does. Ray restarts workers and gives what they were reading to others.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path
from pkgutil import resolve_name
from queue import SimpleQueue
from typing import Any, NamedTuple

from evenreel.config import IndexSettings, Machines, MediaLimits, usable_cores
from evenreel.errors import EvenreelError, LibraryError, MediaError
from evenreel.extras import installed, needed_extra
from evenreel.features.clip_reader import ClipReader, OtherWindowsError, SharedModel, SpeechHearing, WantedStages
from evenreel.features.shards import SUFFIX, Stills, parse_shard, shard_bytes, stills_bytes, tidy_shards
from evenreel.files import printable
from evenreel.library.index.scan import IndexRun, known_files, still_wanted
from evenreel.library.index.stages import Orders, Reading, ReadingStage, file_reader, read_file
from evenreel.library.published import Place, reason_of, telling
from evenreel.library.store.catalog import SHARDS
from evenreel.library.store.writer import FoundFile
from evenreel.media.workers import claim_pipes, command, stamp, watched_digest
from evenreel.version import __version__

LOCAL, LOADER = "local", "evenreel.library.index.stages:load"
ARRIVING = "arriving"  # folder of a library where workers leave what they made, or that says where else they do
SENT = ("shards", "stills")  # folders of a place, with a file for each clip
CONNECT_S, LOOK_S, FAREWELL_S = 120, 60, 10
MOST_BLOCKS = 2_000  # parts that files come to Ray in; one that takes its worker with it is begun three times
END = b"null\n"  # of the answers of the driver
SAFE = "what was indexed so far is safe: run the same command again"

log = logging.getLogger("evenreel")


class Status(NamedTuple):
    """What became of a file: `made`, `known`, `unseen` there, a `fault` that ends the run, or why it is set aside."""

    path: str
    node: str
    kind: Any
    sentence: str = ""
    clip_id: str | None = None
    frames: int = 0
    notes: Sequence[str] = ()


def check_address(address: str) -> None:
    """Check that Ray is installed and that an address may be one."""
    if not installed("ray"):
        raise LibraryError(needed_extra(ModuleNotFoundError(name="ray"), "Indexing with --ray"))
    host, _, port = address.rpartition(":")
    if address != LOCAL and not (host and port.isdigit() and "/" not in address):
        raise LibraryError(
            f"--ray {address} is no address of a Ray cluster; give HOST:PORT as `ray start --head` prints it, on a "
            f"machine of the cluster, or {LOCAL}."
        )


class SpreadRun:
    """Reading of files by the workers of a Ray cluster; what they made is put here."""

    def __init__(self, of: IndexRun, stage: ReadingStage, machines: Machines) -> None:
        self._run, self._store, self._stage, self._machines = of, of.store, stage, machines

    def run(self, work: Sequence[FoundFile]) -> None:
        store, stage, address = self._store, self._stage, self._machines.ray or ""
        check_address(address)
        known = known_files(store.connection, tidy_shards(store.library / SHARDS))
        done = {row.clip_id: astuple(row.done) for row in known if row.clip_id and row.done}
        order = asdict(replace(stage.orders, settings=replace(stage.orders.settings, face_models=None)))
        order |= {"version": __version__, "roots": sorted({file.root for file in work}), "loader": LOADER, "done": done}
        left = {file.path: file for file in work}
        try:
            place = begin_arrivals(store.library, self._machines.staging)
            order["staging"] = place.root
            while left:
                tasks = [json.dumps([path, stage.speech.hears(file)]) for path, file in left.items()]
                with driven(address, {"order": order, "tasks": tasks}) as found:
                    for status in found:
                        if status.kind == "fault":
                            raise LibraryError(status.sentence)
                        if status.kind == "unseen" and os.path.lexists(status.path):
                            what = f"The Ray worker on {status.node} does not see {printable(status.path)}"
                            raise LibraryError(f"{what}; have its folder under the same path on every machine.")
                        if status.kind == "known" and stage.lacking(str(status.clip_id)) is not None:
                            done.pop(str(status.clip_id), None)  # its shard is damaged: the file is read next time
                        elif status.path in left:  # else Ray has told it before
                            self._take(replace(left.pop(status.path), clip_id=status.clip_id), status, place)
        finally:
            clear_arrivals(store.library)

    def _take(self, file: FoundFile, status: Status, place: Place) -> None:
        stage = self._stage
        stage.count_frames(file.path, status.frames)
        if status.frames:
            stage.start_model()
        try:
            if status.kind not in {"made", "known"}:
                raise MediaError("unreadable" if status.kind == "unseen" else status.kind, status.sentence)
            is_lacking = stage.lacking(str(file.clip_id)) is not None  # else a copy of it was put
            stage.put(self._store, self._arrived(file, status, place) if is_lacking else Reading(file))
        except MediaError as error:
            stage.set_aside(self._store, file, error)
        for folder in SENT if status.kind == "made" else ():
            with contextlib.suppress(Exception):  # `clear_arrivals` does it
                place.remove(f"{folder}/{file.clip_id}")

    def _arrived(self, file: FoundFile, status: Status, place: Place) -> Reading:
        with telling(f"What a Ray worker left at {place.root} cannot be read ({SAFE})"):
            payload, stills = (place.read(f"{folder}/{file.clip_id}")[0] for folder in SENT)
            if payload is None:
                raise FileNotFoundError(2, "it is not there")
        shard, model = parse_shard(payload, Path(place.root, f"{file.clip_id}{SUFFIX}"), "run again"), self._stage.model
        if model is not None and shard.weights_hash not in {None, model.encoder().weights_hash}:
            raise LibraryError(
                f"The Ray worker on {status.node} has other weights of {model.encoder().encoder_id} than this machine; "
                "nothing of it was stored: have the same model on every machine."
            )
        for note in status.notes:
            self._run.note(file.path, note)
        return Reading(file, shard, stills)


def begin_arrivals(library: Path, staging: str | None) -> Place:
    """Make a place that is one index run's alone, below `staging` or in the library, which notes where it is."""
    noted = library.absolute() / ARRIVING
    place = Place(f"{(staging or str(noted)).rstrip('/')}/{ARRIVING}-{secrets.token_hex(8)}")
    noted.mkdir(parents=True, exist_ok=True)
    (noted / "place").write_text(place.root, encoding="utf-8", errors="surrogateescape")
    with telling(f"Nothing can be left at {place.root}; name another place with --set staging=PLACE"):
        place.put("run", b"goes on")
    return place


def clear_arrivals(library: Path) -> None:
    """Delete what the workers of a run have left, of one that was killed too, wherever that is."""
    noted, root = library / ARRIVING, ""
    try:
        root = (noted / "place").read_text(encoding="utf-8", errors="surrogateescape")
        place = Place(root)
        place.files.invalidate_cache()  # others have written here
        place.files.rm(root, recursive=True)
    except FileNotFoundError:
        pass
    except Exception as error:  # each kind of storage has errors of its own
        log.warning("what Ray workers left at %s could not be deleted: %s", root, reason_of(error))
    shutil.rmtree(noted, ignore_errors=True)


@contextlib.contextmanager
def driven(address: str, setup: dict[str, Any]) -> Iterator[Iterator[Status]]:
    """Start Ray's driver, and yield what became of each file as it is known; the driver ends with the block."""
    with tempfile.TemporaryDirectory(prefix="evenreel-ray-", ignore_cleanup_errors=True) as temp:
        process = subprocess.Popen(
            command("evenreel.library.index.spread"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what Ray prints is for nobody
            env={**os.environ, "PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "ignore", "TMPDIR": temp},
            start_new_session=True,  # a terminal's Ctrl-C is for the parent, which ends it
        )
        assert process.stdin and process.stdout
        answers = process.stdout

        def found() -> Iterator[Status]:
            for line in iter(answers.readline, END):
                if not line:
                    end = f"Ray ended unexpectedly (exit status {process.wait()}); {SAFE}."
                    hangs = process.returncode == -signal.SIGALRM
                    raise LibraryError(no_answer(address, f"waited {CONNECT_S} s") if hangs else end)
                yield Status(*json.loads(line))

        try:
            with contextlib.suppress(OSError):  # it has ended, as is found then
                process.stdin.write(json.dumps({**setup, "address": address, "temp": temp}).encode() + b"\n")
                process.stdin.flush()
            yield found()
        finally:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.communicate(timeout=FAREWELL_S)  # closes its input, at which it ends
            process.kill()
            process.wait()


def no_answer(address: str, why: str) -> str:
    if address == LOCAL:
        return f"Ray could not be started on this machine ({why}); wait until it is less busy, or leave --ray out."
    return (
        f"No Ray cluster answers at {address} ({why}), or this machine is not part of it; run `ray start --head` there "
        "and `ray start --address` here with the same Python and Ray, and set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN "
        "where it wants a token; or leave --ray out."
    )


# in the process of Ray's driver ---------------------------------------------------------------------------------------


def drive() -> None:
    """Serve one index run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have had it ignored
    lines, answers = claim_pipes()
    setup = json.loads(lines.readline())
    order, address, temp = setup["order"], setup["address"], setup["temp"]
    os.environ.update(RAY_DATA_DISABLE_PROGRESS_BARS="1", PYTHONPATH=os.pathsep.join(sys.path))
    if address == LOCAL:  # Ray would keep a token of its own making in the home folder
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    os.chdir(temp)  # Ray has its workers look for modules in the current folder first
    import ray

    def tell(status: Status | None) -> None:
        answers.write(json.dumps(status).encode() + b"\n")
        answers.flush()

    def end_with_input() -> None:
        lines.read()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=end_with_input, daemon=True).start()
    try:
        join(address, temp, order)
        for status in read_by_workers(order, setup["tasks"]):
            tell(status)
        tell(None)
    except KeyboardInterrupt:
        pass  # the index run has ended
    except Exception as error:
        why = str(error) if isinstance(error, LibraryError) else f"Ray failed ({in_short(error)})."
        tell(Status("", "", "fault", why))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ray.shutdown()
        shutil.rmtree(temp, ignore_errors=True)


def join(address: str, temp: str, order: dict[str, Any]) -> None:
    """Connect with the cluster, or start one, and check each of its machines."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    told: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    signal.alarm(CONNECT_S)  # ends this process, whatever Ray is waiting for
    try:
        if address == LOCAL:
            told |= {"include_dashboard": False, "_temp_dir": temp, "num_cpus": usable_cores()}
            told["object_store_memory"] = 80 * 2**20  # paths and statuses alone go through it
        else:  # Ray would find out late that nothing listens there
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), 30).close()
        ray.init(address, **told)
    except Exception as error:
        raise LibraryError(no_answer(address, in_short(error))) from error
    signal.alarm(0)
    look = ray.remote(check_here)
    for node in (one for one in ray.nodes() if one["Alive"]):
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        try:
            ray.get(look.options(num_cpus=0, scheduling_strategy=here).remote(order), timeout=LOOK_S)
        except Exception as error:
            why = getattr(error, "cause", error)  # of an error of the task
            if not isinstance(why, EvenreelError):
                why = f"evenreel does not run there ({in_short(why)}); install it, with the extra 'scale'."
            raise LibraryError(f"The Ray worker on {node['NodeManagerHostname']} cannot go on: {why}") from error


def in_short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(".")


def team(nodes: Sequence[dict[str, Any]], settings: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return how many workers a run has: one a GPU, else one for four cores at most; and cores, GPUs, files of each."""
    has, workers = [node["Resources"] for node in nodes if node["Alive"]], settings["workers"]
    cores = [int(one["CPU"]) for one in has if one.get("CPU", 0) >= 1] or [1]
    wants_gpu = settings["device"] in {"auto", "cuda"} and settings["model"]
    gpus = sum(int(one.get("GPU", 0)) for one in has) if wants_gpu else 0
    share = max(1, sum(cores) // gpus) if gpus else min(4, max(1, min(cores) // 2))
    size, readers = gpus or sum(one // share for one in cores), min(share, workers or share)
    return min(size, -(-workers // readers)) if workers else size, share, min(1, gpus), readers


def read_by_workers(order: dict[str, Any], tasks: list[str]) -> Iterator[Status]:
    """Have workers read files; those that were lost with a worker come again, each alone with one."""
    import ray.data

    context = ray.data.DataContext.get_current()
    context.target_max_block_size = 1  # each status is handed on at once
    context.execution_no_progress_timeout_s = -1  # a film may take longer than any limit; its reader has one
    context.max_consecutive_actor_init_deaths = 20
    context.max_errored_blocks = -1
    size, cores, gpus, readers = team(ray.nodes(), order["settings"])
    left = {json.loads(task)[0]: task for task in tasks}
    for most, at_a_time, ahead in ((MOST_BLOCKS, readers, 2 * readers), (len(left), 1, 1)):
        rows = [{"task": task} for task in left.values()]
        pool = ray.data.ActorPoolStrategy(
            size=max(1, min(size, -(-len(left) // at_a_time))),
            max_tasks_in_flight_per_actor=ahead,
            max_concurrent_calls_per_actor=at_a_time,
            enable_true_multi_threading=True,
        )
        made = ray.data.from_items(rows, override_num_blocks=min(len(left), most)).map(
            RayWorker,
            fn_constructor_args=(order, at_a_time),
            compute=pool,
            num_cpus=cores,
            num_gpus=gpus or None,
            max_restarts=-1,
            max_task_retries=2,
        )
        for row in made.iter_rows():
            status = Status(*json.loads(row["status"]))
            if left.pop(status.path, None) is not None:  # else Ray has begun with its part again
                yield status
        if not left:
            return
    for path in left:
        yield Status(path, "", "killed", "Ray worker after Ray worker died of it; of memory?")


# on the machines of the cluster ---------------------------------------------------------------------------------------


def check_here(order: dict[str, Any]) -> None:
    """Check that this machine can take part in a run, and that the run goes on."""
    if order["version"] != __version__:
        what = f"it has evenreel {__version__}, and this is {order['version']}"
        raise LibraryError(f"{what}; install the same version on every machine.")
    for root in order["roots"]:
        if not os.path.isdir(root):
            raise LibraryError(f"it does not see {root}; have it under the same path on every machine.")
    place = order["staging"]
    with telling(f"it does not see {place}, where it is to leave what it makes; name another one with --set staging"):
        if Place(place).read("run")[0] is None:
            raise FileNotFoundError(2, "it is not there")


class RayWorker:
    """Reads files, several at a time in as many threads; nothing that a file does raises."""

    def __init__(self, order: dict[str, Any], readers: int) -> None:
        fields = order["settings"] | {"limits": MediaLimits(**order["settings"]["limits"])}
        settings = IndexSettings(**fields | {"workers": max(readers, usable_cores())})  # others have the other cores
        self._order, self._orders = order, Orders(WantedStages(**order["wanted"]), settings, order["reader"])
        self._frames, self._notes = Counter[str](), defaultdict[str, list[str]](list)  # by path
        self._free, self._deaf = SimpleQueue[ClipReader](), ""
        model, hearing = SharedModel(lambda: resolve_name(order["loader"])(settings.model, settings)), None
        try:
            if settings.speech is not None:
                hearing = SpeechHearing(settings.speech, settings.language, settings.limits, self._tell)
        except EvenreelError as error:
            self._deaf = f"it cannot hear what is said: {error}"
        for _ in range(readers):
            self._free.put(file_reader(self._orders, model if settings.model else None, hearing, self._count))

    def _tell(self, path: str, note: str) -> None:
        self._notes[path].append(note)

    def _count(self, path: str, time_s: float) -> None:
        self._frames[path] += 1

    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Read one file; task and status are JSON."""
        return {"status": json.dumps(self.work(*json.loads(row["task"])))}

    def work(self, path: str, hears: bool) -> Status:
        """Read one file, leave what was made of it and return what became of it."""
        node, reader, made = os.uname().nodename, self._free.get(), None
        status, orders = Status(path, node, "fault"), self._orders
        try:
            check_here(self._order)
            if self._deaf:
                raise LibraryError(self._deaf)
            file = FoundFile(path, "", stamp(path))
            file = replace(file, clip_id=watched_digest(path, orders.settings.limits.stall_timeout_s))
            status = status._replace(clip_id=file.clip_id)
            done = self._order["done"].get(file.clip_id)
            wanted = still_wanted(orders.wanted, done and WantedStages(*done))
            if not wanted:
                return status._replace(kind="known")
            while made is None:
                self._frames[path] = 0
                with contextlib.suppress(OtherWindowsError):  # the model is loaded now
                    made = read_file(reader, orders, file, wanted if hears else replace(wanted, speech=False))()
            place = Place(self._order["staging"])
            with telling(f"nothing can be left at {place.root} ({SAFE})"):
                if isinstance(made.stills, Stills):
                    place.put(f"stills/{file.clip_id}", stills_bytes(str(file.clip_id), made.stills))
                if made.shard is not None:
                    place.put(f"shards/{file.clip_id}", shard_bytes(made.shard))
            status = status._replace(kind="made")
        except MediaError as error:
            kind = error.reason if os.path.lexists(path) else "unseen"
            status = status._replace(kind=kind, sentence=str(error))
        except Exception as error:  # a program error ends the run, and with its name
            why = error if isinstance(error, EvenreelError) else f"{path} led to {type(error).__name__}: {error}"
            status = status._replace(sentence=f"The Ray worker on {node} cannot go on: {why}")
        finally:
            self._free.put(reader)
        return status._replace(frames=self._frames.pop(path, 0), notes=self._notes.pop(printable(path), []))


if __name__ == "__main__":
    from evenreel.library.index.spread import drive as run_driver  # Ray's workers find its classes by this name

    run_driver()
