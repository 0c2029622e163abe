"""Registry of the kinds of corruption."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from evenreel.edits.corruptions.high import insertion, scrambling, style
from evenreel.edits.corruptions.low import compression, elastic, fog, gaussian_noise, impulse_noise, snow
from evenreel.edits.corruptions.middle import defocus, motion_blur, occlusion
from evenreel.edits.corruptions.original import Corrupt
from evenreel.edits.corruptions.settings import KINDS

CORRUPTIONS: Mapping[str, Corrupt] = MappingProxyType(
    dict(
        zip(
            KINDS,
            (
                *(gaussian_noise, impulse_noise, fog, snow, elastic, compression),
                *(motion_blur, defocus, occlusion),
                *(style, insertion, scrambling),
            ),
            strict=True,
        )
    )
)
"""Function that corrupts a clip, by the name of the kind."""
