"""Indexing on many machines: Ray Data hands paths to workers, which leave files at a place and answer with a status.

The index run alone writes to the library. Ray's driver runs in a process of its own (`drive`), so that what Ray prints,
hangs on or dies of stays there: it is told its order in a line of JSON, answers with a line for each file, and ends
when its input does.
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
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from evenreel.config import IndexSettings, Machines, MediaLimits, usable_cores
from evenreel.errors import EvenreelError, LibraryError, MediaError
from evenreel.extras import installed, needed_extra
from evenreel.features.clip_reader import ClipReader, OtherWindowsError, SharedModel, SpeechHearing, WantedStages
from evenreel.features.shards import SUFFIX, Stills, parse_shard, shard_bytes, stills_bytes, tidy_shards
from evenreel.library.index.scan import IndexRun, known_files, still_wanted
from evenreel.library.index.stages import Orders, Reading, ReadingStage, file_reader, read_file
from evenreel.library.published import Place, is_full, reason_of, telling
from evenreel.library.store.catalog import SHARDS
from evenreel.library.store.writer import FoundFile
from evenreel.media.workers import claim_pipes, command, last_words, stamp, watched_digest
from evenreel.version import __version__
from evenreel.wording import printable

LOCAL, LOADER = "local", "evenreel.library.index.stages:load"
ARRIVING = "arriving"  # folder of a library where workers leave what they made, or that says where else they do
CONNECT_S, START_S, LOOK_S, FAREWELL_S = 30.0, 180.0, 60.0, 10.0
MOST_BLOCKS = 2_000  # parts that files come to Ray in; where a worker dies, Ray begins again with a part
MOST_DEATHS = 2  # a part that takes its worker with it is begun three times, then its files are read alone
SAFE = "what was indexed so far is safe: run the same command again"

log = logging.getLogger("evenreel")


class Status(NamedTuple):
    """What became of a file: `made`, `known`, set `aside`, `unseen` there, `killed`, or a `fault` that ends the run."""

    path: str
    node: str = ""
    kind: str = "fault"
    clip_id: str | None = None
    frames: int = 0
    notes: Sequence[str] = ()
    reason: Any = ""
    sentence: str = ""


def check_address(address: str) -> None:
    """Check that Ray is installed and that an address may be one."""
    for package in ("ray", "fsspec"):
        if not installed(package):
            raise LibraryError(needed_extra(ModuleNotFoundError(name=package), "Indexing with --ray") or "")
    host, _, port = address.rpartition(":")
    if address != LOCAL and not (host and port.isdigit() and "/" not in address):
        raise LibraryError(
            f"--ray {address} is no address of a Ray cluster; give HOST:PORT as `ray start --head` prints it, on a "
            f"machine of the cluster, or {LOCAL}."
        )


class SpreadRun:
    """Reading of files by the workers of a Ray cluster; what they made is put here."""

    def __init__(self, of: IndexRun, stage: ReadingStage, machines: Machines) -> None:
        self._of, self._stage, self._machines = of, stage, machines

    def run(self, work: Sequence[FoundFile]) -> None:
        """Read files."""
        library, stage, address = self._of.store.library, self._stage, self._machines.ray or ""
        check_address(address)
        known = known_files(self._of.store.connection, tidy_shards(library / SHARDS))
        done = {row.clip_id: row.done for row in known if row.clip_id and row.done}
        left = {file.path: file for file in work}
        try:
            self._place, token = begin_arrivals(library, self._machines.staging)
            while left:
                plain = replace(stage.orders, settings=replace(stage.orders.settings, face_models=None))
                order = {"orders": asdict(plain), "loader": LOADER, "version": __version__, "token": token}
                order |= {"staging": self._place.root, "roots": sorted({file.root for file in left.values()})}
                order["done"] = {one: (stages.vision, stages.text) for one, stages in done.items()}
                tasks = [json.dumps([path, stage.speech.hears(file)]) for path, file in left.items()]
                again = {}
                with driven(address, {"order": order, "tasks": tasks, "workers": self._of.settings.workers}) as found:
                    for status in found:
                        file = left.pop(status.path, None)  # else Ray has told it before
                        if file is not None and not self._is_taken(file, status):
                            again[file.path] = file
                            done.pop(str(status.clip_id), None)
                left = again
        finally:
            clear_arrivals(library)

    def _is_taken(self, file: FoundFile, status: Status) -> bool:
        """Put what became of a file; False where its content was thought to be there and is not."""
        stage, clip_id = self._stage, str(status.clip_id)
        stage.count_frames(file.path, status.frames)
        if status.frames:
            stage.start_model()
        if status.kind == "fault":
            raise LibraryError(status.sentence)
        if status.kind == "unseen" and os.path.lexists(file.path):
            raise LibraryError(
                f"The Ray worker on {status.node} does not see {printable(file.path)}; have its folder under the same "
                "path on every machine."
            )
        if status.kind == "known" and stage.lacking(clip_id) is not None:
            return False
        file = replace(file, clip_id=status.clip_id)
        if status.kind in {"made", "known"}:
            self._put(file, status)
        else:
            stage.set_aside(self._of.store, file, MediaError(status.reason, status.sentence))
        return True

    def _put(self, file: FoundFile, status: Status) -> None:
        stage, reading = self._stage, Reading(file)
        if status.kind == "made" and stage.lacking(str(file.clip_id)) is not None:  # else a copy of it was put
            arrived = Path(self._place.root, f"{file.clip_id}{SUFFIX}")
            shard = parse_shard(self._taken("shards", file), arrived, "run again")
            if stage.model is not None and shard.weights_hash not in {None, stage.model.encoder().weights_hash}:
                raise LibraryError(
                    f"The Ray worker on {status.node} has other weights of {stage.model.encoder().encoder_id} than "
                    "this machine; nothing of it was stored: have the same model on every machine."
                )
            reading = Reading(file, shard, self._taken("stills", file) if stage.orders.settings.keep_stills else None)
            for note in status.notes:
                stage.speech.tell(printable(file.path), note)
        try:
            stage.put(self._of.store, reading)
        except MediaError as error:
            stage.set_aside(self._of.store, file, error)
        for kind in ("shards", "stills"):
            with contextlib.suppress(Exception):  # `clear_arrivals` does it
                self._place.remove(f"{kind}/{file.clip_id}")

    def _taken(self, kind: str, file: FoundFile) -> bytes:
        with telling(f"What a Ray worker left at {self._place.root} cannot be read ({SAFE})"):
            payload, _ = self._place.read(f"{kind}/{file.clip_id}")
            if payload is None:
                raise FileNotFoundError(2, "it is not there")
            return payload


def begin_arrivals(library: Path, staging: str | None) -> tuple[Place, str]:
    """Make a place that is one index run's alone, below `staging` or in the library, which notes where it is."""
    token, noted = secrets.token_hex(8), library.absolute() / ARRIVING
    place = Place(f"{(staging or str(noted)).rstrip('/')}/{ARRIVING}-{token}")
    noted.mkdir(parents=True, exist_ok=True)
    (noted / "place").write_text(place.root, encoding="utf-8", errors="surrogateescape")
    with telling(f"Nothing can be left at {place.root}; name another place with --set staging=PLACE"):
        place.put("run", token.encode())
    return place, token


