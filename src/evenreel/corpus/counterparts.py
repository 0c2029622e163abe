"""Real clips and the generated clips made after them (mirrors): their pairs, and corpora with a share of mirrors.

A generated clip names the real one that it was made after in `pair_id`, its generator in `source`, and, in an
optional column `setting`, what the generator was given. It answers the captions of its real clip.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from evenreel.config import check_corpus
from evenreel.corpus.tables import make_corpus, select
from evenreel.errors import CorpusError
from evenreel.types import CAMERA, Corpus

SETTING = "setting"
"""Column of `Corpus.clips`, not a standard one: what a generator was given, such as `text` or `image`."""

_NAMELESS = "generated"
"""Group of clips that mirror real ones and name no generator."""


def is_generated() -> pl.Expr:
    """Return a polars condition, true for generated clips: not from a camera, or with a `pair_id` and no source."""
    return _source() != CAMERA


def counterparts(corpus: Corpus, group: str | None = None) -> pl.DataFrame:
    """Return the pairs of a real clip and its mirror (the clip generated after it), in the order of the corpus's clips.

    Returns:
        `clip_id`, the real clip; `generated_id`, its mirror; `group`, the generator and its setting. A real clip has as
        many rows as it has mirrors.

    >>> clips = pl.DataFrame({"clip_id": ["a", "b"], "source": ["camera", "sora"], "pair_id": [None, "a"]})
    >>> captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a ball rolls"]})
    >>> counterparts(make_corpus(clips, captions)).rows()
    [('a', 'b', 'sora')]
    """
    check_corpus(corpus)
    clips = corpus.clips
    real = clips.filter(~is_generated())["clip_id"]
    paired = clips.filter(is_generated() & pl.col("pair_id").is_in(real.implode()))
    rows = paired.select(pl.col("pair_id").alias("clip_id"), pl.col("clip_id").alias("generated_id"), _group(clips))
    return rows if group is None else rows.filter(pl.col("group") == group)


def sources_of(corpus: Corpus) -> dict[str, str]:
    """Return the source of each clip, `camera` or the name of a generator, by clip id."""
    return dict(corpus.clips.select("clip_id", _source().alias("source")).iter_rows())


def groups_of(corpus: Corpus) -> dict[str, str]:
    """Return the group of each generated clip (its generator, and the setting where one is noted) by clip id."""
    generated = corpus.clips.filter(is_generated())
    return dict(generated.select("clip_id", _group(corpus.clips)).iter_rows())


def group_name(source: str, setting: str | None) -> str:
    """Return the name of a group of generated clips: the generator, and its setting where one is noted."""
    return source if setting is None else f"{source} {setting}"


def with_generated(
    corpus: Corpus, share: float, seed: int, group: str | None = None, *, split: str | None = None
) -> Corpus:
    """Replace a share of a corpus's real clips by their mirrors, and remove all other mirrors.

    A mirror is the clip generated after a real one. It takes the captions of its real clip, so that the number of clips
    and of captions stays the same (Generative Ghost, section 3.3). Clips that have no mirror stay as they are; captions
    of a mirror's own are dropped. The clips replaced at one share are also replaced at a larger one, with the same
    seed.
    """
    if not 0 <= share <= 1:
        raise CorpusError(f"The share of generated clips is {share}; it must be between 0 and 1.")
    within = _of_split(corpus, split)
    pairs = counterparts(corpus).filter(within)
    mirrors = pl.col("clip_id").is_in(pairs["generated_id"].implode())
    clips, captions = corpus.clips.filter(~mirrors), corpus.captions.filter(~mirrors)
    real = clips.filter(within & ~is_generated()).height
    wanted = round(share * real)
    if wanted or group is not None:
        pairs = _of_one_group(pairs, group)
    if not wanted:
        return make_corpus(clips, captions)
    chosen = _chosen(pairs, wanted, real, seed)
    return _replaced(corpus, clips, captions, dict(chosen.select("clip_id", "generated_id").iter_rows()))


def only_paired(corpus: Corpus, group: str | None = None, *, split: str | None = None) -> Corpus:
    """Keep only the real clips that have a generated mirror of one group, and these mirrors."""
    within = _of_split(corpus, split)
    pairs = _of_one_group(counterparts(corpus).filter(within), group)
    if pairs.height == 0:
        raise CorpusError("No clip has a generated counterpart; add some with `evenreel corpus pair`.")
    kept = pl.concat([pairs["clip_id"], pairs["generated_id"]])
    return select(corpus, where=~within | pl.col("clip_id").is_in(kept.implode()))


def _source() -> pl.Expr:
    """The generator or the camera, also where a clip says neither."""
    unsaid = pl.when(pl.col("pair_id").is_null()).then(pl.lit(CAMERA)).otherwise(pl.lit(_NAMELESS))
    return pl.coalesce(pl.col("source").replace(dict.fromkeys(("real", "Real"), CAMERA)), unsaid)


def _group(clips: pl.DataFrame) -> pl.Expr:
    named = _source()
    if SETTING not in clips.columns:
        return named.alias("group")
    setting = pl.col(SETTING).cast(pl.String)
    return pl.when(setting.is_null()).then(named).otherwise(named + " " + setting).alias("group")


def _of_split(corpus: Corpus, split: str | None) -> pl.Expr:
    """Whether a row belongs to the split by its `clip_id`."""
    if split is None:
        return pl.lit(True)
    return pl.col("clip_id").is_in(select(corpus, split=split).clips["clip_id"].implode())


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


def _replaced(corpus: Corpus, clips: pl.DataFrame, captions: pl.DataFrame, mirrors: dict[str, str]) -> Corpus:
    """A corpus in which clips give their place and their captions to mirrors, given by the id of the real clip."""
    place = {clip_id: row for row, clip_id in enumerate(clips["clip_id"])}
    row = pl.coalesce(
        pl.col(name).replace_strict(place, default=None, return_dtype=pl.Int64) for name in ("clip_id", "pair_id")
    )
    kept = clips.filter(~pl.col("clip_id").is_in(list(mirrors)))
    taken = corpus.clips.filter(pl.col("clip_id").is_in(list(mirrors.values())))
    return make_corpus(
        pl.concat([kept, taken]).sort(row, maintain_order=True),
        captions.with_columns(pl.col("clip_id").replace(mirrors)),
    )
