"""What is taken for a corpus: the record, a path, or tables of any library."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TypeAlias

from evenreel.corpus.dataframes import TableLike, as_dataframe
from evenreel.corpus.folder import load_corpus
from evenreel.corpus.tables import make_corpus
from evenreel.types import Corpus

CorpusLike: TypeAlias = "Corpus | str | os.PathLike[str] | TableLike | Mapping[str, TableLike]"
"""What is taken for a corpus: a `Corpus`; the path of one, or of a table of captions; a table (`TableLike`) with a
row a caption, such as a DataFrame of pandas; or the two tables of one, `{"clips": clips, "captions": captions}`."""

HOW_CORPUS = "give a Corpus, the path of one, or a table of captions with the columns clip_id and text"
_TABLES = {"clips", "captions"}
_logger = logging.getLogger(__name__)


def as_corpus(given: CorpusLike, name: str = "corpus", notice: Callable[[str], object] | None = None) -> Corpus:
    """Convert what stands for a corpus to a `Corpus`; a `Corpus` stays what it is.

    A table of captions has a column `clip_id` and a column `text`, or others by the names that `evenreel corpus import
    table` knows, and perhaps `caption_id`; without it captions are called `CLIP#0`, `CLIP#1` and so on. Clips and
    captions keep the order in which the table names them.

    Args:
        given: a corpus, a path, or tables; see `CorpusLike`.
        name: name of the argument, for messages.
        notice: called with sentences on what was read; None to log them.

    Raises:
        UsageError: it is nothing of these.
        CorpusError: it breaks a rule of `make_corpus`, or cannot be read.

    >>> corpus = as_corpus({"clip_id": ["a", "b"], "text": ["a ball rolls", "a box"]})
    >>> corpus.captions["caption_id"].to_list()
    ['a#0', 'b#0']
    """
    if isinstance(given, Corpus):
        return given
    if isinstance(given, (str, os.PathLike)):
        return load_corpus(given)
    if isinstance(given, Mapping) and "captions" in given and set(given) <= _TABLES:
        tables = {part: as_dataframe(table, f"{name}[{part!r}]", "give a table") for part, table in given.items()}
        if "clips" in tables:
            return make_corpus(tables["clips"], tables["captions"])
        captions = tables["captions"]
    else:
        captions = as_dataframe(given, name, HOW_CORPUS)
    from evenreel.corpus.formats.plain_tables import from_captions  # few corpora are a table

    read = from_captions({name: captions})
    for one in read.notices:
        (notice or (lambda sentence: _logger.warning("%s: %s", name, sentence)))(one.sentence)
    return read.corpus
