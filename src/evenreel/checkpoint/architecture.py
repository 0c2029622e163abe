"""Building of the matcher, with any wrappers and fresh parameters, that a specification describes."""

from __future__ import annotations

from dataclasses import asdict
from itertools import zip_longest

from torch import Tensor, nn

from evenreel.checkpoint.records import MatcherSpec
from evenreel.debias.ensemble import Ensemble
from evenreel.debias.frame_length import Fusion
from evenreel.debias.habits import HabitRemoval, WithoutHabits
from evenreel.debias.without_length import LengthRemoval, WithoutLength
from evenreel.errors import CheckpointError, UsageError
from evenreel.matchers import MATCHERS, Entry, Matcher, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import HasTrainingParts, LearnedFrom
from evenreel.matchers.registry import settings_of

WRAPPERS: dict[str, Entry] = {
    "adapted": Entry(Adapted, AdapterSettings),
    "ensemble": Entry(Ensemble, Fusion),
    "without_habits": Entry(WithoutHabits, HabitRemoval),
    "without_length": Entry(WithoutLength, LengthRemoval),
}
"""Matchers around others: built from what they wrap (an ensemble from a list), the dimension D and their settings."""


def build(spec: MatcherSpec, dimension: int) -> Matcher:
    """Build the matcher of a specification with fresh parameters, in training mode.

    Args:
        spec: specification of the matcher.
        dimension: length D of the features it takes.

    Raises:
        UsageError: there is no matcher of this name, no setting of it, or it does not wrap as many matchers as given.
    """
    if spec.name not in WRAPPERS:
        if spec.wrapped:
            raise UsageError(f"There is no wrapper {spec.name!r} of matchers; there are {', '.join(WRAPPERS)}.")
        return build_matcher(spec.name, dimension, spec.settings)
    wrapper, several = WRAPPERS[spec.name], spec.name == "ensemble"
    if not spec.wrapped or (len(spec.wrapped) > 1 and not several):
        wanted = "at least one matcher" if several else "one matcher"
        raise UsageError(f"The wrapper {spec.name} goes around {wanted}, not {len(spec.wrapped)}.")
    inner = [build(one, dimension) for one in spec.wrapped]
    settings = settings_of(wrapper, f"wrapper {spec.name}", spec.settings)
    matcher: Matcher = wrapper.matcher(inner if several else inner[0], dimension, settings)
    return matcher


def fitted(spec: MatcherSpec, learned: LearnedFrom, begun: MatcherSpec | None = None) -> MatcherSpec:
    """Return a specification completed with what its matchers take from the training captions, such as a vocabulary."""
    fit = MATCHERS[spec.name].fit if spec.name in MATCHERS else None
    settings = spec.settings if fit is None else fit(spec.settings, learned)
    if begun is not None and begun.name == spec.name:
        taken = {name for name, value in settings.items() if value != spec.settings.get(name)}
        settings = {**settings, **{name: begun.settings[name] for name in taken & begun.settings.keys()}}
    begun_inner = begun.wrapped if begun is not None and len(begun.wrapped) == len(spec.wrapped) else ()
    inner = zip_longest(spec.wrapped, begun_inner)
    return MatcherSpec(spec.name, settings, tuple(fitted(one, learned, before) for one, before in inner))


def reads_graphs(spec: MatcherSpec) -> bool:
    """Return whether a matcher, or one that it wraps, reads the role graphs of captions; nothing is built."""
    if spec.name in MATCHERS:
        return MATCHERS[spec.name].graphs
    return any(map(reads_graphs, spec.wrapped))


def reads_windows(spec: MatcherSpec) -> bool:
    """Return whether a matcher, or one that it wraps, reads the on-screen windows of clips."""
    if spec.name in MATCHERS:
        reads = MATCHERS[spec.name].windows
        return reads is not None and reads(spec.settings)
    return bool(spec.settings.get("windows")) or any(map(reads_windows, spec.wrapped))


def uses_in(spec: MatcherSpec) -> tuple[str, ...]:
    """Return, in words, what a matcher or one that it wraps uses of splits other than its training split."""
    uses = MATCHERS[spec.name].uses if spec.name in MATCHERS else None
    own = () if uses is None else uses(spec.settings)
    return tuple(dict.fromkeys((*own, *(use for inner in spec.wrapped for use in uses_in(inner)))))


def resolved(spec: MatcherSpec) -> MatcherSpec:
    """Return a specification with every setting spelt out, so that a later change of a default does not change it."""
    settings = (WRAPPERS.get(spec.name) or MATCHERS[spec.name]).settings
    whole = asdict(settings(**spec.settings))
    return MatcherSpec(spec.name, whole, tuple(resolved(inner) for inner in spec.wrapped))


def encodings(spec: MatcherSpec) -> int:
    """Return how many encodings a matcher keeps of each caption and of each video: of an ensemble one a member.

    >>> encodings(MatcherSpec("ensemble", {"weights": (0.5, 0.5)}, (MatcherSpec("wti"), MatcherSpec("wti"))))
    2
    """
    return sum(map(encodings, spec.wrapped)) or 1


def training_only(network: nn.Module) -> tuple[str, ...]:
    """Return the prefixes of the names of weights that only a loss needs, in a matcher or in any that it wraps."""
    return tuple(
        f"{path}.{name}.".removeprefix(".")
        for path, part in network.named_modules()
        if isinstance(part, HasTrainingParts)
        for name in part.training_only
    )


def without_training_only(matcher: Matcher) -> Matcher:
    """Return the matcher after deleting the parts that only its loss needs."""
    for part in module(matcher).modules():
        if isinstance(part, HasTrainingParts):
            for name in part.training_only:
                setattr(part, name, None)
    return matcher


def kept_weights(matcher: Matcher) -> dict[str, Tensor]:
    """Return the weights of a matcher that a checkpoint stores, by name: all but those that only a loss needs."""
    network = module(matcher)
    dropped = training_only(network)
    return {name: tensor for name, tensor in network.state_dict().items() if not name.startswith(dropped)}


def module(matcher: Matcher) -> nn.Module:
    """Check that a matcher is a `torch.nn.Module`, and return it."""
    if not isinstance(matcher, nn.Module):
        raise CheckpointError(
            f"A {type(matcher).__name__} is no torch.nn.Module, so it has no weights to save or load."
        )
    return matcher
