"""Measurements of questions of more than one thing, on rendered clips (docs/asking.md)."""
