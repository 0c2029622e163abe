"""Recipes: typed settings (`sections`), a recipe made of them and its checks (`recipe`), its YAML form (`files`)."""
