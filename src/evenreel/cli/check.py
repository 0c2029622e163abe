"""`evenreel check network`: runs the commands on a small demo, and says what they opened on the network.

Two watchers run beside each other. A hook in every Python process, worker or not, sees each call of Python's sockets
from its first import on. Native code is seen by strace where it is there and may trace; elsewhere the system is asked
many times a second which connections the processes have, which may miss one that is gone at once.
"""

from __future__ import annotations

import contextlib
import inspect
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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.parse import quote_plus
from urllib.request import ProxyHandler, build_opener

import typer

from evenreel.cli import EXIT_FAILED
from evenreel.cli.options import JsonOption
from evenreel.cli.show_library import console, print_json, safe
from evenreel.media.workers import command, last_words
from evenreel.wording import count

CLIPS = 5
POLL_S = 0.02
STEP_S, LEAVE_S = 600.0, 20.0  # most seconds of a step, and of the end of a server
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

    def note(call: str, at: object) -> None:
        if isinstance(at, tuple) and len(at) > 1 and isinstance(at[0], (str, bytes)):  # else it is of this machine
            host = at[0].decode() if isinstance(at[0], bytes) else at[0]
            with open(place, "a", encoding="utf-8") as file:
                file.write(json.dumps([time.time(), os.getpid(), call, host, at[1]], default=str) + "\n")

    def watch(event: str, given: tuple[object, ...]) -> None:
        call = event.partition("socket.")[2]
        if call in ("connect", "bind", "sendto", "sendmsg", "getnameinfo"):
            note(call, given[-1])
        elif call in ("getaddrinfo", "gethostbyname", "gethostbyaddr"):
            note(call, (*given, None)[:2])

    note("", ("", None))
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
        from evenreel.server.settings import is_loopback

        return self.port != DNS and is_loopback(self.host)


class NetworkWatch:
    """Runs commands and gathers what their processes open; the watchers write into a folder."""

    def __init__(self, folder: Path) -> None:
        self.calls, self.processes = list[SocketCall](), set[int]()  # the processes are Python's
        self._folder, self._began, self._noted, self._traced = folder, time.time(), folder / "python", folder / "traced"
        source = f"{inspect.getsource(_hook)}\n\n_hook({str(self._noted)!r})\n"
        (folder / "sitecustomize.py").write_text(source, "utf-8")
        self._traced.write_text("", "utf-8")
        if shutil.which(STRACE[0]) is not None and sys.platform == "linux":  # it may be forbidden to trace
            subprocess.run([STRACE[0], "-D", "-o", str(self._traced), "true"], capture_output=True, check=False)
        self.strace = "execve" in self._traced.read_text("utf-8", "replace")

    def run(self, step: str, words: list[str], ask: Callable[[str], None] | None = None) -> str | None:
        """Run a command to its end, a server until its address was asked; the sentence on why it failed, or None."""
        self._noted.write_text("", "utf-8")
        self._traced.write_text("", "utf-8")
        listed, ended = dict[tuple[Any, ...], float](), threading.Event()
        path = os.pathsep.join(filter(None, (str(self._folder), os.environ.get("PYTHONPATH"))))
        # What would ask the world by way of a proxy on this machine has to be seen to do so; a token is for others.
        bare = {name: of for name, of in os.environ.items() if not name.lower().endswith(("_proxy", "evenreel_token"))}
        with (
            tempfile.TemporaryFile() as complaints,
            subprocess.Popen(
                [*STRACE, "-o", str(self._traced), *words] if self.strace else words,
                env={**bare, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
            ) as process,
        ):
            assert process.stdout is not None
            late, found = threading.Timer(STEP_S, process.kill), None
            late.start()
            if not self.strace:
                threading.Thread(target=_look, args=(process.pid, listed, ended), daemon=True).start()
            try:
                if ask and (found := re.search(rb"http://[\w.:\[\]]+/", process.stdout.readline())):
                    ask(found[0].decode())
                    process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
                    late.cancel()
                    late = threading.Timer(LEAVE_S, process.kill)
                    late.start()
                process.stdout.read()
            except OSError as error:
                return f"{step} failed: {error}."
            finally:
                late.cancel()
                process.kill()
                process.stdout.read()  # strace ends with the last of the processes, and lets go of the pipe
                process.wait()
                ended.set()
                self._gather(step, listed)
            complaints.seek(0)
            why = last_words(complaints.read())
        if process.returncode < 0:
            why = f"it was killed; {STEP_S:g} s are the limit. {why}".rstrip()
        return f"{step} failed: {why}" if (found is None if ask else process.returncode) else None

    def _gather(self, step: str, listed: dict[tuple[Any, ...], float]) -> None:
        noted = [tuple(json.loads(line)) for line in self._noted.read_text("utf-8").splitlines()]
        self.processes.update(pid for _, pid, *_ in noted)
        lines = map(_TRACED.match, self._traced.read_text("utf-8", "replace").splitlines())
        native = [(float(one[2]), int(one[1]), one[3], one[5], one[4]) for one in lines if one]
        system = [(at, *of) for of, at in list(listed.items())]
        for seen_by, found in (("python", noted), ("strace", native), ("system", system)):
            for at, pid, call, host, port in found:
                if call:
                    number = int(port) if str(port).isdigit() else None
                    self.calls.append(SocketCall(round(at - self._began, 3), step, pid, call, host, number, seen_by))


def _ask(address: str) -> None:
    """Look at the page of a server, and search once its model is loaded."""
    visit = build_opener(ProxyHandler({})).open
    visit(address, timeout=STEP_S).close()
    while True:
        try:
            visit(f"{address}api/v1/search?q={quote_plus(QUERY)}", timeout=STEP_S).close()
            return
        except HTTPError as error:
            if error.code != 503:
                raise
            time.sleep(POLL_S)


def _look(pid: int, listed: dict[tuple[Any, ...], float], ended: threading.Event) -> None:
    """Ask the system again and again for the connections of a process and its children."""
    import psutil

    while not ended.wait(POLL_S):
        with contextlib.suppress(psutil.Error):
            one = psutil.Process(pid)
            for process in (one, *one.children(recursive=True)):
                with contextlib.suppress(psutil.Error):  # it ended between two looks
                    look = getattr(process, "net_connections", None) or process.connections  # before psutil 6
                    for held in look(kind="inet"):
                        call, at = ("connection", held.raddr) if held.raddr else ("bind", held.laddr)
                        if at:
                            listed.setdefault((process.pid, call, *at[:2]), time.time())


def network(
    model: Annotated[str, typer.Option(help="The model that the clips are indexed with, as in `index`.")] = "builtin",
    as_json: JsonOption = False,
) -> None:
    """Index, search, export and serve a small demo, and show what it opened; exit status 1 if that left the machine."""
    from rich.console import Console

    from evenreel.demo import make_demo_videos

    told = Console(stderr=True).status("Running index, search, export and serve on a small demo ...")
    with told, tempfile.TemporaryDirectory(prefix="evenreel-check-") as place:
        folder = Path(place)
        make_demo_videos(folder / "videos", CLIPS)
        library, watch = ("--library", str(folder / "library")), NetworkWatch(folder)
        index = command("evenreel", "index", str(folder / "videos"), "--model", model, *library)
        out = ("--out", str(folder / "out"), "--all")
        failed = (
            watch.run("index", index)
            or watch.run("search", command("evenreel", "search", QUERY, *library))
            or watch.run("export", command("evenreel", "export", QUERY, *out, *library))
            or watch.run("serve", command("evenreel", "serve", "--port", "0", *library), _ask)
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
