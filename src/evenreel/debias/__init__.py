"""Corrections of biases in training and search, each in a file of its own that names its paper."""
