"""Another look, other words and other company in rendered videos of a source than in those of a target."""

from __future__ import annotations

from functools import partial

from benchmarks.evidence.rendered.worlds import admission_models, admission_rows, draw, measured_rows
from benchmarks.evidence.rows import Evidence, Size

MODELS = admission_models("domain")
ROWS = admission_rows("domain")
EVIDENCE = Evidence(
    "rendered", "domain", ROWS, partial(draw, "domain"), partial(measured_rows, MODELS), Size(1_500, 0, 500)
)
