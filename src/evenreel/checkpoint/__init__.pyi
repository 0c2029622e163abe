from .corpus_features import CorpusFeatures as CorpusFeatures, load_features_for as load_features_for
from .loading import checkpoint_folder as checkpoint_folder, load_matcher as load_matcher
from .named import named_matcher as named_matcher, names_no_checkpoint as names_no_checkpoint
from .records import (
    About as About,
    EncoderNote as EncoderNote,
    Inputs as Inputs,
    MatcherSpec as MatcherSpec,
    Pretrained as Pretrained,
    RecordedMetric as RecordedMetric,
)
from .saving import save_pretrained as save_pretrained
from .untrained import untrained_matcher as untrained_matcher
from .word_changes import changed_words as changed_words
