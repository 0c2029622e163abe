"""Checkpoints of matchers: a folder with config.json, model.safetensors and a model card, or its hub id."""

from evenreel.checkpoint.changed_words import changed_words
from evenreel.checkpoint.corpus_features import CorpusFeatures, load_features_for
from evenreel.checkpoint.loading import checkpoint_folder, load_matcher
from evenreel.checkpoint.named import named_matcher, names_no_checkpoint
from evenreel.checkpoint.records import About, EncoderNote, Inputs, MatcherSpec, Pretrained, RecordedMetric
from evenreel.checkpoint.saving import save_pretrained
from evenreel.checkpoint.untrained import untrained_matcher

__all__ = [
    "About",
    "CorpusFeatures",
    "EncoderNote",
    "Inputs",
    "MatcherSpec",
    "Pretrained",
    "RecordedMetric",
    "changed_words",
    "checkpoint_folder",
    "load_features_for",
    "load_matcher",
    "named_matcher",
    "names_no_checkpoint",
    "save_pretrained",
    "untrained_matcher",
]
