from .batches import FeatureExamples as FeatureExamples, TrainingInputs as TrainingInputs, pairs_of as pairs_of
from .loop import RunHooks as RunHooks, TrainedModel as TrainedModel, train as train
from .material import load_material as load_material
from .members import train_recipe as train_recipe
from .recipe import (
    Recipe as Recipe,
    RecipeError as RecipeError,
    find_recipe as find_recipe,
    load_recipe as load_recipe,
    recipe_from as recipe_from,
    recipe_text as recipe_text,
    shipped_recipes as shipped_recipes,
)
