from .recipe import (
    Recipe as Recipe,
    RecipeError as RecipeError,
    find_recipe as find_recipe,
    load_recipe as load_recipe,
    recipe_from as recipe_from,
    recipe_text as recipe_text,
    shipped_recipes as shipped_recipes,
)
