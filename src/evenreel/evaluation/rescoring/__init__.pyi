from .columns import dense as dense
from .methods import (
    csls as csls,
    double_softmax as double_softmax,
    dual_softmax as dual_softmax,
    hub_memory as hub_memory,
    inverted_softmax as inverted_softmax,
    nearest_neighbour_norm as nearest_neighbour_norm,
    querybank_norm as querybank_norm,
)
from .registry import ALONE as ALONE, RESCORINGS as RESCORINGS, Rescoring as Rescoring, rescore as rescore
from .settings import RescoringSettings as RescoringSettings
from .transported import (
    dual_bank_sinkhorn as dual_bank_sinkhorn,
    sinkhorn_norm as sinkhorn_norm,
    sinkhorn_over_test as sinkhorn_over_test,
)
