from .audits import audit as audit
from .checkpoint import load_matcher as load_matcher
from .corpus import load_corpus as load_corpus
from .evaluation import evaluate as evaluate, load_scores as load_scores
from .library import index_folders as index_folders, open_library as open_library
from .version import __version__ as __version__
