"""What a recipe learns from: files on disk become examples (`material`), examples become batches (`pairs`)."""
