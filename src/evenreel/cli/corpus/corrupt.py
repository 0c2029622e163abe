"""`evenreel corpus corrupt`: clips that got worse in known ways, for measuring what that costs a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import CorpusClips, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, list_aside, print_json, safe
from evenreel.edits.corruptions.settings import CorruptionSettings
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.edits.corruptions.writing import CorruptionReport


def corrupt_corpus(
    out: Annotated[Path, typer.Option(help="Folder of the new corpora, each in a folder such as fog-3.")],
    clips: CorpusClips = from_settings(CorpusClips),
    settings: CorruptionSettings = from_settings(CorruptionSettings, leave_out=("videos",)),
    as_json: JsonOption = False,
) -> None:
    """Corrupt every clip in several ways, a corpus each; ids and captions stay. Exit status 3: some were skipped."""
    from evenreel.corpus.annotation import copy_class_names
    from evenreel.edits.corruptions.writing import corrupt_clips

    corpus = clips.load()
    with share_bar(f"corrupting {corpus.clips.height:,} clips") as progress:
        report = corrupt_clips(corpus, out, replace(settings, videos=clips.place), progress)
    for one in report.corpora:
        copy_class_names(clips.folder, Path(one.folder))
    _show(report, as_json)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _show(report: CorruptionReport, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    out = console()
    for one in report.corpora:
        there = f", {one.clips - one.written:,} there already" if one.written < one.clips else ""
        out.print(f"Wrote {safe(one.folder)}: {count(one.written, 'clip')}{there}.")
    out.print(f"  in {report.seconds:.1f} s")
    list_aside(report.set_aside, more=" (tried again the next time)")
