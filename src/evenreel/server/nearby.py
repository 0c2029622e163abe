"""Whether a request comes from whoever sits at the machine of the server."""

from __future__ import annotations

from fastapi import Request

from evenreel.server.settings import ServeSettings, is_loopback

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers of a request that a proxy has handed on."""


def is_near(request: Request, settings: ServeSettings) -> bool:
    """Return whether a request can come only from this machine.

    A proxy on this machine hands on the requests of others, and some add no header that would tell. So nobody is near
    where the settings name other hosts or a proxy.
    """
    others = bool(settings.allowed_hosts or settings.trusted_proxies) or not is_loopback(settings.host)
    handed_on = any(name in request.headers for name in FORWARDED)
    return not others and not handed_on and request.client is not None and is_loopback(request.client.host)
