"""Real clips and the generated ones that mirror them: which go together, and corpora that hold a share of each.

A generated clip names the real one that it was made after in `pair_id`, its generator in `source`, and, in a column
`setting` of its own where there is one, what the generator was given. It answers the captions of its real clip.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from evenreel.corpus.tables import make_corpus
from evenreel.errors import CorpusError
from evenreel.types import Corpus

CAMERA = "camera"
"""Source of a clip that nobody generated."""

SETTING = "setting"
"""Column of `Corpus.clips`, not a standard one: what a generator was given, such as `text` or `image`."""


def counterparts(corpus: Corpus, group: str | None = None) -> pl.DataFrame:
    """The pairs of which both clips are in the corpus, in the order of its clips.

    Args:
        corpus: looked through.
        group: only generated clips of this group.

    Returns:
        `clip_id`, the real clip; `generated_id`, its mirror; `group`, the generator and its setting. A real clip has as
        many rows as it has mirrors.

    >>> clips = pl.DataFrame({"clip_id": ["a", "b"], "source": ["camera", "sora"], "pair_id": [None, "a"]})
    >>> captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a ball rolls"]})
    >>> counterparts(make_corpus(clips, captions)).rows()
    [('a', 'b', 'sora')]
    """
    clips = corpus.clips
    paired = clips.filter(pl.col("pair_id").is_in(clips["clip_id"].implode()))
    rows = paired.select(pl.col("pair_id").alias("clip_id"), pl.col("clip_id").alias("generated_id"), _group(clips))
    return rows if group is None else rows.filter(pl.col("group") == group)


def groups_of(corpus: Corpus) -> dict[str, str]:
    """The group of every clip that is not from a camera: its generator, and its setting where one is noted."""
    generated = corpus.clips.filter(pl.col("source").is_not_null() & (pl.col("source") != CAMERA))
    return dict(generated.select("clip_id", _group(corpus.clips)).iter_rows())


def with_generated(corpus: Corpus, share: float, seed: int, group: str | None = None) -> Corpus:
    """The corpus with a share of its real clips replaced by their mirrors, all others without theirs.

    A mirror takes the captions of its real clip, so that the number of clips and of captions stays the same (Generative
    Ghost, section 3.3). Clips that have no counterpart stay as they are; captions of a mirror's own are dropped. The
    clips replaced at one share are also replaced at a larger one, with the same seed.

    Args:
        corpus: taken from; one without counterparts comes back as it is where the share is 0.
        share: 0 to 1, of the real clips that have a mirror and those that have none.
        seed: of the choice.
        group: replace by generated clips of this group; None: of the only one that there is.

    Raises:
        CorpusError: the share is none, too few clips have a mirror, or several groups have and none is named.
    """
    if not 0 <= share <= 1:
        raise CorpusError(f"The share of generated clips is {share}; it must be between 0 and 1.")
    pairs = counterparts(corpus)
    mirrors = pl.col("clip_id").is_in(pairs["generated_id"].implode())
    clips, captions = corpus.clips.filter(~mirrors), corpus.captions.filter(~mirrors)
    real = clips.filter(pl.col("source").is_null() | (pl.col("source") == CAMERA))
    wanted = round(share * real.height)
    if not wanted:
        return make_corpus(clips, captions)
    chosen = _chosen(_of_one_group(pairs, group), wanted, real.height, seed)
    replaced = dict(chosen.select("clip_id", "generated_id").iter_rows())
    taken = corpus.clips.filter(pl.col("clip_id").is_in(list(replaced.values())))
    place = {clip_id: row for row, clip_id in enumerate(clips["clip_id"])}
    order = pl.coalesce(
        pl.col("clip_id").replace_strict(place, default=None, return_dtype=pl.Int64),
        pl.col("pair_id").replace_strict(place, default=None, return_dtype=pl.Int64),
    )
    kept = clips.filter(~pl.col("clip_id").is_in(list(replaced)))
    return make_corpus(
        pl.concat([kept, taken]).sort(order, maintain_order=True),
        captions.with_columns(pl.col("clip_id").replace(replaced)),
    )


def _group(clips: pl.DataFrame) -> pl.Expr:
    named = pl.col("source").fill_null("generated")
    if SETTING not in clips.columns:
        return named.alias("group")
    setting = pl.col(SETTING).cast(pl.String)
    return pl.when(setting.is_null()).then(named).otherwise(named + " " + setting).alias("group")


def _of_one_group(pairs: pl.DataFrame, group: str | None) -> pl.DataFrame:
    names = pairs["group"].unique(maintain_order=True).to_list()
    if group is None and len(names) > 1:
        raise CorpusError(f"The corpus has generated clips of {', '.join(names)}; name the group that is to be used.")
    if group is not None and group not in names:
        raise CorpusError(f"No clip has a counterpart of {group!r}; there are: {', '.join(names) or 'none'}.")
    found = pairs if group is None else pairs.filter(pl.col("group") == group)
    return found.unique("clip_id", keep="first", maintain_order=True)


def _chosen(pairs: pl.DataFrame, wanted: int, real: int, seed: int) -> pl.DataFrame:
    if pairs.height < wanted:
        raise CorpusError(
            f"{wanted:,} of {real:,} clips are to be generated ones, but only {pairs.height:,} have a counterpart; "
            "take a smaller share, or generate more."
        )
    order = np.random.default_rng(seed).permutation(pairs.height)
    return pairs[np.sort(order[:wanted])]
