"""Retrieval models: each scores captions against videos from the features of their words and frames."""

from evenreel.matchers.batches import Counterparts, PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.registry import MATCHERS, build_matcher

__all__ = ["MATCHERS", "Counterparts", "Matcher", "PairBatch", "TextBatch", "VideoBatch", "build_matcher"]
