"""Clips that are other clips with their frames in another order, such as the same video played backwards."""

from __future__ import annotations

import polars as pl

from evenreel.corpus.dataframes import as_ids
from evenreel.errors import CorpusError
from evenreel.types import Corpus

ORDER_OF = "order_of"
"""Column of the clips that names the clip whose frames each has in another order; nothing for a clip as it was shot."""


def order_twins(corpus: Corpus) -> dict[str, list[str]]:
    """Return the twins of each clip, the clips that have its frames in another order, by the id of the clip.

    Args:
        corpus: clips, with the column `order_of` where some are twins.

    Raises:
        CorpusError: a clip is named as its own twin, or as the twin of a twin.

    >>> from evenreel.corpus import make_corpus
    >>> clips = pl.DataFrame({"clip_id": ["a", "a_reverse"], "order_of": [None, "a"]})
    >>> captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a door opens"]})
    >>> order_twins(make_corpus(clips, captions))
    {'a': ['a_reverse']}
    """
    if ORDER_OF not in corpus.clips.columns:
        return {}
    said = corpus.clips.select("clip_id", as_ids(corpus.clips[ORDER_OF])).filter(pl.col(ORDER_OF) != "")
    shot = dict(said.iter_rows())
    found: dict[str, list[str]] = {}
    for twin, clip in shot.items():
        if clip in shot:
            what = "itself" if clip == twin else f"{clip!r}, which is a twin too"
            raise CorpusError(
                f"The clip {twin!r} is said to be {what}, in another order (column {ORDER_OF!r}); name the clip as it "
                "was shot, and nothing for that one."
            )
        found.setdefault(clip, []).append(twin)
    return found
