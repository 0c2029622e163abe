"""Corrections of a preference for generated clips: in training (`contrast`), of scores (`level`), and p-vectors."""
