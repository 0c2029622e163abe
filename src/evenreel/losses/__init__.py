"""Losses as functions of tensors: they never see a model, a recipe or a corpus."""

from evenreel.losses.contrastive import info_nce
from evenreel.losses.source_gap import source_hinge, source_neutral

__all__ = ["info_nce", "source_hinge", "source_neutral"]
