"""Worlds of features at the size of real data: an annotation table, and features drawn for it by a stated model."""
