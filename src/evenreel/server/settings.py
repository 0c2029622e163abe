"""Settings of a server: address, access, and limits; and which names and addresses are whose."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.config import DEFAULT_PORT, IMAGE_LIMITS, RERANK_DEPTH, MediaLimits, usable_cores
from evenreel.documents import brief
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_RESULTS = 200
SHORTEST_TOKEN = 8
LAST_PORT = 65_535
MOST_WORKERS = 64
HOST_NAME = re.compile(r"[\w.-]+", re.ASCII)
HANDED_ON = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers of a request that a proxy has handed on."""


def default_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("evenreel") / "pictures"


@dataclass(frozen=True)
class ServeSettings:
    """Settings of a server.

    Attributes:
        host: address to listen on; any other than this machine's needs a token.
        port: port to listen on; 0 for any that is free.
        token: what visitors have to know; the environment's EVENREEL_TOKEN keeps it out of the list of processes.
        allowed_hosts: further names that browsers may call this server by.
        trusted_proxies: addresses or networks of reverse proxies, whose X-Forwarded-For is believed, no one else's.
        vision: False searches by words alone and loads no model.
        device: where the model runs, and the matcher.
        rerank: a matcher's checkpoint, folder or hub id, that orders the first clips of sentences anew; None for none.
        rerank_depth: number of clips that a matcher orders anew.
        open_folders: whoever sits at this machine is told where files are, and can have them shown in its file manager.
        workers: processes that answer behind the one port; each holds a model of its own, and the limits of
            connections and of waiting searches hold for all together, each having an equal share.
        searchers: threads that search at the same time; with more than half the cores they wait for each other.
        waiting: requests that may wait for one of them; more are refused with 'retry later'.
        painters: processes that make stills and previews.
        max_upload_bytes: largest picture that may be sent.
        upload_timeout_s: how long sending it may take.
        idle_s: how long a connection may take to bring a whole request before it is closed.
        connections: how many may be open at a time; for one more, one that brings no whole request is closed. Each may
            have two files open beside it.
        cache: folder of stills and previews.
        cache_bytes: how much of them is kept.
        snapshot_cache: folder of published snapshots on this machine; None for your cache folder.
        limits: what making one of them may cost.
        image_limits: what decoding a picture may cost that is searched by.

    Raises:
        UsageError: a number is out of range; the address is open to others and there is no token, or a short one;
            folders are to be opened for others; one of `allowed_hosts` is no name of a host, or of `trusted_proxies`
            no address; a matcher is to re-rank without vision.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    vision: bool = True
    device: str = "auto"
    rerank: str | None = None
    rerank_depth: int = RERANK_DEPTH
    open_folders: bool = False
    workers: int = 1
    searchers: int = field(default_factory=lambda: max(1, min(4, usable_cores() // 2)))
    waiting: int = 64
    painters: int = 2
    max_upload_bytes: int = 20 * 2**20
    upload_timeout_s: float = 30.0
    idle_s: float = 15.0
    connections: int = 500
    cache: Path = field(default_factory=default_cache)
    cache_bytes: int = 2 * 2**30
    snapshot_cache: Path | None = None
    limits: MediaLimits = field(default_factory=lambda: MediaLimits(stall_timeout_s=30.0))
    image_limits: MediaLimits = IMAGE_LIMITS

    def __post_init__(self) -> None:
        if not 0 <= self.port <= LAST_PORT:
            raise UsageError(f"There is no port {self.port}; the last one is {LAST_PORT}.")
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise UsageError(f"The token needs at least {SHORTEST_TOKEN} ASCII characters; take a longer one.")
        if self.token is None and not is_loopback(self.host):
            raise UsageError(
                f"{self.host} can be reached by others, so a token is needed: --token, or EVENREEL_TOKEN in the "
                "environment; without one, leave --host out to serve this machine only."
            )
        if self.open_folders and not is_loopback(self.host):
            raise UsageError(f"{self.host} can be reached by others; leave out --open-folders or --host.")
        if self.open_folders and (self.allowed_hosts or self.trusted_proxies):
            raise UsageError(
                "Through a proxy others reach the server, and cannot be told from whoever sits here; leave out "
                "--open-folders, or --allow-host and --trusted-proxy."
            )
        if self.rerank is not None and not self.vision:
            raise UsageError("A matcher re-ranks by frames; leave out --rerank or --no-vision.")
        if self.rerank_depth < 1:
            raise UsageError(f"The number of clips to re-rank is {self.rerank_depth}; it must be 1 or more.")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise UsageError(f"The number of workers is {brief(self.workers)}; it must be 1 to {MOST_WORKERS}.")
        for proxy in self.trusted_proxies:
            proxy_network(proxy)
        for name in self.allowed_hosts:
            with_port = name.count(":") == 1 or "]:" in name
            if not HOST_NAME.fullmatch(name) and (with_port or address_of(name) is None):
                raise UsageError(
                    f"'{name}' is no name of a host; give it without scheme, port and path: films.example."
                )

    def of_one_worker(self) -> ServeSettings:
        """Return the settings of each of the workers: an equal share of the limits, rounded up, at least 1."""
        shared = ("searchers", "waiting", "painters", "connections")
        changes: dict[str, Any] = {name: self.share(getattr(self, name)) for name in shared}
        return replace(self, **changes)

    def share(self, limit: int) -> int:
        """Return a worker's share of a limit for all, rounded up.

        >>> ServeSettings(workers=4).share(10), ServeSettings(workers=4).share(1)
        (3, 1)
        """
        return -(-limit // self.workers)


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    address = address_of(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def is_known_host(name: str, settings: ServeSettings) -> bool:
    """Return whether a request may call the server by this name (the Host header without its port).

    A page of a stranger can make its own name point to this machine (DNS rebinding), but not a number or a name that
    is ours. So a server for this machine knows its loopback names; one for others also knows numbers, this machine's
    name, and what the operator names.
    """
    name = name.lower().rstrip(".")
    if is_loopback(name) or name.strip("[]") in {one.lower().rstrip(".").strip("[]") for one in settings.allowed_hosts}:
        return True
    if is_loopback(settings.host):
        return False
    return name in {settings.host.lower(), socket.gethostname().lower()} or address_of(name) is not None


def proxy_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise UsageError(
            f"'{text}' is neither the address nor the network of a proxy; give it as 10.0.0.2 or 10.0.0.0/24."
        ) from error


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address as proxies and the Host header write it, with or without a port; None for what is none.

    >>> address_of(" 10.0.0.1:443"), address_of("[::1]:443"), address_of("::ffff:10.0.0.1"), address_of("unknown")
    (IPv4Address('10.0.0.1'), IPv6Address('::1'), IPv4Address('10.0.0.1'), None)
    """
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def is_near(request: Request, settings: ServeSettings) -> bool:
    """Return whether a request can come only from this machine.

    A proxy on this machine hands on the requests of others, and some add no header that would tell. So nobody is near
    where the settings name other hosts or a proxy.
    """
    others = bool(settings.allowed_hosts or settings.trusted_proxies) or not is_loopback(settings.host)
    handed_on = any(name in request.headers for name in HANDED_ON)
    return not others and not handed_on and request.client is not None and is_loopback(request.client.host)
