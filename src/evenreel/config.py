"""Settings and arguments: every default in one place, the environment variables that change them, and their checks."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from types import GeneratorType, MappingProxyType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from evenreel.documents import brief
from evenreel.errors import UsageError

DEFAULT_MODEL = "google/siglip2-base-patch16-224"
DEFAULT_RULE = "every 1 s"
AUTO = "auto"
DEFAULT_PORT = 8765
RERANK_DEPTH = 100
"""Number of clips of an answer that a matcher scores anew, unless another is given."""


@dataclass(frozen=True)
class MediaLimits:
    """Limits of reading one video.

    Attributes:
        max_side_px: largest width or height that is decoded.
        max_pixels: largest width times height that is decoded (8K and a little).
        max_frames: most frames kept of one video; a longer one is sampled more sparsely, and says so.
        stall_timeout_s: a worker that reports nothing for this long is killed.
        memory_bytes: a worker whose resident memory passes this is killed.
        max_damaged_share: share of a video's pictures that damage may spoil; past it the video is skipped.
    """

    max_side_px: int = 16_384
    max_pixels: int = 40_000_000
    max_frames: int = 3_600
    stall_timeout_s: float = 60.0
    memory_bytes: int = 3 * 2**30
    max_damaged_share: float = 0.25


IMAGE_LIMITS = MediaLimits(stall_timeout_s=10.0, memory_bytes=1536 * 2**20)
"""What decoding one picture may cost; the largest that may be sent take about a second and 900 MiB."""


@dataclass(frozen=True)
class IndexSettings:
    """Settings of indexing a folder of videos as a library; without a model there is no vision.

    Attributes:
        model: image and text towers: a hub id, a folder, `builtin`, or a name that `evenreel models` lists; `auto` is
            the library's own, and google/siglip2-base-patch16-224 for a new one.
        rule: which frames are looked at, for example `every 0.5 s` or `8 midpoints` (`evenreel.media.parse_rule`);
            `auto` is the library's own, and `every 1 s` for a new one.
        read_text: whether on-screen text is recognised.
        workers: reader processes; 0 means one for each core.
        device: where the model runs: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        precision: `float32`, `bfloat16`, `float16` or `int8`; `auto` is the library's own, and float32 for a new one.
        limits: what one file may cost.
        retry: try files again that were skipped before.
        accept_missing: mark files as missing even if most of a folder is gone.
        keep_stills: keep a small picture of each moment, so that a page need not decode it.
        accept_licence: accept the licence of a new library's model that forbids commercial use.
        speech: model that hears what is said where no subtitles say it: a name, a hub id or a folder; `auto` is the
            library's own, and none for a new one. It needs the extra `speech`.
        language: language that is spoken, as a tag such as `en`; None to have it detected.
        sound: model of what clips sound like: a hub id or folder of a CLAP checkpoint; `auto` is the library's own, and
            none for a new one; another one takes its place. It needs the extra `torch`.
        meaning: model that compares what is said, written and captioned with a query by its meaning: `wordllama` (extra
            `meaning`), a hub id or a folder; `auto` is the library's own, and wordllama for a new one where it is
            installed; another one encodes all texts anew, and none compares words alone until one is named.
        ignore: pattern of files and folders to ignore from now on, in the syntax of gitignore; the library keeps it.
        unignore: pattern to keep no longer.
        passes: 1 reads pictures, words and speech of a file together; 2 reads the pictures of all files first, so that
            they can be searched by these much sooner, and decodes each file twice; 0 takes two from ten minutes of
            video on.
        people: look for faces and put those of one person together; once asked for, it is the library's choice until
            `evenreel people --forget ALL`.
        face_models: folder of the two models that faces are found with; None for the library's own.
    """

    model: str | None = AUTO
    rule: str = AUTO
    read_text: bool = True
    workers: int = 0
    device: str = "auto"
    precision: str = AUTO
    limits: MediaLimits = MediaLimits()
    retry: bool = False
    accept_missing: bool = False
    keep_stills: bool = True
    accept_licence: bool = False
    speech: str | None = AUTO
    language: str | None = None
    sound: str | None = AUTO
    meaning: str | None = AUTO
    ignore: tuple[str, ...] = ()
    unignore: tuple[str, ...] = ()
    passes: int = 0
    people: bool = False
    face_models: Path | None = None

    @property
    def worker_count(self) -> int:
        return self.workers or usable_cores()


@dataclass(frozen=True)
class Machines:
    """Machines that index together, with Ray.

    Attributes:
        ray: have the workers of the Ray cluster at this address (`HOST:PORT`) read and encode, or with `local` those of
            a cluster that is started here for the run; None for no Ray.
        staging: where those workers leave what they made until it is in the library: a folder or a URL (`s3://...`)
            that all of them reach; None for a folder in the library.
    """

    ray: str | None = None
    staging: str | None = None


def usable_cores() -> int:
    """Return the number of cores this process may use; fewer than the machine has inside a container."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def allowed_threads() -> int:
    """Return the number of threads to compute with: the usable cores, or fewer where OMP_NUM_THREADS says so.

    The first number counts where that is a list such as `4,2`; what is no number is passed over.
    """
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    asked = int(first) if first.isdecimal() and len(first) < 10 else 0
    return min(usable_cores(), asked or usable_cores())


