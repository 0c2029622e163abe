"""`evenreel audit`: scores of any system, or a library and sentences, in; what is printed is in `show`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.audit.edited import edited_files, edited_folders
from evenreel.cli.evaluate.files import check_place, system_names
from evenreel.cli.options import JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.text_lines import lines_of
from evenreel.errors import CorpusError, UsageError
from evenreel.provenance import provenance_of

if TYPE_CHECKING:
    from evenreel.audits.class_lengths import TailClasses
    from evenreel.audits.settings import AuditInputs, AuditSettings
    from evenreel.checkpoint import Pretrained
    from evenreel.report.result import AuditResult
    from evenreel.types import Corpus, ScoreBlocks

NAMES_HELP = "Audits, such as source; a wrong one lists them all."
TRAIN = "train"


@dataclass(frozen=True)
class ScoreFiles:
    """Scores of systems that `evenreel audit` reads, and what some audits read beside them.

    Attributes:
        scores: matrix (npy, npz, parquet) or TREC run; again for another system.
        corpus: folder of the corpus the scores are of.
        split: part of the corpus the scores are of, such as test.
        train_split: part of the corpus that was learned from, for the audit length; train where the corpus has it.
        tail_classes: table (csv) of verbs or nouns with few training clips, for the audit length; again for another.
        edited: for visual, textual, overlay or composition: scores after an edit, such as background-swapped=bg.npz;
            again for another edit. With several --scores, each edit once for each, in their order. For overlay,
            --corpus is that of the clips with misleading words, whose column overlay_of (written) or voiceover_of
            (spoken) names the clip whose words each carries. For order, scores of the clips with their frames in
            another order, such as reversed=turned.npz, where no clips of the corpus are that (column order_of).
        edited_corpus: for composition: folder of the corpus with the captions of an edit, such as role-swapped=DIR, for
            tables by what was exchanged; again for another edit.
        kinds: column of clips or captions with the kind of action, for the audit order; the verbs of captions if left
            out.
    """

    scores: tuple[Path, ...] = ()
    corpus: Path | None = None
    split: str | None = None
    train_split: str | None = None
    tail_classes: tuple[Path, ...] = ()
    edited: Annotated[tuple[str, ...], typer.Option(metavar="NAME=FILE")] = ()
    edited_corpus: Annotated[tuple[str, ...], typer.Option(metavar="NAME=DIR")] = ()
    kinds: str | None = None


@dataclass(frozen=True)
class SearchedLibrary:
    """A library whose search `evenreel audit` looks at, and the sentences that it is searched with.

    Attributes:
        library: audit the search of this library.
        queries: sentences to search the library with: UTF-8, one a line; lines that begin with # are skipped.
        rerank: for the audit order, a matcher's checkpoint, folder or hub id, that re-ranks the library's searches.
    """

    library: Annotated[Path | None, typer.Option("--library", "-l")] = None
    queries: Path | None = None
    rerank: str | None = None

    def matcher(self) -> Pretrained | None:
        """Load the matcher that re-ranks; None where none is named."""
        if self.rerank is None:
            return None
        from evenreel.checkpoint import load_matcher

        return load_matcher(self.rerank)


def audit(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help=NAMES_HELP)] = None,
    given: ScoreFiles = from_settings(ScoreFiles),
    searched: SearchedLibrary = from_settings(SearchedLibrary),
    report: Annotated[Path | None, typer.Option(help="Also write a page with figures to this file.")] = None,
    settings: AuditSettings = from_settings("evenreel.audits.settings:AuditSettings", leave_out=("band_bytes",)),
    as_json: JsonOption = False,
) -> None:
    """Ask of a ranking whether it favours clips for the wrong reason, such as being generated."""
    from evenreel.audits import read_tail_classes
    from evenreel.cli.audit.show import show_audits
    from evenreel.report import write_page
    from evenreel.report.page import audit_page

    wanted = _known(names or ())
    _check_inputs(wanted, given, searched)
    tail = read_tail_classes(given.tail_classes) if given.tail_classes else None
    not_made: list[str] = []
    if report:
        check_place(report)
    if searched.library is not None:
        queries = _named(searched.queries, "--library goes with --queries")
        results = _of_library(
            wanted,
            searched.library,
            lines_of(queries, "sentence"),
            settings,
            not_made.append,
            searched=searched,
        )
    else:
        folders = edited_folders(given.edited_corpus, wanted)
        folder = _named(given.corpus, "--scores goes with --corpus, a folder or table (clip_id, text, duration_s)")
        parts = AuditedParts(folder, given.split, given.train_split, tail, folders, given.kinds)
        systems = system_names(given.scores)
        files = edited_files(given.edited, len(systems))
        results = _of_scores(wanted, systems, files, parts, settings, not_made.append)
    if not results:
        raise CorpusError(*not_made)
    read = {
        "scores": given.scores, "scores after an edit": [word.partition("=")[2] for word in given.edited],
        "captions after an edit": [word.partition("=")[2] for word in given.edited_corpus], "corpus": given.corpus,
        "few training clips": given.tail_classes, "library": searched.library, "queries": searched.queries,
    }  # fmt: skip
    made = provenance_of(read) if as_json or report else None
    show_audits(results, report, as_json, not_made, made)
    if report:
        write_page(audit_page(results, not_made), report, made)
    if not_made:
        raise typer.Exit(EXIT_SET_ASIDE)


@dataclass(frozen=True)
class AuditedParts:
    """The parts of a corpus that an audit reads.

    Attributes:
        folder: folder of the corpus.
        split: split that was scored; None for all of it.
        train_split: split that was learned from; None where it is not given.
        tail: classes with few training clips; None where they are not given.
        edited: folders of corpora with edited captions, by the name of the edit.
        kinds: column with the kind of action; None where it is not given.
    """

    folder: Path
    split: str | None
    train_split: str | None
    tail: TailClasses | None = None
    edited: Mapping[str, Path] = field(default_factory=dict)
    kinds: str | None = None

    def read(self) -> tuple[Corpus, Corpus, Corpus | None]:
        """Read the corpus, its scored clips, and its training clips; None for these where no split is known for them.

        Raises:
            CorpusError: the corpus cannot be read, or has no such split.
            UsageError: both are one split.
        """
        from evenreel.corpus import load_corpus, select

        if self.split is not None and self.split == self.train_split:
            raise UsageError(f"--split and --train-split both name {self.split!r}; a system is tested on other clips.")
        whole = load_corpus(self.folder)
        scored = whole if self.split is None else select(whole, split=self.split)
        learned = self.train_split
        if learned is None and self.split != TRAIN and TRAIN in whole.clips["split"]:
            learned = TRAIN
        return whole, scored, None if learned is None else select(whole, split=learned)


def _known(names: Sequence[str]) -> Sequence[str]:
    """The names, if each is that of an audit and given once."""
    from evenreel.audits import AUDITS

    if not names:
        raise UsageError(
            f"Name one audit or more: evenreel audit source --scores FILE --corpus DIR; there are: {', '.join(AUDITS)}."
        )
    if unknown := [name for name in names if name not in AUDITS]:
        raise UsageError(f"{unknown[0]!r} is no audit; there are: {', '.join(AUDITS)}.")
    if len(set(names)) < len(names):
        raise UsageError(f"The audit {max(names, key=names.count)} is named twice; name each once.")
    return names


def _check_inputs(names: Sequence[str], given: ScoreFiles, searched: SearchedLibrary) -> None:
    """Refuse options that the audits, or what they look at, have no use for."""
    from evenreel.audits import AUDITS

    of_a_library = searched.library is not None
    readers = [name for name, one in AUDITS.items() if {"train", "tail"} & set(one.takes)]
    if (given.train_split or given.tail_classes) and (of_a_library or not set(readers) & set(names)):
        raise UsageError(
            f"--train-split and --tail-classes go with the audit {' or '.join(readers)} of --scores; leave them out."
        )
    _check_edits(names, given.edited, of_a_library=of_a_library)
    if of_a_library == bool(given.scores):
        raise UsageError("Give either --scores FILE with --corpus DIR, or --library DIR with --queries FILE.")
    if of_a_library and (given.corpus or given.split):
        raise UsageError("--corpus and --split go with --scores; a library has its own clips, so leave them out.")
    if not of_a_library and searched.queries:
        raise UsageError("--queries goes with --library; leave it out.")
    _check_orders(names, given, searched)


def _check_orders(names: Sequence[str], given: ScoreFiles, searched: SearchedLibrary) -> None:
    from evenreel.audits import AUDITS

    of_orders = [AUDITS[name].of_orders for name in names]
    if given.kinds and (searched.library is not None or not any(of_orders)):
        raise UsageError("--kinds goes with the audit order of --scores; leave it out.")
    if searched.rerank and (searched.library is None or not all(of_orders)):
        raise UsageError("--rerank goes with the audit order of --library alone; leave it out.")


def _check_edits(names: Sequence[str], edited: Sequence[str], *, of_a_library: bool) -> None:
    from evenreel.audits import AUDITS, OF_EDITS

    asked = [name for name in names if name in OF_EDITS]
    if len(asked) > 1:
        raise UsageError(
            f"{' and '.join(asked)} hold scores against those of other edits, such as of clips or of captions; give "
            "each a command of its own."
        )
    if edited and not asked:
        known = f"{', '.join(OF_EDITS[:-1])} or {OF_EDITS[-1]}"
        raise UsageError(f"--edited goes with the audit {known}; leave it out.")
    needs = asked and not (AUDITS[asked[0]].without_edits and not edited)
    if needs and (of_a_library or not edited):
        raise UsageError(
            f"The audit {asked[0]} holds scores against those after an edit; give --scores FILE and --edited NAME=FILE."
        )


def _named(path: Path | None, both: str) -> Path:
    if path is None:
        raise UsageError(f"{both}; give both.")
    return path


def _of_scores(
    names: Sequence[str],
    paths: Mapping[str, Path],
    edited: Sequence[Mapping[str, Path]],
    parts: AuditedParts,
    settings: AuditSettings,
    not_made: Callable[[str], None],
) -> list[AuditResult]:
    """Every audit of every file; the corpus is read once."""
    from evenreel.audits import AuditInputs
    from evenreel.corpus import load_corpus
    from evenreel.evaluation import load_scores
    from evenreel.evaluation.scores import check_file

    every = [*paths.values(), *(path for files in edited for path in files.values())]
    for path in every:
        check_file(path)
    whole, part, learned = parts.read()
    texts = {name: load_corpus(folder) for name, folder in parts.edited.items()}
    results = []
    for (system, path), files in zip(paths.items(), edited, strict=True):
        notices: list[str] = []
        lacking: list[str] = []
        read = partial(load_scores, corpus=part, partial=True, whole=whole)
        after = {name: read(file, notice=_behind(f"{name}: ", notices)) for name, file in files.items()}
        inputs = AuditInputs(train=learned, tail=parts.tail, edited=after, edited_texts=texts, kinds=parts.kinds)
        audited = Audited(read(path, notice=notices.append), part, inputs, path.name)
        found = _audited(names, audited, settings, lacking.append)
        for sentence in lacking:
            not_made(f"{system}: {sentence}" if len(paths) > 1 else sentence)
        results += [replace(one, system=system, notices=(*notices, *one.notices)) for one in found]
    return results


def _behind(name: str, notices: list[str]) -> Callable[[str], None]:
    return lambda sentence: notices.append(f"{name}{sentence}")


def _of_library(
    names: Sequence[str],
    library: Path,
    sentences: Sequence[str],
    settings: AuditSettings,
    not_made: Callable[[str], None],
    *,
    searched: SearchedLibrary,
) -> list[AuditResult]:
    from evenreel.audits import AUDITS, AuditInputs
    from evenreel.cli.audit.library import audit_inputs, order_inputs
    from evenreel.library import open_library

    results = []
    with open_library(library) as opened:
        for (of_source, of_orders), some in groupby(names, lambda one: (AUDITS[one].of_source, AUDITS[one].of_orders)):
            asked = list(some)
            try:
                if of_orders:
                    corpus, scores = order_inputs(opened, sentences, searched.matcher(), seed=settings.seed)
                else:
                    corpus, scores = audit_inputs(opened, sentences, every_clip=not of_source)
            except CorpusError as error:
                for name in asked:
                    not_made(f"The audit {name} was not made. {error}")
            else:
                results += _audited(asked, Audited(scores, corpus, AuditInputs(), library.name), settings, not_made)
    return results


@dataclass(frozen=True, eq=False)
class Audited:
    """Scores to audit, with their corpus, other inputs, and the name that a progress bar shows."""

    scores: ScoreBlocks
    corpus: Corpus
    inputs: AuditInputs
    name: str


def _audited(
    names: Sequence[str], given: Audited, settings: AuditSettings, not_made: Callable[[str], None]
) -> list[AuditResult]:
    from evenreel.audits import audit as audit_scores
    from evenreel.evaluation.blocks import CheckedScores
    from evenreel.evaluation.measure import infinite_scores

    with share_bar(f"reading {given.name}") as progress:
        checked = CheckedScores(given.scores, progress)
        found = audit_scores(names, checked, given.corpus, settings, given.inputs, not_made=not_made)
    said = tuple(infinite_scores(checked))
    return [replace(one, notices=(*said, *one.notices)) for one in found] if said else found
