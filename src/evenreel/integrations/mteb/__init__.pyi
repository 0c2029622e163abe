from .models import (
    MtebMatcher as MtebMatcher,
    MtebModel as MtebModel,
    load_model as load_model,
    load_predictions as load_predictions,
    read_results as read_results,
    task_corpus as task_corpus,
)
