from .batches import (
    Counterparts as Counterparts,
    PairBatch as PairBatch,
    TextBatch as TextBatch,
    VideoBatch as VideoBatch,
)
from .entry import Entry as Entry
from .matcher import Limits as Limits, Matcher as Matcher
from .registry import MATCHERS as MATCHERS, build_matcher as build_matcher, register_matcher as register_matcher
