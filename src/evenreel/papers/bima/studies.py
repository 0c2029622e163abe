"""Tables and figures of BiMa (arXiv 2506.03589) by name, and what its supplement is said to have."""

from __future__ import annotations

from evenreel.papers.bima.settings import MapSettings
from evenreel.papers.engine.needs import PICTURES, TRAINING, TRANSFER
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.study import Study

RECIPE = "bima/bima.yaml"

BIMA: tuple[Study, ...] = (
    Study("bima/t3", "bima.transfer:on_other_corpora", TRANSFER, TrainingSettings, recipe=RECIPE),
    Study("bima/t4", "bima.comparisons:T4", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("bima/t5", "bima.readings:by_parts", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("bima/f3", "bima.comparisons:F3", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("bima/f4", "bima.readings:with_bias", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("bima/f5", "bima.parts:projected_parts", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("bima/g", "bima.comparisons:G", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("bima/kappa", "bima.comparisons:KAPPA", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("bima/readings", "bima.comparisons:READINGS", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("bima/maps", "bima.maps:maps", PICTURES, MapSettings),
)