def default_library() -> Path:
    """Return the library used when none is named: `EVENREEL_LIBRARY`, else the platform's data folder."""
    if named := os.environ.get("EVENREEL_LIBRARY"):
        return Path(named)
    from platformdirs import user_data_path

    return user_data_path("evenreel") / "library"


# arguments of functions -----------------------------------------------------------------------------------------------


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
        how = "Scores(values, caption_ids, video_ids), or load_scores(path, corpus)"
        raise UsageError(f"{name} is {described(given)}; give scores with their ids: {how}.")
    about = getattr(given, "about", None)
    if not isinstance(about, ScoreNotes):
        raise UsageError(
            f"{name}.about is {described(about)}; say what the values use: evenreel.types.ScoreNotes(), with "
            "uses=(...) where that is more than captions and videos."
        )
    for part in ("caption_ids", "video_ids"):
        check_ids(getattr(given, part), f"{name}.{part}")


def check_corpus(given: object, name: str = "corpus") -> None:
    from evenreel.types import Corpus

    how = "load_corpus(path) reads one, make_corpus(clips, captions) makes one of two tables, and as_corpus(table) of "
    check_kind(given, Corpus, name, f"give a corpus: {how}a table of captions with the columns clip_id and text")


def check_kind(given: object, kind: type | tuple[type, ...], name: str, remedy: str) -> None:
    if not isinstance(given, kind):
        raise UsageError(f"{name} is {described(given)}; {remedy}.")


def check_settings_kind(given: object, kind: type) -> None:
    if given is not None:
        check_kind(given, kind, "settings", f"give {kind.__name__}(...)")


def check_progress(given: object) -> None:
    if given is not None and not callable(given):
        raise UsageError(f"progress is {described(given)}; give a function that takes the share that is done, or None.")


def check_named(given: object, name: str, what: str, one: str) -> None:
    check_kind(given, Mapping, name, f"give {what}, {{'name': {one}}}")


def check_word(given: object, words: Collection[str], what: str) -> None:
    if not isinstance(given, str) or given not in words:
        raise UsageError(f"{described(given)} is no {what}; there are: {', '.join(words)}.")


def as_path(given: object, name: str) -> Path:
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


