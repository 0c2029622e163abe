"""Edits of captions that change their style and keep their content, or the other way round.

`evenreel.language.wording` divides content and style.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evenreel.errors import UsageError
from evenreel.language.tokens import Tagger
from evenreel.language.wording import Wording, lowered, wording

SOMETHING = "something"
"""What is said where content is taken away."""

CAPTION = "{caption}"
"""Where a pattern has the caption."""


def restyled(edit: str, captions: Sequence[str], clip_ids: Sequence[str], tagger: Tagger, seed: int = 0) -> list[str]:
    """Apply an edit of style or content to captions; captions without content stay unchanged.

    Args:
        edit: name of the edit, a key of `EDITS`.
        captions: Q texts.
        clip_ids: clip of each caption (Q,); an edit that takes the style or content of another caption takes it from
            one of another clip.
        tagger: tags the words, by which content is told from style.
        seed: seed of the draw of those other captions.

    Raises:
        UsageError: there is no such edit, or all captions with content are of one clip.
    """
    if edit not in EDITS:
        raise UsageError(f"{edit!r} is no edit of captions; there are: {', '.join(EDITS)}.")
    found = [wording(text, tokens) for text, tokens in zip(captions, tagger.tag(captions), strict=True)]
    lenders = _lenders(found, clip_ids, seed) if edit in _LENT else found
    return [
        text if own is None or lender is None else EDITS[edit](own, lender)
        for text, own, lender in zip(captions, found, lenders, strict=True)
    ]


def paraphrased(captions: Sequence[str], patterns: Sequence[str], seed: int = 0) -> list[str]:
    """Put each caption into a sentence pattern drawn at random.

    Args:
        captions: Q texts.
        patterns: texts that contain `{caption}` once.
        seed: seed of the draw.

    Raises:
        UsageError: there is no pattern, or one has no place for the caption, or several.

    >>> paraphrased(["A man runs."], ["in this video, {caption}"])
    ['in this video, a man runs.']
    """
    if not patterns:
        raise UsageError(f"There is no pattern to put captions in; give one such as 'in this video, {CAPTION}'.")
    for pattern in patterns:
        if pattern.count(CAPTION) != 1:
            raise UsageError(f"The pattern {pattern!r} has {CAPTION} {pattern.count(CAPTION)} times; write it once.")
    drawn = np.random.default_rng(seed).integers(0, len(patterns), len(captions))
    return [_in_pattern(patterns[place], text) for place, text in zip(drawn, captions, strict=True)]


def toggle_marks(caption: str) -> str:
    """Toggle the first capital and the full stop of a caption and keep every word: a control edit.

    >>> toggle_marks("A man runs."), toggle_marks("a man runs")
    ('a man runs', 'A man runs.')
    """
    text = caption.strip()
    text = text.removesuffix(".") if text.endswith(".") else f"{text}."
    return f"{text[:1].swapcase()}{text[1:]}"


def differ_in_words(one: str, other: str) -> bool:
    """Return whether two captions differ in more than a capital, a full stop and spaces.

    >>> differ_in_words("A man runs.", "a man runs"), differ_in_words("A man runs.", "a dog runs")
    (False, True)
    """
    first, second = (lowered(" ".join(text.strip().removesuffix(".").split())) for text in (one, other))
    return first != second


EDITS: dict[str, Callable[[Wording, Wording], str]] = {
    "style-removed": lambda own, _: own.bare,
    "style-swapped": lambda own, lender: lender.around(own.content),
    "content-removed": lambda own, _: own.around(SOMETHING),
    "content-swapped": lambda own, lender: own.around(lender.content),
}
"""By name, what becomes of a caption and of one that lends to it."""

_LENT = frozenset({"style-swapped", "content-swapped"})


def _in_pattern(pattern: str, caption: str) -> str:
    first = caption.split(" ", 1)[0]
    inside = not pattern.startswith(CAPTION) and first.istitle() and first != "I"
    return pattern.replace(CAPTION, lowered(caption) if inside else caption)


def _lenders(found: Sequence[Wording | None], clip_ids: Sequence[str], seed: int) -> list[Wording]:
    """A caption of another clip for each."""
    able = [(clip, one) for clip, one in zip(clip_ids, found, strict=True) if one is not None]
    if len({clip for clip, _ in able}) < 2:
        raise UsageError("Captions with content are of fewer than two clips, so none can lend to another; give more.")
    random = np.random.default_rng(seed)
    lenders = []
    for own in clip_ids:
        clip, lender = able[random.integers(len(able))]
        while clip == own:
            clip, lender = able[random.integers(len(able))]
        lenders.append(lender)
    return lenders
