"""The claims, the place of arrivals and the address, each alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from evenreel.config import MediaLimits
from evenreel.errors import LibraryError
from evenreel.features.clip_reader import WantedStages
from evenreel.library.machines import claims as claims_module
from evenreel.library.machines import driver, session
from evenreel.library.machines.arrivals import Arrivals, begin_arrivals, clear_arrivals
from evenreel.library.machines.claims import Claims
from evenreel.library.machines.orders import FileStatus, FileTask, WorkOrder
from tests.library.fakes import on_disk


def order(library: Path, **changes: object) -> WorkOrder:
    both, limits = WantedStages(vision=True, text=True, speech=True), MediaLimits()
    fields: dict[str, object] = {
        "library": str(library),
        "model": "words",
        "wanted": both,
        "rule": "every 1 s",
    }
    fields |= {"read_text": True, "keep_stills": True, "limits": limits, "device": "cpu", "precision": "float32"}
    fields |= {"roots": ("/videos",), "staging": "/staging", "token": "t", "reader": "r", "loader": "l"}
    return WorkOrder(**(fields | changes))  # type: ignore[arg-type]


def test_records_survive_the_way_as_plain_data(tmp_path: Path) -> None:
    for one in (
        order(tmp_path),
        FileTask(3, "/a\udcff.mp4"),
        FileTask(1, "/b", WantedStages(True, False), True),
    ):
        assert type(one).from_json(one.to_json()) == one
    status = FileStatus(1, "n", "made", "ab", 4, ("damaged",))
    assert FileStatus.from_json(status.to_json()) == status


def test_the_claims_gives_a_content_to_one_task_and_says_what_is_missing(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    made.add_clip("seen", ["red bus"])
    claims = Claims(order(tmp_path).to_json())
    assert claims.claim("new", 1) == {"vision": True, "text": True, "speech": True}
    assert claims.claim("new", 2) is None
    assert claims.claim("new", 1) is not None, "it is tried again after its worker died"
    made.connection.execute("UPDATE clips SET has_text = 0")
    assert claims.claim("seen", 3) == {"vision": False, "text": True, "speech": False}, "as the catalog is now"
    made.connection.execute("UPDATE clips SET has_text = 1")
    assert claims.claim("seen", 3) is None
    claims.begin()
    assert claims.claim("new", 2) is not None
    made.connection.close()


def test_the_claims_bounds_what_is_under_way_and_counts_deaths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk(tmp_path).connection.close()
    monkeypatch.setattr(claims_module, "MOST_UNDER_WAY", 2)
    claims = Claims(order(tmp_path).to_json())
    assert [claims.enter(number) for number in (1, 2, 3)] == ["go", "go", "wait"]
    assert [claims.enter(1), claims.enter(1)] == ["go", "died"], "a task that has begun is not held up"
    claims.settle(2)
    assert claims.enter(3) == "go"
    claims.begin()
    assert claims.enter(1) == "go"


def test_arrivals_are_of_one_run(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    old, new = (begin_arrivals(tmp_path / "library", None) for _ in range(2))
    old.put("0/a", b"made")
    assert old.take("0/a") == b"made"
    with pytest.raises(LibraryError, match="cannot be read"):
        new.take("0/a")
    late = Arrivals(new.place, old.token)  # a worker of an earlier run at the place of a later one
    with pytest.raises(OSError, match="the run is over"):
        late.put("0/b", b"late")
    old.clear()
    with pytest.raises(OSError, match="the run is over"):
        old.put("0/b", b"late")
    new.put("0/c", b"x")
    new.drop("0/c")
    new.drop("0/c")
    clear_arrivals(tmp_path / "library")
    assert list((tmp_path / "library").iterdir()) == []


def test_arrivals_that_cannot_be_left_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LibraryError, match=r"Nothing can be left at .*; name another place with --staging"):
        begin_arrivals(tmp_path / "library", str(tmp_path / "file"))


@pytest.mark.parametrize("address", ["", "here", "ray://head:10001", "head:port", ":6379"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(LibraryError, match="is no address of a Ray cluster; give HOST:PORT"):
        session.check_address(address)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else find(name))
    with pytest.raises(LibraryError, match=r"needs ray, which is not installed: pip install 'evenreel\[scale\]'"):
        session.check_address("local")


def node(cores: int, gpus: int = 0, *, alive: bool = True) -> dict[str, object]:
    return {"Alive": alive, "Resources": {"CPU": float(cores)} | ({"GPU": float(gpus)} if gpus else {})}


@pytest.mark.parametrize(
    ("nodes", "device", "workers", "expected"),
    [
        ([node(2)], "cpu", 0, driver.Team(2, 1, 0, 1)),
        ([node(2)], "cpu", 1, driver.Team(1, 1, 0, 1)),
        ([node(64), node(16), node(8, alive=False)], "cpu", 0, driver.Team(20, 4, 0, 4)),
        ([node(16, 2), node(16, 2)], "auto", 0, driver.Team(4, 8, 1, 8)),
        ([node(16, 2)], "cpu", 6, driver.Team(2, 4, 0, 4)),
        ([node(0), node(4)], "auto", 0, driver.Team(2, 2, 0, 2)),
    ],
)
def test_workers_by_cores_and_gpus(
    tmp_path: Path, nodes: list[dict[str, object]], device: str, workers: int, expected: driver.Team
) -> None:
    assert driver._team(nodes, order(tmp_path, device=device), workers) == expected


def test_words_alone_take_no_gpu(tmp_path: Path) -> None:
    assert driver._team([node(16, 2)], order(tmp_path, device="auto", model=None), 0).gpus == 0
