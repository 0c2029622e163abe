from .blind import blind_predictions as blind_predictions, clips_alone as clips_alone
from .measured import MomentEvaluation as MomentEvaluation, evaluate_moments as evaluate_moments
from .predictions import MomentPredictions as MomentPredictions, load_predictions as load_predictions
from .settings import MomentSettings as MomentSettings
from .truth import MomentTruth as MomentTruth, moment_truth as moment_truth
