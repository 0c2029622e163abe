"""Arguments of the functions that people call: one of the wrong kind gets a sentence, what was given, what was meant.

Scores are known by what they have (`evenreel.types.ScoreBlocks`), so that anyone's own class may stand for them.
Settings are checked with these, and read for a `--help`; so records of arrays are imported when one is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral
from pathlib import Path
from types import GeneratorType
from typing import Any

from evenreel.errors import UsageError

_HOW_SCORES = "give scores with their ids: Scores(values, caption_ids, video_ids), or load_scores(path, corpus)"
_HOW_CORPUS = (
    "give a corpus: load_corpus(path) reads one, make_corpus(clips, captions) makes one of two tables, and "
    "as_corpus(table) of a table of captions with the columns clip_id and text"
)


def check_scores(given: object, name: str = "scores") -> None:
    """Refuse an argument that is no `ScoreBlocks`, or whose ids are no rows of text; `name` is for the message.

    >>> check_scores("scores.npz")
    Traceback (most recent call last):
        ...
    evenreel.errors.UsageError: scores is 'scores.npz'; give scores with their ids: Scores(values, caption_ids, \
video_ids), or load_scores(path, corpus).
    """
    from evenreel.types import ScoreNotes

    if not all(hasattr(given, part) for part in ("caption_ids", "video_ids", "block")):
        raise UsageError(f"{name} is {described(given)}; {_HOW_SCORES}.")
    about = getattr(given, "about", None)
    if not isinstance(about, ScoreNotes):
        raise UsageError(
            f"{name}.about is {described(about)}; say what the values use: evenreel.types.ScoreNotes(), with "
            "uses=(...) where that is more than captions and videos."
        )
    for part in ("caption_ids", "video_ids"):
        check_ids(getattr(given, part), f"{name}.{part}")


def check_corpus(given: object, name: str = "corpus") -> None:
    """Refuse an argument that is no `Corpus`."""
    from evenreel.types import Corpus

    check_kind(given, Corpus, name, _HOW_CORPUS)


def check_kind(given: object, kind: type | tuple[type, ...], name: str, remedy: str) -> None:
    """Refuse an argument of another type."""
    if not isinstance(given, kind):
        raise UsageError(f"{name} is {described(given)}; {remedy}.")


def check_settings_kind(given: object, kind: type) -> None:
    """Refuse settings that are neither None nor of the class that the function takes."""
    if given is not None:
        check_kind(given, kind, "settings", f"give {kind.__name__}(...)")


def check_progress(given: object) -> None:
    """Refuse a `progress` that cannot be called."""
    if given is not None and not callable(given):
        raise UsageError(f"progress is {described(given)}; give a function that takes the share that is done, or None.")


def check_named(given: object, name: str, what: str, one: str) -> None:
    """Refuse an argument that is no mapping from names."""
    check_kind(given, Mapping, name, f"give {what}, {{'name': {one}}}")


def check_word(given: object, words: Collection[str], what: str) -> None:
    """Refuse an argument that is none of some words."""
    if not isinstance(given, str) or given not in words:
        raise UsageError(f"{described(given)} is no {what}; there are: {', '.join(words)}.")


def as_path(given: object, name: str) -> Path:
    """Return the path that an argument names."""
    if isinstance(given, (str, os.PathLike)):
        return Path(given)
    raise UsageError(f"{name} is {described(given)}; give a path.")


def one_or_more(given: Any, name: str = "names", alone: type | tuple[type, ...] = str) -> tuple[Any, ...]:
    """Return several values in a tuple, also where one stands alone: a text is no list of its letters here.

    >>> one_or_more("R@1"), one_or_more(["R@1", "MRR"])
    (('R@1',), ('R@1', 'MRR'))
    """
    if isinstance(given, alone):
        return (given,)
    check_kind(given, Iterable, name, "give one, or a list of them")
    several = tuple(given)
    for one in several:
        check_kind(one, alone, f"one of {name}", "give one, or a list of them")
    return several


def described(given: object) -> str:
    """Return a value as a sentence names it.

    >>> import numpy as np
    >>> described(np.zeros((2, 3))), described(None), described("a.npz"), described({"a": 1})
    ('an array of float64 with the shape (2, 3)', 'None', "'a.npz'", 'a dict')
    """
    if given is None or isinstance(given, (bool, int, float, str, bytes, os.PathLike)):
        shown = repr(os.fspath(given) if isinstance(given, os.PathLike) else given)
        return shown if len(shown) <= 60 else f"{shown[:57]}..."
    kind = type(given).__name__
    if kind in ("ndarray", "Tensor", "memmap"):
        what = "a tensor" if kind == "Tensor" else "an array"
        return f"{what} of {given.dtype} with the shape {tuple(given.shape)}"  # type: ignore[attr-defined]
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def check_ids(ids: object, name: str) -> None:
    """Refuse ids that are no ordered row of text."""
    flat = getattr(ids, "ndim", 1) == 1
    unordered = isinstance(ids, (str, bytes, Mapping, set, frozenset, GeneratorType))
    if not isinstance(ids, Collection) or unordered or not flat:
        raise UsageError(f"{name} is {described(ids)}; give a list of ids, one a row, in the order of the scores.")
    if wrong := [one for one in ids if not isinstance(one, str)]:
        ways = {bytes: ", so give [one.decode() for one in ids]", Integral: ", so give [str(one) for one in ids]"}
        way = next((words for kind, words in ways.items() if isinstance(wrong[0], kind)), "")
        raise UsageError(f"{name} holds {described(wrong[0])}; ids are text{way}.")
