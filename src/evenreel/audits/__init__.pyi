from .class_lengths import TailClasses as TailClasses, read_tail_classes as read_tail_classes
from .composition import (
    CompositionMeasures as CompositionMeasures,
    audit_composition as audit_composition,
    measure_composition as measure_composition,
)
from .edits import (
    PerturbedMeasures as PerturbedMeasures,
    audit_textual as audit_textual,
    audit_visual as audit_visual,
    measure_perturbed as measure_perturbed,
)
from .hubness import (
    HubnessMeasures as HubnessMeasures,
    audit_hubness as audit_hubness,
    measure_hubness as measure_hubness,
)
from .length import (
    LengthMeasures as LengthMeasures,
    audit_length as audit_length,
    measure_length as measure_length,
)
from .order import (
    OrderMeasures as OrderMeasures,
    audit_order as audit_order,
    measure_order as measure_order,
)
from .overlay import (
    OverlayMeasures as OverlayMeasures,
    audit_overlay as audit_overlay,
    measure_overlay as measure_overlay,
)
from .registry import AUDITS as AUDITS, Audit as Audit, OF_EDITS as OF_EDITS, audit as audit
from .settings import AuditInputs as AuditInputs, AuditSettings as AuditSettings
from .source import (
    SourceMeasures as SourceMeasures,
    audit_source as audit_source,
    measure_source as measure_source,
)
