"""Sender of a request: the address of the connection, or what a trusted proxy says of it; and the body it sends."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from evenreel.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

FORWARDED = b"x-forwarded-for"
OWN_BITS = 64
"""Leading bits of an IPv6 address that stand for one person: whoever has one address has all that begin alike."""

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Senders:
    """Finds the address of a request's sender."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = [_network(proxy) for proxy in proxies]

    def sender(self, scope: Scope) -> str:
        """Return the address that a request comes from, '' where unknown; of IPv6 the network that one person has.

        Each proxy adds the address that it was called from to the end of the header, so the last one that is not a
        trusted proxy's is believed, and nothing before it.
        """
        peer = str(scope["client"][0]) if scope.get("client") else ""
        said = b",".join(value for name, value in scope["headers"] if name == FORWARDED).decode("latin-1").split(",")
        believed = address_of(peer)
        for one in reversed(said):
            if believed is None or not self._is_proxy(believed):
                break
            if (before := address_of(one)) is None:
                break
            believed = before
        return peer if believed is None else _person(believed)

    def _is_proxy(self, address: Address) -> bool:
        return any(address in network for network in self._proxies)


async def received(receive: Receive, most: int, within_s: float) -> bytes:
    """Receive the body of a request; one that is larger than it may be is cut off behind `most` bytes."""
    from starlette.requests import ClientDisconnect  # settings are read without it

    async def body() -> bytes:
        content, more = bytearray(), True
        while more and len(content) <= most:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            content += message.get("body", b"")
            more = message.get("more_body", False)
        return bytes(content)

    return await asyncio.wait_for(body(), within_s)


def address_of(text: str) -> Address | None:
    """Parse an address as proxies write it, with or without a port; None for what is none.

    Example:
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


def _person(address: Address) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, OWN_BITS), strict=False))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise UsageError(
            f"'{text}' is neither the address nor the network of a proxy; give it as 10.0.0.2 or 10.0.0.0/24."
        ) from error
