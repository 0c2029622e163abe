"""Corrections of a preference for generated clips: in training (`contrast`), in search (`direction`), and p-vectors."""
