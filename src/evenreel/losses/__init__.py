"""Losses as functions of tensors: they never see a model, a recipe or a corpus."""

from evenreel.losses.contrastive import info_nce

__all__ = ["info_nce"]
