"""Assignment of distractors: each clip shows words of another one, and each lends about as often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from evenreel.errors import CorpusError

OverlayName = Literal["overlay", "overlay-control"]
OVERLAY: OverlayName = "overlay"
OVERLAY_CONTROL: OverlayName = "overlay-control"
OVERLAYS = (OVERLAY, OVERLAY_CONTROL)
"""Names of the edits of clips: with another clip's words, and with as many letters that say nothing."""

OVERLAY_OF = "overlay_of"
"""Column of the clips that names the clip whose words each carries."""

Fits = Callable[[str, str], bool]
"""Whether a borrower, named first, may take the words of a lender."""


def dealt_lenders(
    borrowers: Sequence[str], lenders: Sequence[str], fits: Fits, random: np.random.Generator
) -> dict[str, str]:
    """Assign each clip (borrower) another one (lender) whose on-screen words it is to show, drawn at random.

    Where `fits(borrower, lender)` allows every pair, all lend equally often, give or take one.

    Raises:
        CorpusError: a borrower fits no lender.

    >>> dealt_lenders(["a", "b"], ["a", "b"], str.__ne__, np.random.default_rng(0))
    {'a': 'b', 'b': 'a'}
    """
    rounds = -(-len(borrowers) // len(lenders)) if lenders else 0
    deck = [lenders[place] for _ in range(rounds) for place in random.permutation(len(lenders))][: len(borrowers)]
    for place, borrower in enumerate(borrowers):
        if not deck or not fits(borrower, deck[place]):
            _fix_lender(place, borrowers, deck, lenders, fits)
    return dict(zip(borrowers, deck, strict=True))


def _fix_lender(place: int, borrowers: Sequence[str], deck: list[str], lenders: Sequence[str], fits: Fits) -> None:
    """Exchange lenders with another borrower where both then fit, else lend somebody's words once more."""
    own = borrowers[place]
    for other, lender in enumerate(deck):
        if fits(own, lender) and fits(borrowers[other], deck[place]):
            deck[place], deck[other] = lender, deck[place]
            return
    able = [lender for lender in lenders if fits(own, lender)]
    if not able:
        raise CorpusError(
            f"No clip has words that could be put onto the clip {own!r}: others than its own, of a clip that shows "
            "something else. Give a corpus of more clips, or of more words."
        )
    deck[place] = able[place % len(able)]
