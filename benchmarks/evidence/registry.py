"""All biases that are measured, each in its worlds."""

from __future__ import annotations

from benchmarks.evidence import domains, drawn, rendered
from benchmarks.evidence.engine import Evidence

EVIDENCE: tuple[Evidence, ...] = (
    drawn.VISUAL,
    drawn.TEXTUAL,
    drawn.LENGTH,
    drawn.SOURCE,
    domains.EVIDENCE,
    drawn.SCENE_TEXT,
    drawn.VISUAL_LENGTH,
    drawn.SOURCE_TEXT,
    drawn.TEXTUAL_DOMAIN,
    domains.RENDERED_EVIDENCE,
    rendered.EVIDENCE,
    rendered.HARDER_EVIDENCE,
)
"""In the order of the page."""
