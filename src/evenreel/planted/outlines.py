"""Outlines of the shapes: closed loops of points, the first of which is filled and later ones are cut out."""

from __future__ import annotations

from collections.abc import Callable
from math import asin

import numpy as np
from numpy.typing import NDArray

Loop = NDArray[np.float64]
"""(P, 2) x and y of a closed outline; y points down."""

ROUND_POINTS = 48


def _arc(start: float, end: float, radius: float = 1.0, points: int = ROUND_POINTS) -> Loop:
    """Points from angle `start` to `end`, in turns, clockwise from the right as y points down."""
    angle = 2 * np.pi * np.linspace(start, end, points)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _regular(corners: int) -> Loop:
    return _arc(-0.25, 0.75, points=corners + 1)[:-1]


def _circle() -> tuple[Loop, ...]:
    return (_arc(0, 1),)


def _ring() -> tuple[Loop, ...]:
    return _arc(0, 1), _arc(0, 1, radius=0.52)


def _square() -> tuple[Loop, ...]:
    side = 0.86
    return (np.array([[-side, -side], [side, -side], [side, side], [-side, side]]),)


def _triangle() -> tuple[Loop, ...]:
    return (1.12 * _regular(3),)


def _star() -> tuple[Loop, ...]:
    points = _regular(10)
    points[1::2] *= 0.42
    return (1.1 * points,)


def _cross() -> tuple[Loop, ...]:
    a, b = 0.36, 1.0
    quarter = np.array([[a, -b], [a, -a], [b, -a]])
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    return (np.concatenate([quarter @ np.linalg.matrix_power(turn, n) for n in range(4)]),)


def _heart() -> tuple[Loop, ...]:
    """The usual curve x = 16 sin^3 t, y = 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t, turned upright."""
    t = np.linspace(0, 2 * np.pi, ROUND_POINTS)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return (np.stack([x, -y - 2.5], axis=1) / 15.5,)


def _crescent() -> tuple[Loop, ...]:
    """The left of a disc, hollowed by a smaller disc that meets it at the two tips."""
    tip_angle, hollow_radius = 0.165, 0.88
    back = _arc(tip_angle, 1 - tip_angle)
    hollow_tip = asin(abs(back[0, 1]) / hollow_radius) / (2 * np.pi)
    hollow = _arc(1 - hollow_tip, hollow_tip, radius=hollow_radius)
    hollow[:, 0] += back[-1, 0] - hollow[0, 0]
    return (np.concatenate([back, hollow]) + np.array([0.2, 0.0]),)


OUTLINES: dict[str, Callable[[], tuple[Loop, ...]]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "heart": _heart,
    "cross": _cross,
    "ring": _ring,
    "crescent": _crescent,
}
"""Shape name -> its loops, about 1 in radius around the origin."""


def outline(shape: str, turns: float) -> tuple[Loop, ...]:
    """Return the loops of a shape of radius 1 around the origin, rotated clockwise by `turns` (1 is once round)."""
    angle = 2 * np.pi * turns
    rotate = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return tuple(loop @ rotate for loop in OUTLINES[shape]())
