"""Which clips show a thing, as far as their captions name it or a synonym of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from evenreel.arrays import Flags
from evenreel.language import caption_synonyms, load_tagger
from evenreel.types import Corpus


def clips_that_show(corpus: Corpus, clip_ids: Sequence[str]) -> Mapping[str, Flags]:
    """Return by the name of a group of nouns (`meant`), which clips (V,) have a caption that names one of them.

    Args:
        corpus: corpus with the captions.
        clip_ids: (V,) ids of the clips; captions of other clips are not counted.
    """
    place = {clip: number for number, clip in enumerate(clip_ids)}
    shown: dict[str, Flags] = defaultdict(lambda: np.zeros(len(place), np.bool_))
    tagged = load_tagger().tag(corpus.captions["text"].to_list())
    for clip, tokens in zip(corpus.captions["clip_id"], tagged, strict=True):
        for token in tokens:
            if token.part == "noun" and clip in place:
                shown[meant(token.lemma)][place[clip]] = True
    return dict(shown)


def meant(noun: str) -> str:
    """Return the name of the group of synonyms of a noun, or the noun itself where it has none."""
    return caption_synonyms().nouns.get(noun, noun)
