from .composition.audit import audit_composition as audit_composition
from .composition.measures import CompositionMeasures as CompositionMeasures, measure_composition as measure_composition
from .edits.measures import PerturbedMeasures as PerturbedMeasures, measure_perturbed as measure_perturbed
from .edits.overlay import audit_overlay as audit_overlay
from .edits.overlay_measures import OverlayMeasures as OverlayMeasures, measure_overlay as measure_overlay
from .edits.textual import audit_textual as audit_textual
from .edits.visual import audit_visual as audit_visual
from .hubness import (
    HubnessMeasures as HubnessMeasures,
    audit_hubness as audit_hubness,
    measure_hubness as measure_hubness,
)
from .length.audit import audit_length as audit_length
from .length.measures import LengthMeasures as LengthMeasures, measure_length as measure_length
from .length.tail import TailClasses as TailClasses, read_tail_classes as read_tail_classes
from .order.audit import audit_order as audit_order
from .order.measures import OrderMeasures as OrderMeasures, measure_order as measure_order
from .registry import AUDITS as AUDITS, Audit as Audit, OF_EDITS as OF_EDITS, audit as audit
from .settings import AuditInputs as AuditInputs, AuditSettings as AuditSettings
from .source import (
    SourceMeasures as SourceMeasures,
    audit_source as audit_source,
    measure_source as measure_source,
)
