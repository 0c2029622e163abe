"""`evenreel audit`: whether a ranking favours clips for the wrong reason; of scores, or of a library and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluate.command import check_place, system_names
from evenreel.cli.options import JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, print_json, safe, table_of
from evenreel.cli.text_lines import lines_of
from evenreel.errors import CorpusError, UsageError
from evenreel.provenance import Provenance, provenance_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from evenreel.audits import AuditInputs, AuditSettings, TailClasses
    from evenreel.report import AuditResult, AuditTable
    from evenreel.report.result import Cell
    from evenreel.types import Corpus, ScoreBlocks

NAMES_HELP = "Audits, such as source; a wrong one lists them all."
TRAIN = "train"
MANY_ROWS = 40  # rows of a table in a terminal; the page and JSON have more
FEW_ROWS = 10  # rows of a table where the terminal is so narrow that every number takes a line


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
    from evenreel.report import write_page
    from evenreel.report.page import audit_page

    wanted = _checked(names or (), given, searched)
    tail = read_tail_classes(given.tail_classes) if given.tail_classes else None
    not_made: list[str] = []
    if report:
        check_place(report)
    if searched.library is not None:
        results = _of_library(wanted, searched.library, searched, settings, not_made.append)
    else:
        results = _of_scores(wanted, given, tail, settings, not_made.append)
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


def _checked(names: Sequence[str], given: ScoreFiles, searched: SearchedLibrary) -> Sequence[str]:
    """The names, if each is that of an audit and given once, and no option has no use for it."""
    from evenreel.audits import AUDITS, OF_EDITS

    there = ", ".join(AUDITS)
    if not names:
        raise UsageError(
            f"Name one audit or more: evenreel audit source --scores FILE --corpus DIR; there are: {there}."
        )
    if unknown := [name for name in names if name not in AUDITS]:
        raise UsageError(f"{unknown[0]!r} is no audit; there are: {there}.")
    if len(set(names)) < len(names):
        raise UsageError(f"The audit {max(names, key=names.count)} is named twice; name each once.")
    library, asked = searched.library is not None, [AUDITS[name] for name in names]
    of_edits = [name for name in names if name in OF_EDITS]
    needs_edits = bool(of_edits) and (bool(given.edited) or not AUDITS[of_edits[0]].without_edits)

    def reads(field: str) -> bool:
        return any(field in one.takes for one in asked)

    def readers(field: str) -> str:
        *others, last = (name for name, one in AUDITS.items() if field in one.takes)
        return f"{', '.join(others)} or {last}" if others else last

    for wrong, sentence in (
        (
            (given.train_split or given.tail_classes) and (library or not reads("train")),
            f"--train-split and --tail-classes go with the audit {readers('train')} of --scores; leave them out.",
        ),
        (
            len(of_edits) > 1,
            f"{' and '.join(of_edits)} hold scores against those of other edits, such as of clips or of captions; give "
            "each a command of its own.",
        ),
        (given.edited and not of_edits, f"--edited goes with the audit {readers('edited')}; leave it out."),
        (
            needs_edits and (library or not given.edited),
            f"The audit {' '.join(of_edits)} holds scores against those after an edit; give --scores FILE and --edited "
            "NAME=FILE.",
        ),
        (
            library == bool(given.scores),
            "Give either --scores FILE with --corpus DIR, or --library DIR with --queries FILE.",
        ),
        (
            library and (given.corpus or given.split),
            "--corpus and --split go with --scores; a library has its own clips, so leave them out.",
        ),
        (not library and searched.queries, "--queries goes with --library; leave it out."),
        (
            given.kinds and (library or not reads("kinds")),
            "--kinds goes with the audit order of --scores; leave it out.",
        ),
        (
            searched.rerank and not (library and all(one.of_orders for one in asked)),
            "--rerank goes with the audit order of --library alone; leave it out.",
        ),
        (library and searched.queries is None, "--library goes with --queries; give both."),
        (
            given.edited_corpus and not reads("edited_texts"),
            f"--edited-corpus goes with the audit {readers('edited_texts')}; leave it out.",
        ),
        (
            given.scores and given.corpus is None,
            "--scores goes with --corpus, a folder or table (clip_id, text, duration_s); give both.",
        ),
    ):
        if wrong:
            raise UsageError(sentence)
    return names


# Scores --------------------------------------------------------------------------------------------------------------


def _of_scores(
    names: Sequence[str],
    given: ScoreFiles,
    tail: TailClasses | None,
    settings: AuditSettings,
    not_made: Callable[[str], None],
) -> list[AuditResult]:
    from evenreel.audits import AuditInputs
    from evenreel.corpus import load_corpus
    from evenreel.evaluation import load_scores
    from evenreel.evaluation.scores import check_file

    folders = edited_folders(given.edited_corpus)
    systems = system_names(given.scores)
    edited = edited_files(given.edited, len(systems))
    for path in [*systems.values(), *(path for files in edited for path in files.values())]:
        check_file(path)
    assert given.corpus is not None  # it was checked
    whole, part, learned = _parts(given.corpus, given.split, given.train_split)
    texts = {name: load_corpus(folder) for name, folder in folders.items()}
    results = []
    for (system, path), files in zip(systems.items(), edited, strict=True):
        notices: list[str] = []
        read = partial(load_scores, corpus=part, partial=True, whole=whole)
        after = {}
        for name, file in files.items():
            said: list[str] = []
            after[name] = read(file, notice=said.append)
            notices += (f"{name}: {sentence}" for sentence in said)
        inputs = AuditInputs(train=learned, tail=tail, edited=after, edited_texts=texts, kinds=given.kinds)
        lacking: list[str] = []
        found = _audited(names, read(path, notice=notices.append), part, inputs, path.name, settings, lacking.append)
        for sentence in lacking:
            not_made(f"{system}: {sentence}" if len(systems) > 1 else sentence)
        results += [replace(one, system=system, notices=(*notices, *one.notices)) for one in found]
    return results


def _parts(folder: Path, split: str | None, train_split: str | None) -> tuple[Corpus, Corpus, Corpus | None]:
    """The corpus, its scored clips, and its training clips; None for these where no split is known for them."""
    from evenreel.corpus import load_corpus, select

    if split is not None and split == train_split:
        raise UsageError(f"--split and --train-split both name {split!r}; a system is tested on other clips.")
    whole = load_corpus(folder)
    scored = whole if split is None else select(whole, split=split)
    if train_split is None and split != TRAIN and TRAIN in whole.clips["split"]:
        train_split = TRAIN
    return whole, scored, None if train_split is None else select(whole, split=train_split)


def edited_files(words: Sequence[str], systems: int) -> list[dict[str, Path]]:
    """Return the files of edited scores, `NAME=FILE`, by the name of the edit, of each system."""
    files = _by_edit("--edited", words, "NAME=FILE, such as background-swapped=bg.npz")
    for name, given in files.items():
        if len(given) != systems:
            raise UsageError(
                f"--edited {name}=FILE is given {len(given)} times and --scores {systems} times; give it once for each "
                "of these, in their order."
            )
    return [{name: given[number] for name, given in files.items()} for number in range(systems)]


def edited_folders(words: Sequence[str]) -> dict[str, Path]:
    """Return the folders of corpora with edited captions, `NAME=DIR`, by the name of the edit."""
    folders = _by_edit("--edited-corpus", words, "NAME=DIR, such as role-swapped=swapped")
    for name, given in folders.items():
        if len(given) > 1:
            raise UsageError(f"--edited-corpus names {name!r} twice; name each edit once.")
    return {name: folder for name, (folder,) in folders.items()}


def _by_edit(option: str, words: Sequence[str], form: str) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for word in words:
        name, sign, path = word.partition("=")
        if not (name.strip() and sign and path):
            raise UsageError(f"{option} {word!r} is not of the form {form}.")
        found.setdefault(name.strip(), []).append(Path(path))
    return found


# A library -----------------------------------------------------------------------------------------------------------


def _of_library(
    names: Sequence[str],
    library: Path,
    searched: SearchedLibrary,
    settings: AuditSettings,
    not_made: Callable[[str], None],
) -> list[AuditResult]:
    from evenreel.audits import AUDITS, AuditInputs
    from evenreel.cli.audit.library import audit_inputs, order_inputs
    from evenreel.library import open_library

    assert searched.queries is not None  # it was checked
    sentences, results = lines_of(searched.queries, "sentence"), []
    with open_library(library) as opened:
        for (of_source, of_orders), some in groupby(names, lambda one: (AUDITS[one].of_source, AUDITS[one].of_orders)):
            asked = list(some)
            try:
                if of_orders:
                    from evenreel.checkpoint import load_matcher

                    matcher = load_matcher(searched.rerank) if searched.rerank else None
                    corpus, scores = order_inputs(opened, sentences, matcher, seed=settings.seed)
                else:
                    corpus, scores = audit_inputs(opened, sentences, every_clip=not of_source)
            except CorpusError as error:
                for name in asked:
                    not_made(f"The audit {name} was not made. {error}")
            else:
                results += _audited(asked, scores, corpus, AuditInputs(), library.name, settings, not_made)
    return results


def _audited(
    names: Sequence[str],
    scores: ScoreBlocks,
    corpus: Corpus,
    inputs: AuditInputs,
    shown: str,
    settings: AuditSettings,
    not_made: Callable[[str], None],
) -> list[AuditResult]:
    from evenreel.audits import audit as audit_scores
    from evenreel.evaluation.measure import infinite_scores
    from evenreel.evaluation.ranking import CheckedScores

    with share_bar(f"reading {shown}") as progress:
        checked = CheckedScores(scores, progress)
        found = audit_scores(names, checked, corpus, settings, inputs, not_made=not_made)
    said = tuple(infinite_scores(checked))
    return [replace(one, notices=(*said, *one.notices)) for one in found]


# What is printed -----------------------------------------------------------------------------------------------------


def show_audits(
    results: Sequence[AuditResult],
    report: Path | None,
    as_json: bool,
    not_made: Sequence[str] = (),
    made: Provenance | None = None,
) -> None:
    """Print the results of all systems, which audits could not be made and why, and where the page is."""
    from evenreel.report.page import notices_of
    from evenreel.report.result import effect_words

    if as_json:
        found = {"audits": [result.to_json() for result in results], "not_made": list(not_made)}
        print_json(found | {"report": report, "provenance": made.to_json() if made else None})
        return
    out = console()
    for sentence in [*not_made, *(notices_of(results) if len(results) > 1 else ())]:
        out.print(f"[yellow]{safe(sentence)}[/]")
    for result in results:
        out.print(f"[bold]{safe(f'{result.system}: ' if result.system else '')}{safe(result.title)}[/]")
        out.print(safe(result.sentence))
        out.print(f"[dim]{safe(effect_words(result))}[/]")
        for sentence in notices_of([result]) if len(results) == 1 else ():
            out.print(f"[yellow]{safe(sentence)}[/]")
        for table in result.tables:
            out.print(f"\n[bold]{safe(table.title)}[/]")
            shown = replace(table, rows=table.rows[: _most_rows(out, table)])
            _show_rows(out, shown)
            if more := len(table.rows) - len(shown.rows):
                out.print(f"  and {more:,} more rows (--json lists them all)")
            if table.note:
                out.print(f"[dim]{safe(table.note)}[/]")
        out.print()
    if report:
        out.print(f"The page with figures and how it was calculated: {safe(report)}")


def _show_rows(out: Console, table: AuditTable) -> None:
    """One table where the terminal is wide enough; else one for each word of the first column, or lines."""
    if _fits(out, table):
        out.print(_drawn(table))
    elif table.words > 1:
        for word, rows in groupby(table.rows, itemgetter(0)):
            out.print(f"[bold dim]{safe(word)}[/]")
            _show_rows(out, _without_first(table, rows))
    else:
        widest = max(len(column) for column in table.columns)
        for word, *numbers in table.texts():
            out.print(f"  {safe(word)}")
            for column, value in zip(table.columns[1:], numbers, strict=True):
                out.print(f"    {safe(f'{column:<{widest}}')}  {safe(value)}")


def _most_rows(out: Console, table: AuditTable) -> int:
    if _fits(out, table):
        return MANY_ROWS
    return _most_rows(out, _without_first(table, table.rows)) if table.words > 1 else FEW_ROWS


def _without_first(table: AuditTable, rows: Iterable[tuple[Cell, ...]]) -> AuditTable:
    return replace(table, columns=table.columns[1:], rows=tuple(row[1:] for row in rows))


def _fits(out: Console, table: AuditTable) -> bool:
    from rich.measure import Measurement

    return Measurement.get(out, out.options.update(max_width=10_000), _drawn(table)).maximum <= out.width


def _drawn(table: AuditTable) -> Table:
    drawn = table_of(table.columns, words=table.words)
    for row in table.texts():
        drawn.add_row(*map(safe, row))
    return drawn
