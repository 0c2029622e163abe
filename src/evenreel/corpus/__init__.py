"""Corpora: clips and captions, checked; kept in a folder; read from the files of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenreel.corpus.folder import load_corpus, save_corpus
    from evenreel.corpus.formats.registry import FORMATS
    from evenreel.corpus.imported import Imported, Notice
    from evenreel.corpus.on_screen import load_texts, save_texts
    from evenreel.corpus.relevance import class_relevance, own_clip, same_text
    from evenreel.corpus.splits import select, split_corpus
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

_MODULE_OF = {
    "folder": ("load_corpus", "save_corpus"),
    "formats.registry": ("FORMATS",),
    "imported": ("Imported", "Notice"),
    "on_screen": ("load_texts", "save_texts"),
    "relevance": ("class_relevance", "own_clip", "same_text"),
    "splits": ("select", "split_corpus"),
    "summary": ("CorpusSummary", "summarise"),
    "tables": ("make_corpus",),
}


def __getattr__(name: str) -> Any:
    """Import a part when it is asked for: whoever reads a corpus needs no reader of a benchmark's files."""
    import importlib

    for module, names in _MODULE_OF.items():
        if name in names:
            return getattr(importlib.import_module(f"evenreel.corpus.{module}"), name)
    raise AttributeError(f"module 'evenreel.corpus' has no attribute {name!r}")
