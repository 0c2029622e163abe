"""`evenreel adapt`: a matcher learns from today's queries and clips, without labels, and can be put back."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import DeviceOption, JsonOption
from evenreel.errors import CheckpointError, UsageError
from evenreel.provenance import Provenance, provenance_of

if TYPE_CHECKING:
    from evenreel.adaptation.settings import AdaptSettings
    from evenreel.cli.adapt.inputs import Given
    from evenreel.cli.adapt.results import Outcome

CHECKPOINT_HELP = "A matcher: a folder, a hub id, or mean_pool, which needs no training and learns from here on."
CORPUS_HELP = "Folder of a corpus, of which the captions are read as queries; which clip they describe is not."
FEATURES_HELP = "Folder of the corpus's features, by the encoder that the matcher was trained with."
SPLIT_HELP = "Part of the corpus.  \\[default: test, where the corpus has it]"
LIBRARY_HELP = "Folder of a library, in place of a corpus."
QUERIES_HELP = "What people search for in the library: a query a line, or a .jsonl with a field 'query'."
SETTINGS_HELP = (
    "How it learns: a YAML file, or safe, safe-online, titan/offline, titan/online, titan/naive, titan/ttt, "
    "titan/ttt-flow."
)
SET_HELP = "PLACE=VALUE instead of the settings': lr=1e-3, safety.keep=0.5; may be given again."
OUT_HELP = "Folder of the adapted checkpoint."
IN_PLACE_HELP = "Put it in the place of CHECKPOINT, which is kept whole in CHECKPOINT/before."
UNDO_HELP = "Put CHECKPOINT back as it was before it was adapted in place."
DRY_RUN_HELP = "Write no checkpoint; say what would come of it."
SCORES_HELP = "Also write the scores of the corpus (.npz): online as each batch was answered, offline of the result."
REPORT_HELP = "Also write the page of the report here; the checkpoint has it in adaptation/report.html."
SEEN_HELP = "Folder of features by the matcher's towers before their training, for one that selects scene elements."
CONFOUNDERS_HELP = "Vectors of what the target's clips tend to show, in place of those that are looked for."
DEFAULT = "safe"
SOURCE, RESULT, CARE = "What it learns from", "What it writes", "How it learns"


@dataclass(frozen=True)
class Results:
    """Where results go; None or False where they do not."""

    out: Path | None
    in_place: bool
    dry_run: bool
    scores: Path | None
    report: Path | None

    def check(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            UsageError: it is not clear where the checkpoint goes, or the scores cannot say what they used.
        """
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
    corpus: Annotated[Path | None, typer.Argument(metavar="[CORPUS]", help=CORPUS_HELP)] = None,
    features: Annotated[Path | None, typer.Option(help=FEATURES_HELP, rich_help_panel=SOURCE)] = None,
    split: Annotated[str | None, typer.Option(help=SPLIT_HELP, rich_help_panel=SOURCE)] = None,
    seen: Annotated[Path | None, typer.Option(help=SEEN_HELP, rich_help_panel=SOURCE)] = None,
    library: Annotated[Path | None, typer.Option("--library", "-l", help=LIBRARY_HELP, rich_help_panel=SOURCE)] = None,
    queries: Annotated[Path | None, typer.Option(help=QUERIES_HELP, rich_help_panel=SOURCE)] = None,
    settings: Annotated[str, typer.Option(help=SETTINGS_HELP, rich_help_panel=CARE)] = DEFAULT,
    changes: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP, rich_help_panel=CARE)] = None,
    confounders: Annotated[Path | None, typer.Option(help=CONFOUNDERS_HELP, rich_help_panel=CARE)] = None,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP, rich_help_panel=RESULT)] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help=IN_PLACE_HELP, rich_help_panel=RESULT)] = False,
    undo: Annotated[bool, typer.Option("--undo", help=UNDO_HELP, rich_help_panel=RESULT)] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_RUN_HELP, rich_help_panel=RESULT)] = False,
    scores: Annotated[Path | None, typer.Option(help=SCORES_HELP, rich_help_panel=RESULT)] = None,
    report: Annotated[Path | None, typer.Option(help=REPORT_HELP, rich_help_panel=RESULT)] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Adapt a matcher to the videos and queries of today, without labels.

    Where that does not help, the matcher is left as it was, and the report says so. Exit status 3 if clips had been set
    aside.
    """
    results = Results(out, in_place, dry_run, scores, report)
    if undo:
        others = (corpus, features, split, seen, library, queries, changes, confounders, *vars(results).values())
        _undo(checkpoint, any(others) or settings != DEFAULT, as_json)
        return
    results.check()
    of_corpus = {"--features": features, "--split": split, "--seen": seen, "--scores": scores}
    _check_source(corpus, library, queries, {name for name, value in of_corpus.items() if value is not None})
    from evenreel.adaptation.settings_files import load_settings
    from evenreel.cli.adapt.inputs import CorpusSource, matcher_named, read_corpus, read_library
    from evenreel.cli.adapt.results import write
    from evenreel.cli.adapt.show import show

    how = load_settings(settings, changes or ())
    _check_places(checkpoint, results)
    named = matcher_named(checkpoint, features, device)
    read = {
        "matcher": checkpoint, "corpus": corpus, "features": [features, seen], "library": library, "queries": queries,
        "settings": settings, "confounders": confounders,
    }  # fmt: skip
    made = provenance_of(read)
    if library is not None and queries is not None:
        given = read_library(named, library, queries, device)
    else:
        assert corpus is not None and features is not None
        given = read_corpus(named, CorpusSource(corpus, features, split, seen), how, device)
    outcome = _adapted(given, how, confounders, made, keep=results.scores is not None)
    show(outcome, write(outcome, results), as_json)
    if given.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _adapted(
    given: Given, settings: AdaptSettings, confounders: Path | None, made: Provenance, *, keep: bool
) -> Outcome:
    """What was learned, with the scores where they are kept."""
    from evenreel.adaptation.adapted import TestTimeMatcher
    from evenreel.adaptation.changes import changes_of
    from evenreel.adaptation.resources import resources_of
    from evenreel.adaptation.run import adapt as adapt_stream
    from evenreel.adaptation.titan.confounders import read_confounders
    from evenreel.cli.adapt.results import Outcome
    from evenreel.cli.waiting import share_bar
    from evenreel.language import load_tagger

    tagger = load_tagger()
    read = None if confounders is None else read_confounders(confounders)
    resources = resources_of(given.prepared, given.stream.videos, settings, given.encode, tagger, confounders=read)
    model = TestTimeMatcher(given.pretrained.matcher, given.stream.videos, settings, resources)
    with share_bar("adapting") as progress:
        found = adapt_stream(model, given.stream, progress, keep=keep, tagger=resources.tagger)
    changes = found.changes or changes_of(model, given.stream, resources.tagger)
    return Outcome(given, settings, found, changes, made)


def _check_source(corpus: Path | None, library: Path | None, queries: Path | None, of_corpus: set[str]) -> None:
    """Refuse anything but a corpus with features, or a library with queries.

    Args:
        corpus: folder of a corpus.
        library: folder of a library.
        queries: file of what people search for.
        of_corpus: options that were given and say something of a corpus.
    """
    if (corpus is None) == (library is None):
        raise UsageError(
            "Name what to learn from: a CORPUS with --features FOLDER, or --library FOLDER with --queries FILE."
        )
    if library is not None and of_corpus:
        raise UsageError(f"{min(of_corpus)} is about a corpus, not about a library; leave it out.")
    if library is not None and queries is None:
        raise UsageError("Give with --queries a file of what people search for in the library, a query a line.")
    if corpus is not None and queries is not None:
        raise UsageError("The queries of a corpus are its captions; leave --queries out, or name a --library.")
    if corpus is not None and "--features" not in of_corpus:
        raise UsageError("Give with --features the folder that `evenreel features` made of the corpus.")


def _check_places(checkpoint: str, results: Results) -> None:
    """Refuse, before anything is learned, places that nothing can be written to."""
    from evenreel.checkpoint.saving import check_free
    from evenreel.cli.evaluate.files import check_place

    if results.out is not None:
        check_free(results.out)
        _check_beside(results.out)
    if results.in_place:
        _check_beside(_own_folder(checkpoint))
    for path in (results.scores, results.report):
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
    from evenreel.encoders.hub import named_folder

    if (folder := named_folder(name)) is None:
        raise UsageError(
            f"{name!r} is no folder, and only a checkpoint in a folder can be changed in place; use --out."
        )
    return folder


def _undo(checkpoint: str, more: bool, as_json: bool) -> None:
    """Put a checkpoint back."""
    from evenreel.adaptation.keeping import undo
    from evenreel.cli.show_library import console, print_json, safe

    if more:
        raise UsageError("--undo puts a checkpoint back and learns nothing; give it with CHECKPOINT alone.")
    folder = _own_folder(checkpoint)
    undo(folder)
    if as_json:
        print_json({"checkpoint": str(folder), "undone": True})
    else:
        console().print(f"{safe(folder)} is as it was before it was adapted.")