def clear_arrivals(library: Path) -> None:
    """Delete what the workers of a run have left, of one that was killed too, wherever that is."""
    noted = library / ARRIVING
    with contextlib.suppress(FileNotFoundError, LibraryError):  # none was noted, or the package for it is gone
        place = Place((noted / "place").read_text(encoding="utf-8", errors="surrogateescape"))
        try:
            place.files.invalidate_cache()  # others have written here
            place.files.rm(place.root, recursive=True)
        except FileNotFoundError:
            pass
        except Exception as error:  # each kind of storage has errors of its own
            log.warning("what Ray workers left at %s could not be deleted: %s", place.root, reason_of(error))
    shutil.rmtree(noted, ignore_errors=True)


@contextlib.contextmanager
def driven(address: str, setup: dict[str, Any]) -> Iterator[Iterator[Status]]:
    """Start Ray's driver, and yield what became of each file as it is known; the driver ends with the block."""
    if address != LOCAL:  # Ray would find out late that nothing listens there
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_S).close()
        except (OSError, OverflowError) as error:  # a port beyond 65535
            raise _no_answer(address) from error
    temp = tempfile.mkdtemp(prefix="evenreel-ray-")  # short: sockets are in it
    try:
        with open(Path(temp, "driver.log"), "wb") as said:  # what Ray prints is for nobody, but may help who looks
            process = subprocess.Popen(
                command("evenreel.library.index.spread"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "ignore", "TMPDIR": temp},
                start_new_session=True,  # a terminal's Ctrl-C is for the parent, which ends it
            )
        try:
            yield _heard(process, address, {**setup, "address": address, "temp": temp})
        finally:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.communicate(timeout=FAREWELL_S)  # closes its input, at which it ends
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def _no_answer(address: str) -> LibraryError:
    return LibraryError(
        f"No Ray cluster answers at {address} (waited {CONNECT_S:g} s at most), or this machine is not part of it; run "
        "`ray start --head` there and `ray start --address` here, or leave --ray out."
    )


