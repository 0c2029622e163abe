"""All biases that are measured, each in its worlds."""

from __future__ import annotations

from benchmarks.evidence import domain, length, scene_text, source, textual, visual
from benchmarks.evidence.rendered import domain as rendered_domain
from benchmarks.evidence.rendered import scene_text as rendered_scene_text
from benchmarks.evidence.rows import Evidence
from benchmarks.evidence.together import source_text, textual_domain, visual_length

EVIDENCE: tuple[Evidence, ...] = (
    visual.EVIDENCE,
    textual.EVIDENCE,
    length.EVIDENCE,
    source.EVIDENCE,
    domain.EVIDENCE,
    scene_text.EVIDENCE,
    visual_length.EVIDENCE,
    source_text.EVIDENCE,
    textual_domain.EVIDENCE,
    rendered_domain.EVIDENCE,
    rendered_scene_text.EVIDENCE,
    rendered_scene_text.HARDER_EVIDENCE,
)
"""In the order of the page. A bias has a module of its own in each kind of world."""
