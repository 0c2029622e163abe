from .files import load_predictions as load_predictions, read_results as read_results
from .model import MtebModel as MtebModel
from .tasks import task_corpus as task_corpus
