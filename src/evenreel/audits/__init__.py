"""Does a ranking favour clips for the wrong reason? Audits of anyone's scores, on numpy alone."""

from evenreel.audits.hubness import audit_hubness
from evenreel.audits.hubness_measures import HubnessMeasures, measure_hubness
from evenreel.audits.length import audit_length
from evenreel.audits.length_measures import LengthMeasures, measure_length
from evenreel.audits.length_tail import TailClasses, read_tail_classes
from evenreel.audits.overlay import audit_overlay
from evenreel.audits.overlay_measures import OverlayMeasures, measure_overlay
from evenreel.audits.perturbed_measures import PerturbedMeasures, measure_perturbed
from evenreel.audits.registry import AUDITS, OF_EDITS, OF_SOURCE, audit
from evenreel.audits.result import AuditFigure, AuditResult, AuditSettings, AuditTable, Effect
from evenreel.audits.source import SourceMeasures, audit_source, measure_source
from evenreel.audits.textual import audit_textual
from evenreel.audits.visual import audit_visual

__all__ = [
    "AUDITS",
    "OF_EDITS",
    "OF_SOURCE",
    "AuditFigure",
    "AuditResult",
    "AuditSettings",
    "AuditTable",
    "Effect",
    "HubnessMeasures",
    "LengthMeasures",
    "OverlayMeasures",
    "PerturbedMeasures",
    "SourceMeasures",
    "TailClasses",
    "audit",
    "audit_hubness",
    "audit_length",
    "audit_overlay",
    "audit_source",
    "audit_textual",
    "audit_visual",
    "measure_hubness",
    "measure_length",
    "measure_overlay",
    "measure_perturbed",
    "measure_source",
    "read_tail_classes",
]
