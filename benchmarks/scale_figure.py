"""Figure of query times over the number of moments, both on log scales, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 80, 150, 24, 48
LINES = (("whole query, p99", "#b3462c", 2), ("whole query, p95", "#2a6592", 1), ("whole query, median", "#3d7a4a", 0))


def draw(runs: Sequence[dict[str, Any]]) -> str:
    """Draw the median, p95 and p99 of whole queries of several runs."""
    runs = sorted(runs, key=lambda run: run["moments"])
    sizes = [run["moments"] for run in runs]
    times = [value for run in runs for value in run["whole_ms"]]
    low, high = 10 ** int(log10(min(times))), 10 ** (int(log10(max(times))) + 1)

    def x(moments: float) -> float:
        share = log10(moments / sizes[0]) / log10(sizes[-1] / sizes[0])
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(time_ms: float) -> float:
        return HEIGHT - BOTTOM - log10(time_ms / low) / log10(high / low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif"'
        f' font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    ]
    tick = float(low)
    while tick <= high:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#dddddd"/>'
            f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.0f} ms</text>'
        )
        tick *= 10
    for size in sizes:
        parts.append(f'<text x="{x(size):.1f}" y="{HEIGHT - 26}" text-anchor="middle">{size / 1e6:.3g} M</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">moments</text>')
    label = float(TOP)
    for name, colour, place in LINES:
        points = [(x(run["moments"]), y(run["whole_ms"][place])) for run in runs]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{colour}"/>' for left, top in points]
        label = max(label + 16, points[-1][1] + 4)
        parts.append(f'<text x="{points[-1][0] + 8:.1f}" y="{label:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])
