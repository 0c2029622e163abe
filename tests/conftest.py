"""Fixtures for every test: no network, no surprises from the environment, real data where it is there."""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import shutil
import signal
import socket
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from evenreel.corpus import Imported
    from evenreel.extras import Told

# No deadline: a busy machine is no failure. Where an example is dear, a test sets a small number of its own.
settings.register_profile("quick", deadline=None, max_examples=20, print_blob=True)
settings.register_profile("full", deadline=None, max_examples=200, print_blob=True)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
"""Processes of ours look past the current folder, and run parts of tests."""
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells have background jobs ignore

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = Path(os.environ.get("EVENREEL_DATA", REPOSITORY.parent / "shared" / "data"))
SHOWN_FILES = 40
LOOPBACK = {"127.0.0.1", "::1", "localhost", ""}

LONGEST = (
    "notebooks/test_notebooks.py",
    "test_tutorials.py",
    "library/index/test_kill.py",
    "library/index/test_index.py",
    "server/browser/test_states.py",
    "library/test_check.py",
    "encoders/test_encoder.py",
    "cli/test_library_commands.py",
    "server/test_adding.py",
    "library/test_watching.py",
    "cli/test_imports.py",
    "cli/test_without_extras.py",
    "cli/test_serve.py",
    "papers/test_towers.py",
)
"""Files that take the longest, in that order."""

_connect = socket.socket.connect


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--all` runs what is marked slow too, with ten times the examples of properties."""
    parser.addoption("--all", action="store_true", help="run slow tests too, and 200 examples of each property for 20")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples; one process counts the times: of several that test, that which they report to."""
    settings.load_profile("full" if config.getoption("all") else "quick")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TimesOfFiles(config), "times of files")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, and begin with what takes longest, so that no process is left alone with it."""
    if not config.getoption("all"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    places = {REPOSITORY / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """What was collected stays to the end: neither this process nor those that it forks look through it for garbage."""
    gc.collect()
    gc.freeze()


class TimesOfFiles:
    """How long each file took, told at the end: the longest on the terminal, all in `build/test_times.txt`."""

    def __init__(self, config: pytest.Config) -> None:
        self._kept = config.rootpath / "build" / "test_times.txt"
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == 0 and len(self._seconds) > SHOWN_FILES:  # a whole run leaves a gigabyte, maybe in memory
            shutil.rmtree(session.config._tmp_path_factory.getbasetemp(), ignore_errors=True)  # type: ignore[attr-defined]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        longest = sorted(self._seconds.items(), key=lambda one: -one[1])
        lines = [f"{seconds:8.1f} s  {name}" for name, seconds in longest]
        lines.append(f"{sum(self._seconds.values()):8.1f} s  {len(longest)} files")
        if len(longest) > SHOWN_FILES:
            self._kept.parent.mkdir(exist_ok=True)
            self._kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
            lines[SHOWN_FILES:-1] = [f"           and {len(longest) - SHOWN_FILES} more, in {self._kept}"]
        if longest:
            terminalreporter.section("the files that took longest")
            terminalreporter.write_line("\n".join(lines))


def _loopback_only(self: socket.socket, address: object) -> None:
    if isinstance(address, tuple) and str(address[0]) not in LOOPBACK:
        raise OSError(f"the tests use no network, but a socket was opened to {address[0]}")
    _connect(self, address)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that leaves the machine."""
    monkeypatch.setattr(socket.socket, "connect", _loopback_only)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real annotation files and clips; the test is skipped where it is not there."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real data is not at {SHARED_DATA} (set EVENREEL_DATA)")
    return SHARED_DATA


@pytest.fixture(scope="session")
def whisper(shared_data: Path) -> Path:
    from evenreel.speech.synthesis import can_speak  # no earlier than a test speaks

    folder = shared_data / "whisper_tiny_en"
    if not (folder.is_dir() and can_speak()):
        pytest.skip(f"the weights of Whisper tiny.en are not at {folder}, or espeakng-loader is not installed")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _prebuilt_libraries(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One place for all processes of this run."""
    from tests import prebuilt

    own = tmp_path_factory.getbasetemp()
    prebuilt.PLACE = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "prebuilt"


@pytest.fixture(scope="session")
def epic_kitchens(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """EPIC-KITCHENS-100 retrieval, its training segments from the table that is re-timed to 30 frames a second.

    Of several processes that test, one imports it, and the others read what that one has kept.
    """
    from evenreel.corpus import FORMATS

    def imported() -> Imported:
        return FORMATS["epic-kitchens-100"]([shared_data / "epic_kitchens_100"])

    if "PYTEST_XDIST_WORKER" not in os.environ:
        return imported()
    kept = tmp_path_factory.getbasetemp().parent / "epic_kitchens.pickle"  # of this session, for all its processes
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file():
            new = kept.with_suffix(".new")
            new.write_bytes(pickle.dumps(imported()))
            new.rename(kept)
    found: Imported = pickle.loads(kept.read_bytes())
    return found


@pytest.fixture(scope="session")
def real_clips(shared_data: Path) -> Path:
    """The folder of real video clips."""
    return shared_data / "videos"


@pytest.fixture(scope="module", autouse=True)
def forked_readers() -> Iterator[None]:
    """Reader processes that are forked, with their imports behind them, instead of a new Python for each.

    `tests/media` and the command line in a process of its own begin real ones.
    """
    from evenreel.media import workers
    from tests.forked import FORKED_SUBPROCESS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "subprocess", FORKED_SUBPROCESS)
        yield


@pytest.fixture(scope="module", autouse=True)
def forked_renderers() -> Iterator[None]:
    """The same for processes that render planted clips; `tests/planted/test_folder.py` begins real ones."""
    from tests.forked import context

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenreel.planted.folder.get_context", lambda method: context)
        yield


@pytest.fixture(scope="session", autouse=True)
def models_read_here() -> Iterator[None]:
    """A model's tokenizer is checked as ever, but no process of its own reads a model first, as in `test_onnx`.

    Where something stands in for `load_encoder`, there is no model to fetch before a run.
    """
    from evenreel import encoders
    from evenreel.encoders import loading
    from evenreel.encoders.loading import check_tokenizer, load_encoder, locate

    def found(
        name: str, revision: str | None = None, told: Told | None = None, precision: str = "auto"
    ) -> tuple[str, Path] | None:
        played = vars(encoders).get("load_encoder", load_encoder) is not load_encoder
        return None if told and played else locate(name, revision, told, precision)

    def checked(folder: Path, *_: str) -> str:
        check_tokenizer(folder)
        return ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "locate", found)
        patch.setattr(loading, "read_first", checked)
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own answer to SIGINT, which a job in the background of a shell begins without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
