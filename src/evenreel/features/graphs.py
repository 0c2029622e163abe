"""Role graphs beside the features of captions, for matchers that read these instead (`Limits.graphs`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evenreel.errors import CorpusError, FeaturesError
from evenreel.language.role_graphs import role_graph, role_graph_of_json
from evenreel.language.taggers import TaggerName, load_tagger
from evenreel.types import Corpus, RoleGraph, TextFeatures

COLUMN = "role_graph"
"""Of a corpus's captions: graphs in HGR's own form, see `evenreel.corpus.role_graphs`."""

_TAGGER: TaggerName = "pattern"
"""It is in every installation, so a caption is read as it was in training wherever the matcher goes."""

_BATCH = 256

Share = Callable[[float], None]


def with_graphs(texts: TextFeatures, corpus: Corpus, progress: Share = lambda share: None) -> TextFeatures:
    """The features with the role graph of each caption: the corpus's own where it has one, else one made by rules.

    Each distinct text is read once: 70,000 take half a minute.

    Args:
        texts: features of captions of the corpus.
        corpus: that has their texts.
        progress: called with the share of the graphs that are made.

    Raises:
        FeaturesError: the corpus has no caption of this id.
        CorpusError: a graph of the corpus is malformed.
    """
    column = [COLUMN] if COLUMN in corpus.captions.columns else []
    rows = {row[0]: row[1:] for row in corpus.captions.select("caption_id", "text", *column).iter_rows()}
    if missing := [caption_id for caption_id in texts.ids if caption_id not in rows]:
        raise FeaturesError(
            f"The corpus has no caption {missing[0]}, of which there are features; give the corpus that they are of."
        )
    given = {caption_id: row[1] for caption_id, row in rows.items() if len(row) > 1 and row[1] is not None}
    unread = dict.fromkeys(rows[caption_id][0] for caption_id in texts.ids if caption_id not in given)
    of_text = dict(zip(unread, graphs_of(list(unread), progress), strict=True))
    of_json: dict[str, RoleGraph] = {}
    graphs = [
        _read(given[caption_id], caption_id, of_json) if caption_id in given else of_text[rows[caption_id][0]]
        for caption_id in texts.ids
    ]
    return replace(texts, graphs=tuple(graphs))


def graphs_of(captions: Sequence[str], progress: Share = lambda share: None) -> list[RoleGraph]:
    """The role graphs of captions, made by rules.

    Args:
        captions: their texts.
        progress: called with the share that is done.
    """
    tagger = load_tagger(_TAGGER)
    graphs: list[RoleGraph] = []
    for start in range(0, len(captions), _BATCH):
        graphs += map(role_graph, tagger.tag(captions[start : start + _BATCH]))
        progress(len(graphs) / len(captions))
    return graphs


def _read(text: str, caption_id: str, known: dict[str, RoleGraph]) -> RoleGraph:
    if text not in known:
        try:
            known[text] = role_graph_of_json(text)
        except CorpusError as error:
            raise CorpusError(f"Caption {caption_id}: {error}") from error
    return known[text]
