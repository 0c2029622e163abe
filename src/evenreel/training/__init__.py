"""Training of any matcher with Lightning: on features computed once, or through the towers from pixels and words."""

from evenreel.training.recipe.files import find_recipe, load_recipe, recipe_from, recipe_text, shipped_recipes
from evenreel.training.recipe.recipe import Recipe, RecipeError

__all__ = ["Recipe", "RecipeError", "find_recipe", "load_recipe", "recipe_from", "recipe_text", "shipped_recipes"]
