from .corpus_features import (
    CorpusFeatures as CorpusFeatures,
    changed_words as changed_words,
    load_features_for as load_features_for,
)
from .folder import (
    checkpoint_folder as checkpoint_folder,
    load_matcher as load_matcher,
    named_matcher as named_matcher,
    names_no_checkpoint as names_no_checkpoint,
    save_pretrained as save_pretrained,
    untrained_matcher as untrained_matcher,
)
from .records import (
    About as About,
    EncoderNote as EncoderNote,
    Inputs as Inputs,
    MatcherSpec as MatcherSpec,
    Pretrained as Pretrained,
    RecordedMetric as RecordedMetric,
)
