from .measure import RELEVANCE as RELEVANCE, RelevanceLike as RelevanceLike, RelevanceName as RelevanceName
from .comparison import Comparison as Comparison, compare as compare
from .fusion import Validation as Validation, fuse as fuse
from .intervals import Interval as Interval
from .measure import DirectionResult as DirectionResult, Evaluation as Evaluation, evaluate as evaluate
from .metrics import (
    DEFAULT_METRICS as DEFAULT_METRICS,
    EvaluationSettings as EvaluationSettings,
    Metric as Metric,
    parse_metric as parse_metric,
    parse_metrics as parse_metrics,
)
from .saving import save_scores as save_scores
from .scores import ScoresLike as ScoresLike, as_scores as as_scores, load_scores as load_scores
