from .folder import CorpusLike as CorpusLike, as_corpus as as_corpus
from .tables import TableLike as TableLike
from .folder import load_corpus as load_corpus, save_corpus as save_corpus
from .formats.registry import FORMATS as FORMATS
from .imported import Imported as Imported, Notice as Notice
from .on_screen import load_texts as load_texts, save_texts as save_texts
from .relevance import class_relevance as class_relevance, own_clip as own_clip, same_text as same_text
from .tables import split_corpus as split_corpus
from .summary import CorpusSummary as CorpusSummary, summarise as summarise
from .tables import make_corpus as make_corpus, select as select
