"""Corrections of a preference, each in a file of its own with the paper that it is from."""
