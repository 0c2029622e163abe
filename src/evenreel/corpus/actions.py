"""Actions of clips and their lengths: the classes (verb, noun) that the length audit compares clips by.

(The paper on frame-length bias, sections 3 and A.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus.summary import lengths_s
from evenreel.errors import CorpusError
from evenreel.types import Corpus

Unit = Literal["frames", "seconds"]
NO_NOUN = -1
"""Noun class of an action whose clip has none."""


class ActionLengths(NamedTuple):
    """Class and length of each of N actions."""

    classes: NDArray[np.int64]  # (N,) class of each action
    lengths: NDArray[np.float64]  # (N,) length of each action; NaN where not known


@dataclass(frozen=True, eq=False)
class Actions:
    """The N actions of all clips of a corpus; a clip of several actions has a row for each.

    Attributes:
        clips: (N,) row of each action's clip in the corpus's table of clips, ascending.
        classes: (N,) class of each action, an index into `pairs`.
        lengths: (N,) length of each action in `unit`; NaN where the length of its clip is not known.
        pairs: (verb class, noun class) of each class.
        unit: `frames` or `seconds`, of the lengths.
    """

    clips: NDArray[np.int64]
    classes: NDArray[np.int64]
    lengths: NDArray[np.float64]
    pairs: tuple[tuple[int, int], ...]
    unit: Unit

    def of(self, clips: NDArray[np.bool_]) -> ActionLengths:
        """Select the actions of some clips.

        Args:
            clips: (V,) boolean, true for the clips to take, in the order of the corpus.
        """
        kept = clips[self.clips]
        return ActionLengths(self.classes[kept], self.lengths[kept])


def clip_lengths(corpus: Corpus) -> tuple[NDArray[np.float64], Unit]:
    """Return the length of every clip (V,) and its unit: frames if all clips have a frame count, else seconds.

    A length that is not known is NaN. Frame counts at another rate than the official annotation's (columns `fps` and
    `annotated_fps`, of EPIC-KITCHENS-100) are converted to that rate, so that the lengths of all splits can be
    compared.
    """
    clips = corpus.clips
    if clips.height and clips["frame_count"].null_count() == 0:
        frames = pl.col("frame_count").cast(pl.Float64)
        if "annotated_fps" in clips.columns:
            frames *= (pl.col("annotated_fps").cast(pl.Float64, strict=False) / pl.col("fps")).fill_null(1.0)
        return clips.select(frames).to_series().to_numpy(), "frames"
    return lengths_s(clips).fill_null(float("nan")).to_numpy(), "seconds"


def actions_of(corpus: Corpus) -> Actions:
    """Return the actions of the clips of a corpus; a class has the same number in every split.

    A clip of one verb is one action, on its first noun (in EPIC-KITCHENS-100 the one that it is annotated with). In a
    clip of several verbs each takes an equal part of the length, and goes with every noun. A clip without a verb class
    has no action.
    """
    lengths, unit = clip_lengths(corpus)
    numbers: dict[tuple[int, int], int] = {}
    clips, classes, shares = [], [], []
    rows = corpus.clips.select("verb_classes", "noun_classes").iter_rows()
    for row, (verbs, nouns) in enumerate(rows):
        distinct, named = list(dict.fromkeys(verbs or [])), list(dict.fromkeys(nouns or [])) or [NO_NOUN]
        for pair in product(distinct, named if len(distinct) > 1 else named[:1]):
            clips.append(row)
            classes.append(numbers.setdefault(pair, len(numbers)))
            shares.append(lengths[row] / len(distinct))
    if not clips:
        raise CorpusError(
            "No clip has a verb class, so there are no classes whose lengths could be compared; add some with "
            "`evenreel corpus classes`."
        )
    return Actions(np.array(clips), np.array(classes), np.array(shares, np.float64), tuple(numbers), unit)


def action_names(corpus: Corpus, actions: Actions) -> Mapping[int, str]:
    """Return a name for each class of actions: the caption text that most of its clips have, the first of equals.

    A class without captions is named by its verb and noun numbers.
    """
    texts: dict[str, list[str]] = defaultdict(list)
    for clip_id, text in corpus.captions.select("clip_id", "text").iter_rows():
        texts[clip_id].append(text)
    clip_ids = corpus.clips["clip_id"].to_list()
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for row, number in zip(actions.clips.tolist(), actions.classes.tolist(), strict=True):
        counts[number].update(texts[clip_ids[row]])
    return {
        number: counts[number].most_common(1)[0][0] if counts[number] else f"verb {verb}, noun {noun}"
        for number, (verb, noun) in enumerate(actions.pairs)
    }
