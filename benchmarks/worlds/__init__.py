"""Drawn worlds for the evidence page alone: biased annotators, signs, generated mirrors, and two biases at once."""
