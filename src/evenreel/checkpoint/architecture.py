"""From a spec to the matcher with fresh parameters, wrappers included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import zip_longest
from typing import Any

from torch import nn

from evenreel.checkpoint.records import MatcherSpec
from evenreel.errors import CheckpointError, UsageError
from evenreel.matchers import MATCHERS, Matcher, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.registry import Entry
from evenreel.types import RoleGraph

WRAPPERS: dict[str, Entry] = {"adapted": Entry(Adapted, AdapterSettings)}
"""Matchers around matchers: classes that are built from the wrapped ones, the dimension D and their settings."""


def build(spec: MatcherSpec, dimension: int) -> Matcher:
    """A matcher with fresh parameters, in training mode.

    Args:
        spec: how it is built.
        dimension: D, the length of the features it takes.

    Raises:
        UsageError: nothing has this name, or no setting of it, or it does not wrap as many matchers as given.
    """
    if spec.name not in WRAPPERS:
        if spec.wrapped:
            raise UsageError(f"The matcher {spec.name} wraps no other; there are the wrappers {', '.join(WRAPPERS)}.")
        return build_matcher(spec.name, dimension, spec.settings)
    if len(spec.wrapped) != 1:
        raise UsageError(f"The wrapper {spec.name} goes around one matcher, not {len(spec.wrapped)}.")
    wrapper = WRAPPERS[spec.name]
    inner = build(spec.wrapped[0], dimension)
    matcher: Matcher = wrapper.matcher(inner, dimension, wrapper.settings(**_known(spec, wrapper.settings)))
    return matcher


def fitted(spec: MatcherSpec, graphs: Sequence[RoleGraph], begun: MatcherSpec | None = None) -> MatcherSpec:
    """The spec with what its matchers take from the captions they are to learn from, such as a vocabulary.

    Args:
        spec: as a recipe has it; what it says itself stays.
        graphs: of those captions; only looked at where `reads_graphs`.
        begun: how the matcher is built whose weights training begins with; what it was fitted to is kept.
    """
    fit = MATCHERS[spec.name].fit if spec.name in MATCHERS else None
    settings = spec.settings if fit is None else fit(spec.settings, graphs)
    if begun is not None and begun.name == spec.name:
        settings = {name: begun.settings.get(name, value) for name, value in settings.items()} | dict(spec.settings)
    begun_inner = begun.wrapped if begun is not None and len(begun.wrapped) == len(spec.wrapped) else ()
    inner = zip_longest(spec.wrapped, begun_inner)
    return MatcherSpec(spec.name, settings, tuple(fitted(one, graphs, before) for one, before in inner))


def reads_graphs(spec: MatcherSpec) -> bool:
    """Whether the matcher, or one that it wraps, reads the role graphs of captions; nothing is built to find out."""
    if spec.name in MATCHERS:
        return MATCHERS[spec.name].graphs
    return any(map(reads_graphs, spec.wrapped))


def resolved(spec: MatcherSpec) -> MatcherSpec:
    """The spec with every setting spelt out, so that a default that changes later does not change the matcher."""
    settings = (WRAPPERS.get(spec.name) or MATCHERS[spec.name]).settings
    whole = asdict(settings(**spec.settings))
    return MatcherSpec(spec.name, whole, tuple(resolved(inner) for inner in spec.wrapped))


def module(matcher: Matcher) -> nn.Module:
    """The matcher as the `torch.nn.Module` that it is.

    Raises:
        CheckpointError: it is none.
    """
    if not isinstance(matcher, nn.Module):
        raise CheckpointError(
            f"A {type(matcher).__name__} is no torch.nn.Module, so it has no weights to save or load."
        )
    return matcher


def _known(spec: MatcherSpec, settings: type[Any]) -> Mapping[str, Any]:
    known = {field.name for field in fields(settings)}
    if unknown := sorted(set(spec.settings) - known):
        raise UsageError(f"The wrapper {spec.name} has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}.")
    return spec.settings
