"""The matchers by name: what a recipe or a checkpoint calls `matcher`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from evenreel.errors import UsageError
from evenreel.matchers.bima.matcher import Bima
from evenreel.matchers.bima.settings import BimaSettings, dictionary_uses, with_dictionary_and_words
from evenreel.matchers.fitting import Fit
from evenreel.matchers.hgr.matcher import Hgr, HgrSettings, with_vocabulary
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.matchers.t_mass import TMass, TMassSettings
from evenreel.matchers.tcd.matcher import Tcd
from evenreel.matchers.tcd.settings import TcdSettings, reads_on_screen
from evenreel.matchers.temporal import Temporal, TemporalSettings
from evenreel.matchers.wti import Wti, WtiSettings
from evenreel.matchers.x_clip import XClip, XClipSettings
from evenreel.matchers.x_pool import XPool, XPoolSettings


class Entry(NamedTuple):
    """A matcher in the registry: its class, settings, and what training does before it is built.

    Attributes:
        matcher: a class that is built from the dimension D and its settings.
        settings: the class of these settings.
        graphs: whether it reads the role graphs of captions.
        fit: function that completes the settings before training; None where they need no training data.
        uses: function that names, in words, what the settings use of other splits than the training split; None for
            none.
        windows: function that returns whether settings have on-screen windows read apart from frames; None for never.
    """

    matcher: type[Any]
    settings: type[Any]
    graphs: bool = False
    fit: Fit | None = None
    uses: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    windows: Callable[[Mapping[str, Any]], bool] | None = None


MATCHERS: dict[str, Entry] = {
    "mean_pool": Entry(MeanPool, MeanPoolSettings),
    "temporal": Entry(Temporal, TemporalSettings),
    "wti": Entry(Wti, WtiSettings),
    "x_clip": Entry(XClip, XClipSettings),
    "x_pool": Entry(XPool, XPoolSettings),
    "t_mass": Entry(TMass, TMassSettings),
    "hgr": Entry(Hgr, HgrSettings, graphs=True, fit=with_vocabulary),
    "tcd": Entry(Tcd, TcdSettings, windows=reads_on_screen),
    "bima": Entry(Bima, BimaSettings, fit=with_dictionary_and_words, uses=dictionary_uses),
}


def build_matcher(name: str, dimension: int, settings: Mapping[str, Any] | None = None) -> Matcher:
    """Build a matcher with fresh parameters.

    Args:
        name: a key of `MATCHERS`.
        dimension: D, the length of the features it takes.
        settings: fields of its settings class that differ from the defaults.

    Raises:
        UsageError: no matcher has this name, or no setting of it.
    """
    if name not in MATCHERS:
        raise UsageError(f"No matcher is called {name!r}; there are {', '.join(MATCHERS)}.")
    entry = MATCHERS[name]
    known = set(entry.settings.__dataclass_fields__)
    if unknown := sorted(set(settings or {}) - known):
        raise UsageError(f"The matcher {name} has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}.")
    matcher: Matcher = entry.matcher(dimension, entry.settings(**(settings or {})))
    return matcher
