"""Recipes: typed settings (`sections`), a recipe of them with its checks (`recipe`), how it is read (`files`)."""
