"""Does a ranking favour clips for the wrong reason? Audits of anyone's scores, on numpy alone."""

from evenreel.audits.edits.measures import PerturbedMeasures, measure_perturbed
from evenreel.audits.edits.overlay import audit_overlay
from evenreel.audits.edits.overlay_measures import OverlayMeasures, measure_overlay
from evenreel.audits.edits.textual import audit_textual
from evenreel.audits.edits.visual import audit_visual
from evenreel.audits.hubness.audit import audit_hubness
from evenreel.audits.hubness.measures import HubnessMeasures, measure_hubness
from evenreel.audits.length.audit import audit_length
from evenreel.audits.length.measures import LengthMeasures, measure_length
from evenreel.audits.length.tail import TailClasses, read_tail_classes
from evenreel.audits.registry import AUDITS, OF_EDITS, Audit, audit
from evenreel.audits.settings import AuditInputs, AuditSettings
from evenreel.audits.source.audit import SourceMeasures, audit_source, measure_source
from evenreel.report.result.record import AuditFigure, AuditResult, AuditTable, Effect

__all__ = [
    "AUDITS",
    "OF_EDITS",
    "Audit",
    "AuditFigure",
    "AuditInputs",
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
