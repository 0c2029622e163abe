"""Tables and figures of TCD (Zhao et al., AAAI 2026) by name."""

from __future__ import annotations

from evenreel.papers.engine.needs import TEXT, TEXT_PICTURES, TEXT_TRAINING
from evenreel.papers.engine.settings import QuerySettings, StudySettings, TrainingSettings
from evenreel.papers.engine.study import COUNTS, Study

RECIPE = "tcd/tcd.yaml"

TCD: tuple[Study, ...] = (
    Study("tcd/t1", "tcd.comparisons:T1", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/t2", "tcd.comparisons:T2", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/t3", "tcd.comparisons:T3", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/t4", "tcd.comparisons:T4", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/t5", "tcd.comparisons:T5", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/t6", "tcd.comparisons:T6", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/t7", "tcd.comparisons:T7", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/t8", "tcd.cost:reading_costs", TEXT_TRAINING, TrainingSettings, recipe=RECIPE, frozen=COUNTS),
    Study("tcd/t9", "tcd.comparisons:T9", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/t10", "tcd.comparisons:T10", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/f1", "tcd.tokens:token_balance", TEXT, StudySettings),
    Study("tcd/f3", "tcd.comparisons:F3", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/f4", "tcd.answers:first_answers", TEXT_PICTURES, QuerySettings),
    Study("tcd/readings", "tcd.comparisons:READINGS", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
    Study("tcd/noise", "tcd.comparisons:NOISE", TEXT_TRAINING, TrainingSettings, recipe=RECIPE),
)
