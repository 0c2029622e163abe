"""`evenreel corpus import` and `evenreel corpus info`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import JsonOption
from evenreel.cli.show_library import console, print_json, safe
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenreel.corpus.imported import Imported, Notice
    from evenreel.corpus.summary import CorpusSummary, SplitCounts, ValueRange

MANY_GROUPS = 12
CORPUS_FILES = ("clips.parquet", "captions.parquet", "texts.parquet", "classes.parquet")


def import_corpus(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="For example msrvtt-1ka, msvd, table; a wrong one lists them all.")
    ],
    paths: Annotated[list[Path], typer.Argument(help="Files of the benchmark, or folders that they are in.")],
    out: Annotated[Path, typer.Option(help="Folder that the corpus is written to.")],
    split: Annotated[list[str] | None, typer.Option(help="Keep this split alone; may be given again.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Read a benchmark's official files, and say what is missing or left out. Exit status 3 if anything is."""
    from evenreel.corpus import FORMATS, save_corpus, save_texts
    from evenreel.corpus.annotation import drop_class_names

    if format_name not in FORMATS:
        raise UsageError(f"There is no format {format_name!r}; there are: {', '.join(FORMATS)}.")
    done = FORMATS[format_name](paths)
    if split:
        done = _only(done, split)
    done = replace(done, notices=(*done.notices, *written_over(out)))
    save_corpus(done.corpus, out)
    save_texts(done.texts, out)
    drop_class_names(out)
    _show_import(done, out, as_json)
    if any(notice.left_out for notice in done.notices):
        raise typer.Exit(EXIT_SET_ASIDE)


def info_corpus(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the corpus.")], as_json: JsonOption = False
) -> None:
    """Say what a corpus holds: clips and captions of each split, lengths, sources, domains, classes."""
    from evenreel.corpus import load_corpus, load_texts
    from evenreel.corpus.summary import summarise

    summary = summarise(load_corpus(folder), load_texts(folder))
    _show_info(summary, folder, as_json)


def _only(done: Imported, splits: Sequence[str]) -> Imported:
    """The import cut to some splits."""
    import polars as pl

    from evenreel.corpus import Imported, select

    for one in splits:  # each must be there; a misspelt one is an error, not an empty part
        select(done.corpus, split=one)
    corpus = select(done.corpus, where=pl.col("split").is_in(splits))
    kept = pl.col("clip_id").is_in(corpus.clips["clip_id"].implode())
    notices = tuple(notice for notice in done.notices if notice.split is None or notice.split in splits)
    return Imported(corpus, notices, None if done.texts is None else done.texts.filter(kept))


def written_over(out: Path) -> tuple[Notice, ...]:
    """Return a notice that names the files of an earlier corpus in a folder, which a new one replaces; or none."""
    from evenreel.corpus import Notice

    there = sorted(name for name in CORPUS_FILES if (out / name).is_file())
    return (Notice(f"What was in {out} is replaced: {', '.join(there)}."),) if there else ()


def _show_import(done: Imported, out: Path, as_json: bool) -> None:
    from evenreel.corpus.summary import split_counts

    splits = split_counts(done.corpus)
    texts = None if done.texts is None else done.texts.height
    if as_json:
        corpus = {"corpus": out, "clips": done.corpus.clips.height, "captions": done.corpus.captions.height}
        print_json(corpus | {"texts": texts, "splits": splits, "notices": done.notices})
        return
    _show_counts(f"Wrote {safe(out)}", done.corpus.clips.height, done.corpus.captions.height, texts)
    _show_splits(splits)
    show_notices(done.notices)


def show_notices(notices: Sequence[Notice]) -> None:
    """Print the notices of an import, a line each: what was left out, and what else is to be known."""
    for notice in notices:
        mark = "[yellow]left out:[/] " if notice.left_out else "note: "
        console().print(f"  {mark}{safe(notice.sentence)}")


def _show_info(summary: CorpusSummary, folder: Path, as_json: bool) -> None:
    if as_json:
        print_json({"corpus": folder} | summary.to_json())
        return
    _show_counts(safe(folder), summary.clips, summary.captions, summary.texts)
    _show_splits(summary.splits)
    for name, spread in (
        ("captions a clip", summary.captions_a_clip),
        ("length in seconds", summary.length_s),
        ("frames", summary.frame_count),
    ):
        if spread:
            console().print(f"  {name}: {_range(spread, summary.clips)}")
    _show_groups("source", summary.sources)
    _show_groups("domain", summary.domains)
    console().print(f"  classes: {summary.verb_classes:,} of verbs, {summary.noun_classes:,} of nouns")
    for table, names in summary.own_columns.items():
        if names:
            console().print(f"  more columns of {table}: {safe(', '.join(names))}")


def _show_counts(place: str, clips: int, captions: int, texts: int | None) -> None:
    words = "" if texts is None else f", {count(texts, 'sign')} on screen"
    console().print(f"{place}: {count(clips, 'clip')}, {count(captions, 'caption')}{words}")


def _show_splits(splits: Mapping[str, SplitCounts]) -> None:
    for name, counts in splits.items():
        console().print(f"  {safe(name)}: {count(counts.clips, 'clip')}, {count(counts.captions, 'caption')}")


def _show_groups(name: str, groups: Mapping[str, int]) -> None:
    from evenreel.corpus.summary import UNASSIGNED

    if set(groups) == {UNASSIGNED}:
        return
    shown = ", ".join(f"{safe(group)} {clips:,}" for group, clips in list(groups.items())[:MANY_GROUPS])
    more = f", and {len(groups) - MANY_GROUPS:,} more" if len(groups) > MANY_GROUPS else ""
    console().print(f"  {name}: {shown}{more}")


def _range(spread: ValueRange, clips: int) -> str:
    known = "" if spread.known == clips else f" (known of {spread.known:,} of {clips:,} clips)"
    return f"{spread.least:,.6g} to {spread.greatest:,.6g}, median {spread.median:,.6g}{known}"
