from .accepted import ScoresLike as ScoresLike, as_scores as as_scores
from .answers import RELEVANCE as RELEVANCE, RelevanceLike as RelevanceLike, RelevanceName as RelevanceName
from .comparison import Comparison as Comparison, compare as compare
from .fused import Validation as Validation, fuse as fuse
from .measure import evaluate as evaluate
from .metrics import (
    DEFAULT_METRICS as DEFAULT_METRICS,
    Metric as Metric,
    parse_metric as parse_metric,
    parse_metrics as parse_metrics,
)
from .results import DirectionResult as DirectionResult, Evaluation as Evaluation, Interval as Interval
from .saving import save_scores as save_scores
from .scores import load_scores as load_scores
from .settings import EvaluationSettings as EvaluationSettings
