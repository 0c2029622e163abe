from .batches import (
    Counterparts as Counterparts,
    PairBatch as PairBatch,
    TextBatch as TextBatch,
    VideoBatch as VideoBatch,
)
from .matcher import (
    ContrastiveMatcher as ContrastiveMatcher,
    Entry as Entry,
    Limits as Limits,
    Matcher as Matcher,
    Wrapper as Wrapper,
)
from .registry import MATCHERS as MATCHERS, build_matcher as build_matcher, register_matcher as register_matcher
