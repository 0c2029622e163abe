"""Does a ranking favour clips for the wrong reason? Audits of anyone's scores, on numpy alone."""

from evenreel.audits.registry import AUDITS, audit
from evenreel.audits.result import AuditFigure, AuditResult, AuditSettings, AuditTable, Effect
from evenreel.audits.source import SourceMeasures, audit_source, measure_source

__all__ = [
    "AUDITS",
    "AuditFigure",
    "AuditResult",
    "AuditSettings",
    "AuditTable",
    "Effect",
    "SourceMeasures",
    "audit",
    "audit_source",
    "measure_source",
]
