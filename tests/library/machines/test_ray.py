"""Ray itself: a cluster of two workers, killed ones, and one that is started for the run and leaves nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from evenreel.config import Machines
from evenreel.errors import LibraryError
from evenreel.library import index_folders, verify
from evenreel.library.index import spread
from evenreel.library.index.scan import IndexReport
from scripts.ray_cluster import Cluster, started
from tests.library.machines.here import SETTINGS
from tests.library.state import state
from tests.library.videos import write_folder

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[3]
SECRET = "made-up-secret-of-the-tests"


@pytest.fixture(scope="module")
def cluster(s3_server: str) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        path = [str(REPOSITORY), str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))  # workers have the stubs
        patch.setenv("AWS_ENDPOINT_URL", s3_server)
        patch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-tests")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        with contextlib.ExitStack() as stack:
            try:
                made = stack.enter_context(started())
            except SystemExit as error:  # Ray gives a node up that takes long to begin, on a machine that is too busy
                pytest.skip(str(error)[:500])
            yield made


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    write_folder(tmp_path / "videos", 6)
    return tmp_path / "videos"


def soon(what: Callable[[], list[Any]], then: Callable[[Any], object]) -> threading.Thread:
    """Do something with the first that is there."""

    def wait() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if found := what():
                then(found[0])
                return
            time.sleep(0.05)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def drivers() -> list[psutil.Process]:
    found = []
    for one in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "evenreel.library.index.spread" in one.cmdline():
                found.append(one)
    return found


def test_a_run_whose_workers_are_killed_ends_as_one_without_ray(
    cluster: Cluster, videos: Path, library: Path, plain: tuple[Path, IndexReport]
) -> None:
    after_some = soon(
        lambda: cluster.workers() if len(list(library.glob("shards/*/*.safetensors"))) >= 2 else [],
        lambda one: one.kill(),
    )
    at_once = soon(cluster.workers, lambda one: one.kill())
    report = index_folders([videos], library, SETTINGS, machines=Machines(ray=cluster.address))
    at_once.join()
    after_some.join()
    assert state(library) == state(plain[0]) and not verify(library)
    assert report.to_json() | {"seconds": 0} == plain[1].to_json() | {"seconds": 0}


@pytest.mark.parametrize("blocks", [spread.MOST_BLOCKS, 2])
def test_a_file_that_takes_worker_after_worker_with_it_is_set_aside_alone(
    cluster: Cluster, videos: Path, library: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    drive = f"from evenreel.library.index import spread; spread.MOST_BLOCKS = {blocks}; spread.drive()"
    monkeypatch.setattr(spread, "command", lambda module: [sys.executable, "-c", drive])
    monkeypatch.setattr(spread, "LOADER", "tests.library.machines.here:load_deadly")
    report = index_folders([videos], library, SETTINGS, machines=Machines(ray=cluster.address))
    assert [(Path(one.path).name, one.reason) for one in report.set_aside] == [("clip_02.mp4", "killed")]
    assert report.indexed == 5 and not verify(library)


def test_a_run_whose_driver_is_killed_says_so_and_another_one_goes_on(
    cluster: Cluster, videos: Path, library: Path, plain: tuple[Path, IndexReport]
) -> None:
    # Not as it begins; workers may be left over from before.
    killer = soon(lambda: drivers() if list(library.glob("shards/*/*.safetensors")) else [], lambda one: one.kill())
    with pytest.raises(LibraryError, match=r"Ray ended unexpectedly \(exit status -9\); .* is safe"):
        index_folders([videos], library, SETTINGS, machines=Machines(ray=cluster.address))
    killer.join()
    index_folders([videos], library, SETTINGS)
    assert state(library) == state(plain[0]) and not verify(library)


def test_what_workers_make_goes_by_a_bucket_and_its_key_is_written_nowhere(
    cluster: Cluster,
    videos: Path,
    library: Path,
    plain: tuple[Path, IndexReport],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem(use_listings_cache=False)
    files.mkdir("arrivals")
    sent = list[bytes]()
    watched = soon(lambda: files.find("arrivals"), lambda name: sent.append(files.cat_file(name)))
    machines = Machines(ray=cluster.address, staging="s3://arrivals/x")
    index_folders([videos], library, SETTINGS, machines=machines)
    watched.join()
    assert state(library) == state(plain[0]) and not verify(library)
    assert sent and files.find("arrivals") == []
    with pytest.raises(LibraryError, match="there is no such bucket"):
        index_folders(
            [videos], library.with_name("none"), SETTINGS, machines=replace(machines, staging="s3://nobody-has-it")
        )
    told = capfd.readouterr()
    assert SECRET not in told.out + told.err + caplog.text and not any(SECRET.encode() in one for one in sent)
    logs = [path for path in cluster.temp.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any("worker" in path.name for path in logs)
    written = [path for path in library.parent.rglob("*") if path.is_file()]
    assert [path for path in (*logs, *written) if SECRET.encode() in path.read_bytes()] == []


def test_an_address_where_nothing_answers_is_refused(videos: Path, library: Path) -> None:
    with pytest.raises(LibraryError, match=r"No Ray cluster answers at 127.0.0.1:1 \(.*refused\)"):
        index_folders([videos], library, SETTINGS, machines=Machines(ray="127.0.0.1:1"))
    assert not library.exists()


def test_a_cluster_that_is_started_for_the_run_prints_and_leaves_nothing(videos: Path, tmp_path: Path) -> None:
    temporary = Path(tempfile.mkdtemp(prefix="t-"))  # sockets below it need a short path
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'src'}"}
    command = [sys.executable, "-m", "evenreel", "index", str(videos), "--library", str(tmp_path / "local"), "--json"]
    command += ["--model", "builtin", "--no-ocr", "--ray", "local"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "Ray could not be started on this machine" in done.stderr:  # which is too busy
        pytest.skip(done.stderr[:500])
    assert done.returncode == 0 and not done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["indexed"] == 6 and report["frames"] == 12
    left = [path for path in temporary.iterdir() if path.is_dir()]
    shutil.rmtree(temporary)
    assert not left
