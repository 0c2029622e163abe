"""`evenreel train`: a recipe in, a run folder out."""
