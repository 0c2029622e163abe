"""`evenreel serve --workers`: several processes behind one port, and what becomes of them."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import socket
import subprocess

import psutil
import pytest

from tests.cli.test_library_commands import here
from tests.cli.test_serve import TOKEN, get, running, wait_for
from tests.server.conftest import PATIENCE_S, Served, rendered, served, wait_until

__all__ = ["rendered", "served"]

pytestmark = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="connections cannot be handed on here")
REPLACED = re.compile(r"evenreel: a process of the server has ended \(status -9\) and is replaced\n")


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children()


def ask(visitor: http.client.HTTPConnection) -> int | None:
    """The status of an answer; None where the connection is gone."""
    try:
        visitor.request("GET", "/api/v1/search?q=harbour")
        answer = visitor.getresponse()
        answer.read()
    except OSError:
        return None
    except http.client.HTTPException:
        return None
    return answer.status


@pytest.mark.usefixtures("interruptible")
def test_visitors_are_spread_and_one_process_takes_only_its_own_with_it(served: Served) -> None:
    with running(served.library, "--workers", "2") as (process, port), contextlib.ExitStack() as opened:
        assert wait_for(port, "/api/v1/health", "model", {"ready"})["status"] == "ok"
        visitors = [http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S) for _ in range(6)]
        for visitor in visitors:
            visitor.auto_open = 1
            opened.callback(visitor.close)
            visitor.connect()
            visitor.auto_open = 0  # whose connection is lost gets no new one
        assert [ask(visitor) for visitor in visitors] == [200] * 6
        before = workers_of(process)
        assert len(before) == 2
        before[0].kill()
        before[0].wait(PATIENCE_S)
        assert sorted(map(str, (ask(visitor) for visitor in visitors))) == ["200"] * 3 + ["None"] * 3
        assert get(port, "/api/v1/search?q=harbour")[0] == 200
        wait_until(lambda: len(workers_of(process)) == 2)
        after = workers_of(process)
        assert before[1] in after
        assert before[0] not in after
        # The new one gets visitors too: where the other one is taken away, it answers as soon as it has the model.
        before[1].kill()
        before[1].wait(PATIENCE_S)
        wait_until(lambda: get(port, "/api/v1/search?q=harbour")[0] == 200)
        wait_until(lambda: len(workers_of(process)) == 2)
        last = workers_of(process)
        process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, REPLACED.sub("", complained)) == (0, "")
        assert psutil.wait_procs(last, PATIENCE_S)[1] == []


def test_no_visitor_is_lost_where_a_process_is_asked_to_end(served: Served) -> None:
    with running(served.library, "--no-vision", "--workers", "2") as (process, port):
        wait_for(port, "/api/v1/health", "model", {"none"})
        before = workers_of(process)
        before[0].terminate()
        answered = 0
        while before[0].is_running() and before[0].status() != psutil.STATUS_ZOMBIE:
            assert get(port, "/api/v1/search?q=harbour")[0] == 200
            answered += 1
        assert answered
        wait_until(lambda: len(workers_of(process)) == 2)
        assert before[1] in workers_of(process)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_quietly_while_its_processes_begin(served: Served, ended_by: signal.Signals) -> None:
    with running(served.library, "--no-vision", "--workers", "3") as (process, _):
        wait_until(lambda: len(workers_of(process)) == 3)
        begun = workers_of(process)
        process.send_signal(ended_by)
        _, complained = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, complained) == (0, "")
        assert psutil.wait_procs(begun, PATIENCE_S)[1] == []


def test_nothing_is_left_where_the_process_that_listens_is_killed(served: Served) -> None:
    with running(served.library, "--no-vision", "--workers", "2") as (process, port):
        wait_for(port, "/api/v1/health", "model", {"none"})
        begun = workers_of(process)
        process.kill()
        assert len(begun) == 2
        assert psutil.wait_procs(begun, PATIENCE_S)[1] == []


def test_one_token_lets_in_at_each_process(served: Served) -> None:
    with running(served.library, "--no-vision", "--workers", "2", token=TOKEN) as (_, port):
        wait_for(port, "/api/v1/health", "model", {"none"})
        right = [get(port, "/api/v1/stats", Authorization=f"Bearer {TOKEN}")[0] for _ in range(4)]
        assert (right, [get(port, "/api/v1/stats")[0] for _ in range(2)]) == ([200] * 4, [401] * 2)


@pytest.mark.parametrize("asked", ["0", "-1", "65", "9" * 40])
def test_so_many_processes_there_cannot_be(asked: str) -> None:
    refused = here("serve", "--workers", asked)
    assert refused.returncode == 2
    assert re.search(
        r"Invalid value for '--workers': Input should be (less|greater) than or equal to (1|64)\b", refused.stderr
    )


def test_a_port_that_is_taken_is_one_sentence(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = here("serve", "--library", served.library, "--no-vision", "--workers", "2", "--port", str(port))
        assert ended.returncode == 2
        assert re.fullmatch(rf"evenreel: 127\.0\.0\.1 port {port} cannot be had \(.*\); choose .*\n", ended.stderr)
