from .evaluation import evaluation_page as evaluation_page
from .page import (
    Chart as Chart,
    Page as Page,
    Section as Section,
    Table as Table,
    Text as Text,
    write_page as write_page,
)
from .result import (
    AuditFigure as AuditFigure,
    AuditResult as AuditResult,
    AuditTable as AuditTable,
    Effect as Effect,
)
