"""Baselines of test-time training that TITAN is compared with: TTT++, TTTFlow, normalised scores."""
