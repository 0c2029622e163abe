"""Training data: files on disk become examples (`material`), and examples become batches (`pairs`)."""
