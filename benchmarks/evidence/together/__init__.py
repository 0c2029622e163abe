"""Two biases at once: each correction alone, and both."""
