"""`evenreel check network`: runs the commands on a small demo, and says what they opened on the network.

Two watchers run beside each other. A hook in every Python process, worker or not, sees each call of Python's sockets
from its first import on. Native code is seen by strace where it is there and may trace; elsewhere the system is asked
many times a second which connections the processes have, which may miss one that is gone at once.
"""

from __future__ import annotations

import contextlib
import inspect
import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import typer

from evenreel.cli import EXIT_FAILED
from evenreel.cli.options import JsonOption
from evenreel.cli.show_library import console, print_json, safe
from evenreel.media.workers import command, last_words
from evenreel.wording import count

CLIPS = 5
POLL_S = 0.02
START_S, STEP_S, LEAVE_S = 120.0, 600.0, 20.0  # most seconds until a server answers, of a step, and of its end
QUERY = "a red star on a beach"
DNS = 53  # whoever asks there, also on this machine, asks for a name of the world
STRACE = ("strace", "-D", "-f", "-qq", "-ttt", "-e", "trace=connect,bind,sendto,sendmsg,sendmmsg", "-e", "signal=none")
"""As a grandchild (-D), so that the command is our child, and signals reach it."""
_TRACED = re.compile(
    r"^(\d+) +([\d.]+) (\w+)\(.*?sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )\"([^\"]+)\""
)


def _hook(place: str) -> None:
    """Append what this Python asks of the network to a file; its source is the `sitecustomize` of those watched."""
    import json
    import os
    import sys
    import time

    def write(*noted: object) -> None:
        with open(place, "a", encoding="utf-8") as file:
            file.write(json.dumps([time.time(), os.getpid(), *noted], default=str) + "\n")

    def watch(event: str, given: tuple[object, ...]) -> None:
        what, _, call = event.partition(".")
        if what != "socket":
            return
        if call in {"connect", "bind", "sendto", "sendmsg", "getnameinfo"}:
            address = given[0] if call == "getnameinfo" else given[1]
            if isinstance(address, tuple) and len(address) > 1:  # paths and None are of this machine, or were seen
                write(call, address[0], address[1])
        elif call in {"getaddrinfo", "gethostbyname", "gethostbyaddr"} and given[0] is not None:
            host = given[0].decode() if isinstance(given[0], bytes) else given[0]
            write(call, host, (*given, None)[1])

    write("", None, None)
    sys.addaudithook(watch)


