"""Losses as functions of tensors: they never see a model, a recipe or a corpus."""

from evenreel.losses.contrastive import info_nce
from evenreel.losses.ranking import RANKING_PRESETS, RankingSettings, ranking_hinge
from evenreel.losses.source_gap import source_hinge, source_neutral

__all__ = ["RANKING_PRESETS", "RankingSettings", "info_nce", "ranking_hinge", "source_hinge", "source_neutral"]
