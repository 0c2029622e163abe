"""Rows of rendered worlds, one module for each bias."""
