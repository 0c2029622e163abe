from .files import load_predictions as load_predictions, read_results as read_results
from .loading import load_model as load_model
from .matcher import MtebMatcher as MtebMatcher
from .model import MtebModel as MtebModel
from .tasks import task_corpus as task_corpus
