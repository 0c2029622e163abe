"""Training data: files on disk become examples (`material`), examples become batches (`pairs`)."""
