"""Words on signs in rendered videos, a task: captions name one of them."""

from __future__ import annotations

from functools import partial

from benchmarks.evidence.rendered.worlds import ORACLE, admission_models, admission_rows, draw, measured_rows
from benchmarks.evidence.rows import Evidence, Size

MODELS = admission_models("scene_text")
ROWS = admission_rows("scene_text")
EVIDENCE = Evidence(
    "rendered",
    "scene_text",
    ROWS,
    partial(draw, "scene_text"),
    partial(measured_rows, MODELS),
    Size(1_500, 0, 500),
    ORACLE,
)
