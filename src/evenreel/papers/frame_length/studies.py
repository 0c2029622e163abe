"""Each table and figure of the paper on frame-length bias (arXiv 2309.09311) by name, and some others."""

from __future__ import annotations

from evenreel.papers.engine.needs import LENGTH_RANKINGS, LENGTHS, TRAINING
from evenreel.papers.engine.settings import QuerySettings, StudySettings, TrainingSettings
from evenreel.papers.engine.study import COUNTS, Study
from evenreel.papers.frame_length.settings import BaseSettings, ClassSettings, ClassTrainingSettings, SampleSettings

RECIPE = "frame_length/length.yaml"
STREAMS = "leaves out one stream of stored features after the other"

LENGTH: tuple[Study, ...] = (
    Study("length/t1", "frame_length.comparisons:T1", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("length/t2", "frame_length.comparisons:T2", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("length/t3", "frame_length.comparisons:T3", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("length/t4", "frame_length.comparisons:T4", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("length/t5", "frame_length.cost:costs", TRAINING, TrainingSettings, recipe=RECIPE, frozen=COUNTS),
    Study("length/t6", "frame_length.comparisons:T6", TRAINING, TrainingSettings, recipe=RECIPE, frozen=STREAMS),
    Study("length/t7", "frame_length.comparisons:T7", TRAINING, BaseSettings, recipe=RECIPE),
    Study("length/t8", "frame_length.figures:remove_one", TRAINING, ClassTrainingSettings, recipe=RECIPE),
    Study("length/t10", "frame_length.comparisons:T10", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("length/failure", "frame_length.comparisons:FAILURE", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("length/controls", "frame_length.comparisons:CONTROLS", TRAINING, TrainingSettings, recipe=RECIPE),
    Study("length/samples", "frame_length.figures:samples", TRAINING, SampleSettings, recipe=RECIPE),
    Study("length/f1", "frame_length.figures:shown_lengths", LENGTH_RANKINGS, ClassSettings),
    Study("length/f2", "frame_length.figures:discrepancies", LENGTHS, StudySettings),
    Study("length/f5", "frame_length.figures:strips", LENGTH_RANKINGS, QuerySettings),
    Study("length/f7", "frame_length.figures:spread", LENGTHS, StudySettings),
)
