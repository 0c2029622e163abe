"""`evenreel adapt`: a matcher learns from today's queries and clips, without labels, and can be put back."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.adapt.options import AdaptFiles, AdaptSource, LearningChoice, any_given
from evenreel.cli.options import DeviceOption, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, print_json, safe
from evenreel.errors import CheckpointError, UsageError
from evenreel.provenance import Provenance, provenance_of

if TYPE_CHECKING:
    from evenreel.adaptation.settings import AdaptSettings
    from evenreel.cli.adapt.inputs import Given
    from evenreel.cli.adapt.results import AdaptOutcome

CHECKPOINT_HELP = "A matcher: a folder, a hub id, or mean_pool, which needs no training and learns from here on."
SOURCE, RESULT, CARE = "What it learns from", "What it writes", "How it learns"


def adapt(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    source: AdaptSource = from_settings(AdaptSource, panel=SOURCE),
    choice: LearningChoice = from_settings(LearningChoice, panel=CARE),
    files: AdaptFiles = from_settings(AdaptFiles, panel=RESULT),
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Adapt a matcher to the videos and queries of today, without labels.

    Where that does not help, the matcher is left as it was, and the report says so. Exit status 3 if clips had been set
    aside.
    """
    if files.undo:
        others = any_given(source, replace(files, undo=False)) or choice != LearningChoice()
        _undo(checkpoint, others, as_json)
        return
    files.check()
    source.check(files.scores)
    from evenreel.adaptation.settings_files import load_settings
    from evenreel.cli.adapt.inputs import matcher_named, read_corpus, read_library
    from evenreel.cli.adapt.results import write
    from evenreel.cli.adapt.show import show

    how = load_settings(choice.settings, choice.changes)
    _check_places(checkpoint, files)
    named = matcher_named(checkpoint, source.features, device)
    read = {
        "matcher": checkpoint, "corpus": source.corpus, "features": [source.features, source.pretrained_features],
        "library": source.library, "queries": source.queries, "settings": choice.settings,
        "confounders": choice.confounders,
    }  # fmt: skip
    made = provenance_of(read)
    given = read_corpus(named, source, how, device) if source.corpus else read_library(named, source, device)
    outcome = _adapted(given, how, choice.confounders, made, keep=files.scores is not None)
    show(outcome, write(outcome, files), as_json)
    if given.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _adapted(
    given: Given, settings: AdaptSettings, confounders: Path | None, made: Provenance, *, keep: bool
) -> AdaptOutcome:
    """What was learned, with the scores where they are kept."""
    from evenreel.adaptation.adapted import TestTimeMatcher
    from evenreel.adaptation.changes import changes_of
    from evenreel.adaptation.resources import resources_of
    from evenreel.adaptation.run import adapt as adapt_stream
    from evenreel.adaptation.titan.confounders import read_confounders
    from evenreel.cli.adapt.results import AdaptOutcome
    from evenreel.language import load_tagger

    tagger = load_tagger()
    read = None if confounders is None else read_confounders(confounders)
    resources = resources_of(given.prepared, given.stream.videos, settings, given.encode, tagger, confounders=read)
    model = TestTimeMatcher(given.pretrained.matcher, given.stream.videos, settings, resources)
    with share_bar("adapting") as progress:
        found = adapt_stream(model, given.stream, progress, keep=keep, tagger=resources.tagger)
    changes = found.changes or changes_of(model, given.stream, resources.tagger)
    return AdaptOutcome(given, settings, found, changes, made)


def _check_places(checkpoint: str, files: AdaptFiles) -> None:
    """Refuse, before anything is learned, places that nothing can be written to."""
    from evenreel.checkpoint.saving import check_free
    from evenreel.cli.evaluate.command import check_place

    if files.out is not None:
        check_free(files.out)
        _check_beside(files.out)
    if files.in_place:
        _check_beside(_own_folder(checkpoint))
    for path in (files.scores, files.report):
        if path is not None:
            check_place(path)


def _check_beside(folder: Path) -> None:
    """A folder is written beside its place and then put there, so what it lies in has to take another one.

    Raises:
        CheckpointError: it does not.
    """
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.absolute().parent):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CheckpointError(f"{folder} cannot be written ({why}); choose another place with --out.") from error


def _own_folder(name: str) -> Path:
    """The folder of a checkpoint that can be changed.

    Raises:
        UsageError: it is none.
    """
    from evenreel.extras import named_folder

    if (folder := named_folder(name)) is None:
        raise UsageError(
            f"{name!r} is no folder, and only a checkpoint in a folder can be changed in place; use --out."
        )
    return folder


def _undo(checkpoint: str, more: bool, as_json: bool) -> None:
    """Put a checkpoint back."""
    from evenreel.adaptation.keeping import undo

    if more:
        raise UsageError("--undo puts a checkpoint back and learns nothing; give it with CHECKPOINT alone.")
    folder = _own_folder(checkpoint)
    undo(folder)
    if as_json:
        print_json({"checkpoint": folder, "undone": True})
    else:
        console().print(f"{safe(folder)} is as it was before it was adapted.")