@dataclass(frozen=True)
class SocketCall:
    """One call that a process made, or one connection that the system lists."""

    seconds: float  # since the check began
    step: str  # the command whose process it is
    process: int
    call: str
    host: str
    port: int | None
    seen_by: str  # python, strace or system

    @property
    def loopback(self) -> bool:
        return self.port != DNS and is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine and nothing else.

    >>> is_loopback("127.0.0.1"), is_loopback("::ffff:127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


@dataclass
class NetworkWatch:
    """Runs commands and gathers what their processes open."""

    folder: Path  # for what the watchers write
    began: float = field(default_factory=time.time)
    calls: list[SocketCall] = field(default_factory=list)
    processes: set[int] = field(default_factory=set)  # Python's

    def __post_init__(self) -> None:
        self._noted = self.folder / "python"
        source = f"{inspect.getsource(_hook)}\n\n_hook({str(self._noted)!r})\n"
        (self.folder / "sitecustomize.py").write_text(source, "utf-8")
        self._traced = self.folder / "traced"
        self._traced.write_text("", "utf-8")
        if shutil.which(STRACE[0]) is not None and sys.platform == "linux":  # it may be forbidden to trace
            subprocess.run([STRACE[0], "-D", "-o", str(self._traced), "true"], capture_output=True, check=False)
        self.strace = "execve" in self._traced.read_text("utf-8", "replace")

    @contextlib.contextmanager
    def running(self, step: str, words: list[str]) -> Iterator[subprocess.Popen[str]]:
        """Run a command while the `with` lasts, then end it and gather what was noted."""
        self._noted.write_text("", "utf-8")
        self._traced.write_text("", "utf-8")
        listed, ended = set[tuple[Any, ...]](), threading.Event()
        path = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))
        # What would ask the world by way of a proxy on this machine has to be seen to do so.
        bare = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        process = subprocess.Popen(
            [*STRACE, "-o", str(self._traced), *words] if self.strace else words,
            env={**bare, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        looks = threading.Thread(target=_look, args=(process.pid, listed, ended), daemon=True)
        if not self.strace:
            looks.start()
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=LEAVE_S)
            process.kill()
            process.communicate()  # strace ends with the last of the processes, and lets go of the pipes
            ended.set()
            if not self.strace:
                looks.join()
            noted = [tuple(json.loads(line)) for line in self._noted.read_text("utf-8").splitlines()]
            self.processes.update(pid for _, pid, *_ in noted)
            lines = map(_TRACED.match, self._traced.read_text("utf-8", "replace").splitlines())
            native = [(float(one[2]), int(one[1]), one[3], one[5], one[4]) for one in lines if one]
            for seen_by, found in (("python", noted), ("strace", native), ("system", listed)):
                for at, pid, call, host, port in found:
                    if call:
                        number = int(port) if str(port).isdigit() else None
                        seconds = round(at - self.began, 3)
                        self.calls.append(SocketCall(seconds, step, pid, call, host, number, seen_by))

    def run(self, step: str, words: list[str]) -> str | None:
        """Run a command to its end; the sentence on why it failed, or None."""
        with self.running(step, words) as process:
            try:
                _, said = process.communicate(timeout=STEP_S)
            except subprocess.TimeoutExpired:
                return f"{step} did not end within {STEP_S:g} s, the limit."
        return None if not process.returncode else f"{step} failed: {last_words(said.encode())}"

    def serve(self, step: str, words: list[str]) -> str | None:
        """Start a server, look at its page and search once; the sentence on why that failed, or None."""
        with self.running(step, words) as process:
            assert process.stdout is not None and process.stderr is not None
            late = threading.Timer(START_S, process.kill)
            late.start()
            found = re.search(r"http://[\w.:\[\]]+/", process.stdout.readline())
            try:
                if found is None:
                    return f"{step} failed: {last_words(process.stderr.read().encode())}"
                ask = build_opener(ProxyHandler({})).open
                for path in ("", f"api/v1/search?q={QUERY.replace(' ', '+')}"):
                    answered = False
                    while not answered:
                        try:
                            with ask(found[0] + path, timeout=START_S) as answer:
                                answered = bool(answer.read())
                        except HTTPError as error:
                            if error.code != 503:  # else its model is still loading
                                raise
                            time.sleep(POLL_S)
            except OSError as error:
                return f"{step} failed: {error}."
            finally:
                late.cancel()
        return None


def _look(pid: int, found: set[tuple[Any, ...]], ended: threading.Event) -> None:
    """Ask the system again and again for the connections of a process and its children."""
    import psutil

    known = set[tuple[Any, ...]]()
    while not ended.wait(POLL_S):
        with contextlib.suppress(psutil.Error):
            one = psutil.Process(pid)
            for process in (one, *one.children(recursive=True)):
                with contextlib.suppress(psutil.Error):  # it ended between two looks
                    listed = getattr(process, "net_connections", None) or process.connections  # before psutil 6
                    for held in listed(kind="inet"):
                        call, at = ("connection", held.raddr) if held.raddr else ("bind", held.laddr)
                        if at and (key := (process.pid, call, *at[:2])) not in known:
                            known.add(key)
                            found.add((time.time(), *key))


def network(
    model: Annotated[str, typer.Option(help="The model that the clips are indexed with, as in `index`.")] = "builtin",
    as_json: JsonOption = False,
) -> None:
    """Index, search, export and serve a small demo, and show what it opened; exit status 1 if that left the machine."""
    from evenreel.demo import make_demo_videos

    with tempfile.TemporaryDirectory(prefix="evenreel-check-") as place:
        folder = Path(place)
        make_demo_videos(folder / "videos", CLIPS)
        library, watch = ("--library", str(folder / "library")), NetworkWatch(folder)
        index = command("evenreel", "index", str(folder / "videos"), "--model", model, *library)
        out = ("--out", str(folder / "out"), "--all")
        failed = (
            watch.run("index", index)
            or watch.run("search", command("evenreel", "search", QUERY, *library))
            or watch.run("export", command("evenreel", "export", QUERY, *out, *library))
            or watch.serve("serve", command("evenreel", "serve", "--port", "0", *library))
        )
    calls = sorted(watch.calls, key=lambda one: one.seconds)
    outside = sum(not one.loopback for one in calls)
    if as_json:
        native = "strace" if watch.strace else "sampled"
        listed = [asdict(one) | {"loopback": one.loopback} for one in calls]
        data = {"processes": len(watch.processes), "native": native, "outside": outside, "failed": failed}
        print_json(data | {"calls": listed})
    else:
        _show(watch, calls, failed, outside)
    if failed or outside:
        raise typer.Exit(EXIT_FAILED)


def _show(watch: NetworkWatch, calls: list[SocketCall], failed: str | None, outside: int) -> None:
    out = console()
    how = "by strace" if watch.strace else f"by looking every {POLL_S * 1000:g} ms; a shorter one may be missed"
    out.print(
        f"Watched index, search, export and serve of {CLIPS} clips in {len(watch.processes):,} processes: "
        f"Python's calls by a hook, native code {how}.\nNot watched: sockets that are files, and other programs."
    )
    shown = set[tuple[Any, ...]]()
    for one in calls:
        if (key := (one.step, one.call, one.host, one.port)) not in shown:
            shown.add(key)
            where = f"{safe(one.host)}{'' if one.port is None else f', port {one.port}'}"
            mark = "this machine" if one.loopback else "[bold red]OUTSIDE[/]"
            out.print(f"{one.seconds:8.2f} s  {one.step:<7} {one.call:<12} {where}  {mark}  [dim]{one.seen_by}[/]")
    if failed:
        out.print(f"[red]{safe(failed)}[/]")
    if outside:
        out.print(f"[bold red]{count(outside, 'call')} left this machine or would have.[/]")
    elif not failed:
        out.print("Nothing was asked but this machine.")
