"""Edits of one role, attribute or relation of a caption, and absent things denied; read `edits`, then `pieces`."""