def _heard(process: subprocess.Popen[bytes], address: str, setup: dict[str, Any]) -> Iterator[Status]:
    assert process.stdin and process.stdout
    timer, is_connected = threading.Timer(START_S if address == LOCAL else CONNECT_S, process.kill), False
    timer.start()
    try:
        with contextlib.suppress(OSError):  # it has ended, as is told below
            process.stdin.write(json.dumps(setup).encode() + b"\n")
            process.stdin.flush()
        for line in process.stdout:
            kind, told = json.loads(line)
            timer.cancel()
            is_connected = True
            if kind == "status":
                yield Status(*told)
            elif kind == "failed":
                raise LibraryError(told) if told else _no_answer(address)
            elif kind == "end":
                return
    finally:
        timer.cancel()
    if not is_connected and address != LOCAL:
        raise _no_answer(address)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(FAREWELL_S)
    code = process.returncode or 0
    how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    with contextlib.suppress(FileNotFoundError):  # it takes its folder with it where it can
        how = (code > 0 and last_words(Path(setup["temp"], "driver.log").read_bytes())) or how
    raise LibraryError(f"Ray ended unexpectedly ({how}); {SAFE}.")


# in the process of Ray's driver ---------------------------------------------------------------------------------------


def drive() -> None:
    """Serve one index run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have had it ignored
    lines, answers = claim_pipes()
    setup = json.loads(lines.readline())
    os.environ.update(RAY_DATA_DISABLE_PROGRESS_BARS="1", PYTHONPATH=os.pathsep.join(sys.path))
    if setup["address"] == LOCAL:  # Ray would keep a token of its own making in the home folder
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    os.chdir(setup["temp"])  # Ray has its workers look for modules in the current folder first
    import ray

    def tell(kind: str, what: Any = None) -> None:
        answers.write(json.dumps([kind, what]).encode() + b"\n")
        answers.flush()

    def end_with_input() -> None:
        lines.read()
        os.kill(os.getpid(), signal.SIGINT)

    try:
        _connect(setup["address"], setup["temp"])
        tell("connected")
        threading.Thread(target=end_with_input, daemon=True).start()
        _check_nodes(setup["order"])
        for status in _statuses(setup["order"], setup["tasks"], setup["workers"]):
            tell("status", status)
        tell("end")
    except LibraryError as error:
        tell("failed", str(error))
    except KeyboardInterrupt:
        pass  # the index run has ended
    except Exception as error:
        tell("failed", f"Ray failed ({type(error).__name__}: {_in_short(error)}).")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ray.shutdown()
        shutil.rmtree(setup["temp"], ignore_errors=True)


def _connect(address: str, temp: str) -> None:
    import ray

    usual: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address == LOCAL:
        usual |= {"include_dashboard": False, "_temp_dir": temp, "object_store_memory": 80 * 2**20}
        usual["num_cpus"] = usable_cores()
    for attempts_left in (2, 1, 0):
        try:
            ray.init(address=address, **usual)
            return
        except Exception as error:
            if address == LOCAL:  # on a busy machine Ray gives itself up after 30 s
                ray.shutdown()
                if attempts_left:
                    continue
                why = f"Ray could not be started on this machine ({_in_short(error)})"
                raise LibraryError(f"{why}; wait until it is less busy, or leave --ray out.") from error
            why, told = str(error) + repr(error.__cause__), ""
            if "Authentication" in why:
                told = f"The Ray cluster at {address} wants a token; set RAY_AUTH_MODE=token and put the token into "
                told += "RAY_AUTH_TOKEN, or into a file that RAY_AUTH_TOKEN_PATH names."
            elif "Version mismatch" in why:
                told = f"This machine has another version of Ray or Python than the Ray cluster at {address}; install "
                told += "the same on every machine."
            raise LibraryError(told) from error


def _in_short(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].rstrip(".")


def _check_nodes(order: dict[str, Any]) -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(fault_here)
    for node in (one for one in ray.nodes() if one["Alive"]):
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        try:
            fault = ray.get(look.options(num_cpus=0, scheduling_strategy=here).remote(order), timeout=LOOK_S)
        except Exception as error:
            raise LibraryError(
                f"evenreel does not run on {node.get('NodeManagerHostname')} ({_in_short(error)}); install evenreel "
                f"{order['version']} with the extra 'scale' on every machine of the Ray cluster."
            ) from error
        if fault is not None:
            raise LibraryError(fault)


class Team(NamedTuple):
    """Workers of a run: how many, and the cores and GPUs, and files at a time, of each."""

    size: int
    cores: int
    gpus: int
    readers: int


def team(nodes: Sequence[dict[str, Any]], settings: dict[str, Any], workers: int) -> Team:
    """Return the workers of a run: one for each GPU with its share of the cores, else one for at most four cores."""
    has = [node["Resources"] for node in nodes if node["Alive"]]
    cores = [int(one["CPU"]) for one in has if one.get("CPU", 0) >= 1] or [1]
    wants_gpu = settings["device"] in {"auto", "cuda"} and settings["model"]
    gpus = sum(int(one.get("GPU", 0)) for one in has) if wants_gpu else 0
    share = max(1, sum(cores) // gpus) if gpus else min(4, max(1, min(cores) // 2))
    size, readers = gpus or sum(one // share for one in cores), min(share, workers or share)
    return Team(min(size, -(-workers // readers)) if workers else size, share, min(1, gpus), readers)


def _statuses(order: dict[str, Any], tasks: list[str], workers: int) -> Iterator[Status]:
    """Have workers read files; those that were lost with a worker come again, each alone with one."""
    import ray.data
    from ray.data import ActorPoolStrategy, DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = 1  # each status is handed on at once
    context.execution_no_progress_timeout_s = -1  # a film may take longer than any limit; its reader has one
    context.max_consecutive_actor_init_deaths = 20
    context.max_errored_blocks = -1
    made = team(ray.nodes(), order["orders"]["settings"], workers)
    left = {json.loads(task)[0]: task for task in tasks}
    for is_alone in (False, True):
        readers = 1 if is_alone else made.readers
        size = max(1, min(made.size, -(-len(left) // readers)))
        found = ray.data.from_items(
            [{"task": task} for task in left.values()],
            override_num_blocks=len(left) if is_alone else min(len(left), MOST_BLOCKS),
        ).map_batches(
            RayWorker,
            fn_constructor_args=(order, readers),
            batch_size=1,
            batch_format="numpy",
            compute=ActorPoolStrategy(
                min_size=1,
                max_size=size,
                initial_size=size,
                max_tasks_in_flight_per_actor=1 if is_alone else 2 * readers,
                max_concurrent_calls_per_actor=readers,
                enable_true_multi_threading=True,
            ),
            num_cpus=made.cores,
            num_gpus=made.gpus or None,
            max_restarts=-1,
            max_task_retries=MOST_DEATHS,
        )
        for row in found.iter_rows():
            status = Status(*json.loads(row["status"]))
            if left.pop(status.path, None) is not None:  # else Ray has begun with its part again
                yield status
        if not left:
            return
    for path in left:
        yield Status(path, "", "killed", reason="killed", sentence="Ray worker after Ray worker died of it; of memory?")


# on the machines of the cluster ---------------------------------------------------------------------------------------


def fault_here(order: dict[str, Any]) -> str | None:
    """Return why this machine cannot take part in a run, as a sentence; None where it can."""
    who = f"The Ray worker on {os.uname().nodename}"
    if order["version"] != __version__:
        what = f"{who} has evenreel {__version__}, and this is {order['version']}"
        return f"{what}; install the same version on every machine."
    for root in order["roots"]:
        if not os.path.isdir(root):
            return f"{who} does not see {root}; have it under the same path on every machine."
    try:
        if _is_open(Place(order["staging"]), order["token"]):
            return None
    except LibraryError as error:
        return f"{who} cannot go on: {error}"
    where = f"{who} does not see {order['staging']}, where it is to leave what it makes"
    return f"{where}; name a place with --set staging=PLACE."


def _is_open(place: Place, token: str) -> bool:
    """Whether the run goes on and its place can be reached from this machine."""
    with contextlib.suppress(Exception):  # each kind of storage has errors of its own
        return place.read("run")[0] == token.encode()
    return False


class RayWorker:
    """Reads files, several at a time in as many threads; nothing that a file does raises."""

    def __init__(self, order: dict[str, Any], readers: int) -> None:
        told = order["orders"]
        fields = told["settings"] | {"limits": MediaLimits(**told["settings"]["limits"])}
        settings = IndexSettings(**fields | {"workers": max(readers, usable_cores())})  # others have the other cores
        self._orders = orders = Orders(WantedStages(**told["wanted"]), settings, told["reader"])
        self._done = {one: WantedStages(*stages) for one, stages in order["done"].items()}
        self._frames, self._notes = Counter[str](), defaultdict[str, list[str]](list)  # by path
        self._free: SimpleQueue[ClipReader] = SimpleQueue()
        self._who = f"The Ray worker on {os.uname().nodename}"
        self._token, self._fault, hearing = order["token"], fault_here(order), None
        if self._fault is not None:
            return
        self._place = Place(order["staging"])
        module, _, function = order["loader"].partition(":")
        model = SharedModel(lambda: getattr(import_module(module), function)(settings.model, settings))
        try:
            if settings.speech is not None:
                hearing = SpeechHearing(settings.speech, settings.language, settings.limits, self._tell)
        except EvenreelError as error:
            self._fault = f"{self._who} cannot hear what is said: {error}"
        for _ in range(readers):
            self._free.put(file_reader(orders, model if settings.model else None, hearing, self._count))

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Read files; tasks and statuses are JSON."""
        return {"status": [json.dumps(self.work(*json.loads(task))) for task in batch["task"]]}

    def work(self, path: str, hears: bool) -> Status:
        """Read one file, leave what was made of it and return what became of it."""
        status = Status(path, os.uname().nodename, sentence=self._fault or "")
        if self._fault is not None:
            return status
        orders, reader = self._orders, self._free.get()
        try:
            file = FoundFile(path, "", stamp(path))
            file = replace(file, clip_id=watched_digest(path, orders.settings.limits.stall_timeout_s))
            status = status._replace(clip_id=file.clip_id)
            if not (wanted := still_wanted(orders.wanted, self._done.get(str(file.clip_id)))):
                return status._replace(kind="known")
            wanted, made = wanted if hears else replace(wanted, speech=False), None
            while made is None:
                self._frames[path] = 0
                with contextlib.suppress(OtherWindowsError):  # the model is loaded now
                    made = read_file(reader, orders, file, wanted)()
            fault, notes = self._fault_of_leaving(made), self._notes.pop(printable(path), [])
            status = status._replace(frames=self._frames[path], notes=notes, sentence=fault or "")
            return status if fault else status._replace(kind="made")
        except MediaError as error:
            kind, frames = "aside" if os.path.lexists(path) else "unseen", self._frames[path]
            return status._replace(kind=kind, frames=frames, reason=error.reason, sentence=str(error))
        except EvenreelError as error:
            return status._replace(sentence=f"{self._who} cannot go on: {error}")
        except Exception as error:  # a program error ends the run, and with its name
            what = f"{type(error).__name__}: {error}"
            return status._replace(sentence=f"{self._who} failed at {path} ({what}).")
        finally:
            self._free.put(reader)

    def _tell(self, path: str, note: str) -> None:
        self._notes[path].append(note)

    def _count(self, path: str, time_s: float) -> None:
        self._frames[path] += 1

    def _fault_of_leaving(self, made: Reading) -> str | None:
        """Leave what was made of a file at the place; return why that cannot be."""
        assert made.shard is not None
        clip_id, payload = made.shard.clip_id, shard_bytes(made.shard)
        try:
            if not _is_open(self._place, self._token):
                raise OSError(None, "the run is over, or the place cannot be reached any more")
            if isinstance(made.stills, Stills):
                self._place.put(f"stills/{clip_id}", stills_bytes(clip_id, made.stills))
            self._place.put(f"shards/{clip_id}", payload)
        except Exception as error:  # each kind of storage has errors of its own
            if is_full(error):
                return f"The disk of {self._place.root} is full, says the Ray worker on {os.uname().nodename}; {SAFE}."
            return f"{self._who} cannot write to {self._place.root} ({reason_of(error)}); {SAFE}."
        return None


if __name__ == "__main__":
    from evenreel.library.index.spread import drive as run_driver  # Ray's workers find its classes by this name

    run_driver()
