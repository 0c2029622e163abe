"""The page and the REST API of one library; `make_app` builds them, `serve` runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenreel.server.app import make_app, serve
    from evenreel.server.settings import ServeSettings

__all__ = ["ServeSettings", "make_app", "serve"]

_MODULE_OF = {"ServeSettings": "settings", "make_app": "app", "serve": "app"}


def __getattr__(name: str) -> Any:
    """Import a part when it is asked for: a process that makes pictures needs only its own module."""
    import importlib

    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"evenreel.server.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'evenreel.server' has no attribute {name!r}")
