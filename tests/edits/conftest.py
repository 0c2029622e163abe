"""The built-in encoder and pictures of circles, as the tests of encoders have them."""

from __future__ import annotations

from tests.encoders.conftest import builtin, circles

__all__ = ["builtin", "circles"]
