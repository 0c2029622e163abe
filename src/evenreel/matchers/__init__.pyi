from .batches import (
    Counterparts as Counterparts,
    PairBatch as PairBatch,
    TextBatch as TextBatch,
    VideoBatch as VideoBatch,
)
from .matcher import Matcher as Matcher
from .registry import MATCHERS as MATCHERS, build_matcher as build_matcher
