"""Corruptions of clips at five strengths; read `settings`, `original`, `low`, `middle`, `high`, `kinds`, `writing`.

The twelve kinds are the perturbations of Zhang et al. 2026 (MLVP, arXiv 2604.20851), from single pixels to events.
"""
