"""Assignment of distractors: which clip's words each clip is to show or say, each clip's used about as often."""

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
"""Column of the clips that names the clip whose words each carries on its screen."""

VoiceoverName = Literal["voiceover", "voiceover-control"]
VOICEOVER: VoiceoverName = "voiceover"
VOICEOVER_CONTROL: VoiceoverName = "voiceover-control"
VOICEOVERS = (VOICEOVER, VOICEOVER_CONTROL)
"""Names of the edits of clips: a voice says another clip's words, and as many syllables that say nothing."""

VOICEOVER_OF = "voiceover_of"
"""Column of the clips that names the clip whose words are said in each."""

Fits = Callable[[str, str], bool]
"""Whether a clip, named first, may carry the words of another one."""


def assign_distractors(
    carriers: Sequence[str], distractors: Sequence[str], fits: Fits, random: np.random.Generator
) -> dict[str, str]:
    """Assign each clip (carrier) another clip (distractor) whose words it is to show or say, drawn at random.

    Where `fits` allows every pair, each distractor is used equally often, give or take one.

    Returns:
        The distractor by carrier.

    >>> assign_distractors(["a", "b"], ["a", "b"], str.__ne__, np.random.default_rng(0))
    {'a': 'b', 'b': 'a'}
    """
    rounds = -(-len(carriers) // len(distractors)) if distractors else 0
    deck = [distractors[place] for _ in range(rounds) for place in random.permutation(len(distractors))]
    del deck[len(carriers) :]
    for place, carrier in enumerate(carriers):
        if not deck or not fits(carrier, deck[place]):
            _fix_distractor(place, carriers, deck, distractors, fits)
    return dict(zip(carriers, deck, strict=True))


def _fix_distractor(
    place: int, carriers: Sequence[str], deck: list[str], distractors: Sequence[str], fits: Fits
) -> None:
    """Exchange distractors with another carrier where both then fit, else lend somebody's words once more."""
    own = carriers[place]
    for other, distractor in enumerate(deck):
        if fits(own, distractor) and fits(carriers[other], deck[place]):
            deck[place], deck[other] = distractor, deck[place]
            return
    able = [distractor for distractor in distractors if fits(own, distractor)]
    if not able:
        raise CorpusError(
            f"No clip has words that could be put onto the clip {own!r}: others than its own, of a clip that shows "
            "something else. Give a corpus of more clips, or of more words."
        )
    deck[place] = able[place % len(able)]
