"""Recipes: typed settings (`recipe`), what is wrong with them (`checks`), how they are read (`files`)."""
