"""Does a ranking favour clips for the wrong reason? Audits of anyone's scores, on numpy alone."""

from evenreel.audits.length import audit_length
from evenreel.audits.length_measures import LengthMeasures, measure_length
from evenreel.audits.length_tail import TailClasses, read_tail_classes
from evenreel.audits.registry import AUDITS, OF_SOURCE, audit
from evenreel.audits.result import AuditFigure, AuditResult, AuditSettings, AuditTable, Effect
from evenreel.audits.source import SourceMeasures, audit_source, measure_source

__all__ = [
    "AUDITS",
    "OF_SOURCE",
    "AuditFigure",
    "AuditResult",
    "AuditSettings",
    "AuditTable",
    "Effect",
    "LengthMeasures",
    "SourceMeasures",
    "TailClasses",
    "audit",
    "audit_length",
    "audit_source",
    "measure_length",
    "measure_source",
    "read_tail_classes",
]
