"""Lengths that stand in for the activity in rendered videos, which wti sees by a transformer over the frames."""

from __future__ import annotations

from functools import partial

from benchmarks.evidence.rendered.worlds import admission_models, admission_rows, draw, measured_rows
from benchmarks.evidence.rows import Evidence, Size

MODELS = admission_models("length")
ROWS = admission_rows("length")
EVIDENCE = Evidence(
    "rendered", "length", ROWS, partial(draw, "length"), partial(measured_rows, MODELS), Size(3_000, 0, 1_500)
)
