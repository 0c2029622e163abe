"""`evenreel adapt`: a matcher learns from today's queries and clips, without labels, and can be put back."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import DeviceOption, JsonOption, from_settings
from evenreel.cli.show_library import console, print_json, safe
from evenreel.config import OptionForm
from evenreel.errors import CheckpointError, UsageError
from evenreel.provenance import provenance_of

CHECKPOINT_HELP = "A matcher: a folder, a hub id, or mean_pool, which needs no training and learns from here on."
SOURCE, RESULT, CARE = "What it learns from", "What it writes", "How it learns"


@dataclass(frozen=True)
class AdaptSource:
    """Where queries and clips are from: a part of a corpus with its features, or a library with a file of queries.

    Attributes:
        corpus: folder of a corpus, of which the captions are read as queries; which clip they describe is not.
        features: folder of the corpus's features, by the encoder that the matcher was trained with.
        split: part of the corpus; None for test, where the corpus has it.
        pretrained_features: folder of features by the matcher's towers before their training, for one that selects
            scene elements.
        library: folder of a library, in place of a corpus.
        queries: what people search for in the library: a query a line, or a .jsonl with a field 'query'.
    """

    corpus: Annotated[Path | None, typer.Argument(metavar="[CORPUS]")] = None
    features: Path | None = None
    split: str | None = None
    pretrained_features: Path | None = None
    library: Annotated[Path | None, typer.Option("--library", "-l")] = None
    queries: Path | None = None

    def check(self, scores: Path | None) -> None:
        """Check that a corpus with features is given, or a library with queries, and no option of the other."""
        of_corpus = {
            "--features": self.features,
            "--split": self.split,
            "--pretrained-features": self.pretrained_features,
            "--scores": scores,
        }
        given = {name for name, value in of_corpus.items() if value is not None}
        if (self.corpus is None) == (self.library is None):
            raise UsageError(
                "Name what to learn from: a CORPUS with --features FOLDER, or --library FOLDER with --queries FILE."
            )
        if self.library is not None and given:
            raise UsageError(f"{min(given)} is about a corpus, not about a library; leave it out.")
        if self.library is not None and self.queries is None:
            raise UsageError("Give with --queries a file of what people search for in the library, a query a line.")
        if self.corpus is not None and self.queries is not None:
            raise UsageError("The queries of a corpus are its captions; leave --queries out, or name a --library.")
        if self.corpus is not None and self.features is None:
            raise UsageError("Give with --features the folder that `evenreel features` made of the corpus.")


@dataclass(frozen=True)
class LearningChoice:
    """How `evenreel adapt` learns.

    Attributes:
        settings: how it learns: a YAML file, or `safe`, `safe-online`, `rotation`, `titan/offline`, `titan/online`,
            `titan/naive`, `titan/ttt`, `titan/ttt-flow`.
        changes: PLACE=VALUE instead of the settings': lr=1e-3, safety.keep=0.5; may be given again.
        confounders: vectors of what the target's clips tend to show, in place of those that are looked for.
    """

    settings: str = "safe"
    changes: Annotated[tuple[str, ...], OptionForm("--set")] = ()
    confounders: Path | None = None


@dataclass(frozen=True)
class AdaptFiles:
    """Where the checkpoint, the scores and the report are written; None or False where they are not.

    Attributes:
        out: folder of the adapted checkpoint.
        in_place: put the adapted checkpoint in the place of CHECKPOINT, which is kept whole in CHECKPOINT/before.
        dry_run: write no checkpoint; say what would come of it.
        scores: also write the scores of the corpus (.npz): online as each batch was answered, offline of the result.
        report: also write the page of the report here; the checkpoint has it in adaptation/report.html.
        undo: put CHECKPOINT back as it was before it was adapted in place.
    """

    out: Path | None = None
    in_place: bool = False
    dry_run: bool = False
    scores: Path | None = None
    report: Path | None = None
    undo: bool = False

    def check(self) -> None:
        """Check that the checkpoint goes to one place, and that the file of scores can say what they used."""
        places = {"--out": self.out, "--in-place": self.in_place, "--dry-run": self.dry_run}
        given = [name for name, value in places.items() if value]
        if len(given) != 1:
            which = f"not {' and '.join(given)}" if given else "for the adapted checkpoint has to go somewhere"
            raise UsageError(f"Give one of --out DIR, --in-place and --dry-run, {which}.")
        if self.scores is not None and self.scores.suffix != ".npz":
            raise UsageError(
                f"{self.scores} does not end in .npz, and no other file can say that the scores used unlabelled "
                "queries; give --scores such a name."
            )


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
        _undo(checkpoint, (source, replace(files, undo=False)), choice, as_json)
        return
    files.check()
    source.check(files.scores)
    from evenreel.adaptation.titan import load_settings
    from evenreel.cli.adapt.given import Written, adapted, matcher_named, read_corpus, read_library, show, write

    how = load_settings(choice.settings, choice.changes)
    _check_places(checkpoint, files)
    named = matcher_named(checkpoint, source.features, device)
    read = {
        "matcher": checkpoint, "corpus": source.corpus, "features": [source.features, source.pretrained_features],
        "library": source.library, "queries": source.queries, "settings": choice.settings,
        "confounders": choice.confounders,
    }  # fmt: skip
    made = provenance_of(read)
    if source.corpus is not None and source.features is not None:
        folders = source.features, source.pretrained_features
        given = read_corpus(named, source.corpus, source.split, folders, how, device)
    else:
        assert source.library is not None and source.queries is not None
        given = read_library(named, source.library, source.queries, device)
    outcome = adapted(given, how, choice.confounders, made, keep=files.scores is not None)
    show(outcome, write(outcome, Written(files.out, files.scores, files.report), in_place=files.in_place), as_json)
    if given.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _check_places(checkpoint: str, files: AdaptFiles) -> None:
    """Refuse, before anything is learned, places that nothing can be written to."""
    from evenreel.checkpoint.folder import check_free
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
    """A folder is written beside its place and then put there, so what it lies in has to take another one."""
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.absolute().parent):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CheckpointError(f"{folder} cannot be written ({why}); choose another place with --out.") from error


def _own_folder(name: str) -> Path:
    from evenreel.extras import named_folder

    if (folder := named_folder(name)) is None:
        raise UsageError(
            f"{name!r} is no folder, and only a checkpoint in a folder can be changed in place; use --out."
        )
    return folder


def _undo(checkpoint: str, others: tuple[AdaptSource, AdaptFiles], choice: LearningChoice, as_json: bool) -> None:
    from evenreel.adaptation.prepared import undo

    if choice != LearningChoice() or any(getattr(one, field.name) for one in others for field in fields(one)):
        raise UsageError("--undo puts a checkpoint back and learns nothing; give it with CHECKPOINT alone.")
    folder = _own_folder(checkpoint)
    undo(folder)
    if as_json:
        print_json({"checkpoint": folder, "undone": True})
    else:
        console().print(f"{safe(folder)} is as it was before it was adapted.")
