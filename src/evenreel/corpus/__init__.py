"""Corpora: clips and captions, checked; kept in a folder; read from the files of the benchmarks."""

from evenreel.corpus.folder import load_corpus, save_corpus
from evenreel.corpus.formats import FORMATS
from evenreel.corpus.imported import Imported, Notice
from evenreel.corpus.on_screen import load_texts, save_texts
from evenreel.corpus.relevance import class_relevance, own_clip, same_text
from evenreel.corpus.select import select, split_corpus
from evenreel.corpus.summary import CorpusSummary, summarise
from evenreel.corpus.tables import make_corpus

__all__ = [
    "FORMATS",
    "CorpusSummary",
    "Imported",
    "Notice",
    "class_relevance",
    "load_corpus",
    "load_texts",
    "make_corpus",
    "own_clip",
    "same_text",
    "save_corpus",
    "save_texts",
    "select",
    "split_corpus",
    "summarise",
]
