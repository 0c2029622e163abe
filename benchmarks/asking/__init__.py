"""Queries of more than one thing, measured on planted clips: `pool`, then a script for each kind."""
