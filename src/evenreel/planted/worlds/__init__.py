"""Drawn worlds: features at the size of real data, drawn by a stated model for the clips of an annotation table."""
