"""Role graphs beside the features of captions, for matchers that read these instead of features (`Limits.graphs`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from evenreel.errors import CorpusError, FeaturesError
from evenreel.language.role_graphs import role_graph, role_graph_of_json
from evenreel.language.taggers import TaggerName, load_tagger
from evenreel.progress import Progress
from evenreel.types import Corpus, RoleGraph, TextFeatures

COLUMN = "role_graph"
"""Column of a corpus's captions with graphs in HGR's own form, see `evenreel.corpus.formats.captions`."""

_TAGGER: TaggerName = "pattern"
"""It is in every installation, so a caption is read as it was in training wherever the matcher goes."""

_BATCH = 256


def with_graphs(texts: TextFeatures, corpus: Corpus, progress: Progress = lambda share: None) -> TextFeatures:
    """Add the role graph of each caption to the features: the corpus's own where it has one, else one made by rules.

    Each distinct text is parsed once: 70,000 take half a minute.

    Args:
        texts: features of captions of the corpus.
        corpus: has the texts of the captions.
        progress: called with the share of the graphs that are made.

    Raises:
        FeaturesError: the corpus has no caption of this id.
        CorpusError: a graph of the corpus is malformed, or the column is no text.
    """
    captions = _captions(corpus)
    if missing := next((caption_id for caption_id in texts.ids if caption_id not in captions), None):
        raise FeaturesError(
            f"The corpus has no caption {missing}, of which there are features; give the corpus that they are of."
        )
    rows = [(caption_id, *captions[caption_id]) for caption_id in texts.ids]
    unread = list(dict.fromkeys(text for _, text, given in rows if given is None))
    of_text = dict(zip(unread, graphs_of(unread, progress), strict=True))
    of_json: dict[str, RoleGraph] = {}
    graphs = (of_text[text] if given is None else _read(given, caption_id, of_json) for caption_id, text, given in rows)
    return replace(texts, graphs=tuple(graphs))


def graphs_of(captions: Sequence[str], progress: Progress = lambda share: None) -> list[RoleGraph]:
    """Make the role graphs of captions by rules; `progress` is called with the share that is done."""
    tagger = load_tagger(_TAGGER)
    graphs: list[RoleGraph] = []
    for start in range(0, len(captions), _BATCH):
        graphs += map(role_graph, tagger.tag(captions[start : start + _BATCH]))
        progress(len(graphs) / len(captions))
    return graphs


def _captions(corpus: Corpus) -> dict[str, tuple[str, str | None]]:
    """Text and graph of each caption, by its id."""
    table = corpus.captions
    if COLUMN not in table.columns:
        table = table.with_columns(pl.lit(None, pl.String).alias(COLUMN))
    if table.schema[COLUMN] not in (pl.String, pl.Null):
        raise CorpusError(
            f"The column {COLUMN} of the captions is {table.schema[COLUMN]}; it holds JSON as text, or is left out."
        )
    return {caption_id: (text, given) for caption_id, text, given in table.select("caption_id", "text", COLUMN).rows()}


def _read(text: str, caption_id: str, known: dict[str, RoleGraph]) -> RoleGraph:
    if text not in known:
        try:
            known[text] = role_graph_of_json(text)
        except CorpusError as error:
            raise CorpusError(f"Caption {caption_id}: {error}") from error
    return known[text]