def as_paths(given: object, name: str) -> list[Path]:
    """Return several paths, or one: to Python a text is a list of letters, and the first letter of a path the root."""
    return [as_path(one, name) for one in one_or_more(given, name, (str, os.PathLike))]


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
    flat = getattr(ids, "ndim", 1) == 1
    unordered = isinstance(ids, (str, bytes, Mapping, set, frozenset, GeneratorType))
    if not isinstance(ids, Collection) or unordered or not flat:
        raise UsageError(f"{name} is {described(ids)}; give a list of ids, one a row, in the order of the scores.")
    if wrong := [one for one in ids if not isinstance(one, str)]:
        ways = {bytes: ", so give [one.decode() for one in ids]", Integral: ", so give [str(one) for one in ids]"}
        way = next((words for kind, words in ways.items() if isinstance(wrong[0], kind)), "")
        raise UsageError(f"{name} holds {described(wrong[0])}; ids are text{way}.")


# values of settings ---------------------------------------------------------------------------------------------------


class OptionForm(NamedTuple):
    """Form of a setting on the command line, beside its type: `Annotated[int, OptionForm(least=1)]`."""

    name: str | None = None  # of the option with its dashes; None for that of the setting
    least: float | None = None
    most: float | None = None


class Allowed(NamedTuple):
    """Values that a setting may have, with their description for messages."""

    words: str
    holds: Callable[[Any], bool]


def number(words: str, holds: Callable[[float], bool]) -> Allowed:
    """Allow finite numbers for which a condition holds, which `words` describe; no text, no bool and no NaN."""
    return Allowed(
        f"a number {words}".strip(),
        lambda value: (
            isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) and holds(float(value))
        ),
    )


MOST = 10**9
"""Most steps, rows and the like: beyond all that anyone has, and within every counter."""
MOST_LAYERS = 1_000
MOST_SIZE = 2**20
"""Largest size of a layer, and most frames or words that have a place in a table."""
MOST_BITS = 2**63 - 1
"""Largest seed or number of bytes."""


def whole(least: int, most: int = MOST) -> Allowed:
    """Allow whole numbers from the least to the most.

    >>> whole(1).holds(2), whole(1).holds(0), whole(1).holds(2.0), whole(1).holds(10**400)
    (True, False, False, False)
    """
    room = "below 2^63" if most == MOST_BITS else f"at most {most:,}"
    return Allowed(
        f"a whole number, at least {least} and {room}",
        lambda value: isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most,
    )


def one_of(*names: str) -> Allowed:
    return Allowed(" or ".join(names), lambda value: isinstance(value, str) and value in names)


TRUE_OR_FALSE = Allowed("true or false", lambda value: isinstance(value, bool))
FINITE = number("", lambda value: True)
ABOVE_0 = number("above 0", lambda value: value > 0)
AT_LEAST_0 = number("of at least 0", lambda value: value >= 0)
BETWEEN_0_AND_1 = number("between 0 and 1", lambda value: 0 < value < 1)
ABOVE_0_TO_1 = number("above 0 and at most 1", lambda value: 0 < value <= 1)
SHARE = number("of at least 0 and below 1", lambda value: 0 <= value < 1)
TEXT = Allowed("text", lambda value: isinstance(value, str) and bool(value))
WORDS = Allowed(
    "a list of words, each once",
    lambda value: (
        isinstance(value, (list, tuple))
        and all(isinstance(word, str) for word in value)
        and len(set(value)) == len(value)
    ),
)


def check_settings(owner: str, settings: object, allowed: Mapping[str, Allowed] = MappingProxyType({})) -> None:
    """Check settings; a field says what it allows by its type (`bool`, `Literal`, `Annotated[int, whole(1)]`), too."""
    declared: dict[str, Allowed] = {}
    with contextlib.suppress(NameError):  # of a type that only type checkers import
        for name, hint in get_type_hints(type(settings), include_extras=True).items():
            own = [TRUE_OR_FALSE] if hint is bool else [*getattr(hint, "__metadata__", ())]
            if get_origin(hint) is Literal and isinstance(get_args(hint)[0], str):
                own = [one_of(*get_args(hint))]
            declared.update((name, one) for one in own if isinstance(one, Allowed))
    for name, values in {**declared, **allowed}.items():
        if not values.holds(given := getattr(settings, name)):
            raise UsageError(
                f"The setting {name} of {owner} is {' '.join(brief(given).split())}; it must be {values.words}."
            )
