"""Models of libraries in tests, by their names: of pixels, and of windows of several frames."""

from __future__ import annotations

from typing import Any

from evenreel.config import IndexSettings
from evenreel.types import Encoder
from tests.features.pixel_encoder import PixelEncoder
from tests.library.test_windows import WindowEncoder

SETTINGS = IndexSettings(model="org/pixels", workers=1, read_text=False)
HASHES = {"org/pixels": "a" * 64, "org/windows": "b" * 64, "org/third": "c" * 64}


def load(name: str, **_: Any) -> Encoder:
    name = name.removesuffix("@1")
    made = WindowEncoder(HASHES[name]) if name == "org/windows" else PixelEncoder(HASHES[name])
    made.encoder_id = f"{name}@1"
    return made
