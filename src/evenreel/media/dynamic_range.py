"""Conversion of high dynamic range and wide gamut to sRGB, by the published curves.

swscale would take 10 s to prepare for it. Light is counted in units of diffuse white, 203 cd/m2 (ITU-R BT.2408).
Brighter light, up to 1000 cd/m2, is compressed below white by the curve of ITU-R BT.2390-10, 5.4.1, on the largest of
R, G, B, so hues stay.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evenreel.types import FloatArray, Pixels

DIFFUSE_WHITE = 203.0  # cd/m2
PEAK = 1000.0  # cd/m2; what lies above is white
PQ, HLG = 16, 18  # transfer numbers of ITU-T H.273
WIDE_PRIMARIES = {9: "BT.2020", 11: "P3", 12: "P3"}  # primaries numbers of ITU-T H.273

_SDR_GAMMA = 2.4  # ITU-R BT.1886
_SRGB_STEPS = 4096
_BT2020_LUMA = np.array([0.2627, 0.6780, 0.0593], np.float32)
_IPT_TO_LMS = np.array([[1, 0.0976, 0.2052], [1, -0.1139, 0.1332], [1, 0.0326, -0.6769]], np.float32)
_LMS_TO_BT2020 = np.array(  # with the crosstalk of 2 % taken out
    [[3.2385, -2.3253, 0.0867], [-0.7192, 1.8782, -0.1590], [-0.0028, -0.0716, 1.0743]], np.float32
)
# Linear light with a D65 white to BT.709 (ITU-R BT.2087 for BT.2020, SMPTE EG 432-1 for Display P3).
_TO_BT709 = {
    "BT.2020": [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
    "P3": [[1.2249, -0.2247, 0.0], [-0.0420, 1.0419, 0.0], [-0.0197, -0.0786, 1.0979]],
}


def needs_mapping(transfer: int, primaries: int) -> bool:
    """Return whether a picture with these H.273 transfer and primaries numbers exceeds what sRGB can show."""
    return transfer in (PQ, HLG) or primaries in WIDE_PRIMARIES


def to_srgb(signal: NDArray[np.uint16], transfer: int, primaries: int) -> Pixels:
    """Convert (H, W, 3) full-range R'G'B' of 16 bits to (H, W, 3) sRGB of 8 bits."""
    return _shown(_light(transfer)[signal], transfer, primaries)


def ipt_to_srgb(signal: NDArray[np.uint16]) -> Pixels:
    """Convert (H, W, 3) full-range IPT-PQ-c2 of 16 bits (ETSI TS 103 572) to (H, W, 3) sRGB of 8 bits."""
    lms = (signal - np.array([0, 2**15, 2**15], np.float32)) @ _IPT_TO_LMS.T
    light = _light(PQ)[lms.clip(0, 2**16 - 1).astype(np.uint16)] @ _LMS_TO_BT2020.T
    return _shown(light.clip(0), PQ, 9)


def _shown(light: FloatArray, transfer: int, primaries: int) -> Pixels:
    """Linear light in the given primaries -> sRGB; the light is changed."""
    if transfer == HLG:  # its system gamma of 1.2 works on luminance (ITU-R BT.2100, table 5)
        light *= (PEAK / DIFFUSE_WHITE) * np.maximum(light @ _BT2020_LUMA, 1e-6)[..., None] ** np.float32(0.2)
    if transfer in (PQ, HLG):
        light *= _compression(light.max(axis=2))[..., None]
    matrix = np.array(_TO_BT709[WIDE_PRIMARIES.get(primaries, "BT.2020")], np.float32)
    light = light @ matrix.T
    np.clip(light, 0.0, 1.0, out=light)
    light *= _SRGB_STEPS - 1
    return _srgb_codes(transfer)[(light + 0.5).astype(np.uint16)]


@lru_cache(maxsize=4)
def _light(transfer: int) -> FloatArray:
    """16-bit signal -> light: of diffuse white for PQ and SDR, of the scene's peak for HLG."""
    signal = np.linspace(0.0, 1.0, 2**16)
    if transfer == PQ:
        light = pq_to_nits(signal) / DIFFUSE_WHITE
    elif transfer == HLG:
        a, b, c = 0.17883277, 0.28466892, 0.55991073  # ITU-R BT.2100, table 5
        light = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12)
    else:
        light = signal**_SDR_GAMMA
    return light.astype(np.float32)


@lru_cache(maxsize=2)
def _compression_curve() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Light -> the factor that BT.2390 takes it down by, at points even in PQ."""
    source = np.linspace(nits_to_pq(1e-4), 1.0, 1024)
    peak, white = nits_to_pq(PEAK), nits_to_pq(DIFFUSE_WHITE) / nits_to_pq(PEAK)
    knee = 1.5 * white - 0.5
    level = np.minimum(source / peak, 1.0)
    t = np.maximum(level - knee, 0.0) / (1.0 - knee)
    spline = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * white
    mapped = np.where(level < knee, level, spline)
    light = pq_to_nits(source)
    return light / DIFFUSE_WHITE, pq_to_nits(mapped * peak) / light


def _compression(light: FloatArray) -> FloatArray:
    """The factor of each pixel by its largest component."""
    points, factors = _compression_curve()
    return np.interp(light, points, factors).astype(np.float32)


@lru_cache(maxsize=2)
def _srgb_codes(transfer: int) -> Pixels:
    """Linear light in steps -> 8-bit codes: sRGB's curve, or for SDR video the one it came with."""
    light = np.linspace(0.0, 1.0, _SRGB_STEPS)
    if transfer in (PQ, HLG):
        coded = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    else:
        coded = light ** (1 / _SDR_GAMMA)
    return (coded * 255).round().astype(np.uint8)


def pq_to_nits(signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert a SMPTE ST 2084 signal, 0..1, to cd/m2."""
    root = np.power(signal, 32 / 2523)
    light = np.maximum(root - 3424 / 4096, 0.0) / (2413 / 128 - 2392 / 128 * root)
    return np.asarray(10_000 * np.power(light, 16384 / 2610))


def nits_to_pq(nits: float) -> float:
    """Convert cd/m2 to a SMPTE ST 2084 signal, 0..1.

    >>> round(nits_to_pq(100.0), 3), round(nits_to_pq(203.0), 3), round(nits_to_pq(10_000.0), 3)
    (0.508, 0.581, 1.0)
    """
    power = float(nits / 10_000) ** (2610 / 16384)
    return float(((3424 / 4096 + 2413 / 128 * power) / (1 + 2392 / 128 * power)) ** (2523 / 32))
