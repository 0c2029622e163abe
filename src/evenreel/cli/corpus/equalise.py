"""`evenreel corpus equalise`: every clip encoded anew in one form, so that form cannot tell a source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import CorpusClips, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import AGAIN, console, list_aside, print_json, safe
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.edits.equalise import EqualiseReport
    from evenreel.edits.settings import EqualiseSettings


def equalise_corpus(
    out: Annotated[Path, typer.Option(help="Folder of the new corpus and its clips.")],
    clips: CorpusClips = from_settings(CorpusClips, leave_out=("split",)),
    settings: EqualiseSettings = from_settings(
        "evenreel.edits.settings:EqualiseSettings", leave_out=("videos",), fit=Annotated[str, typer.Option()]
    ),
    as_json: JsonOption = False,
) -> None:
    """Give all clips one codec, rate, size and, within a pair, length. Exit status 3 if clips were skipped."""
    from evenreel.corpus.annotation import copy_class_names
    from evenreel.edits.equalise import equalise

    corpus = clips.load()
    with share_bar(f"encoding {corpus.clips.height:,} clips") as progress:
        report = equalise(corpus, out, replace(settings, videos=clips.place), progress)
    copy_class_names(clips.folder, out)
    _show(report, as_json)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _show(report: EqualiseReport, as_json: bool) -> None:
    from fractions import Fraction

    if as_json:
        print_json(report.to_json())
        return
    out, form = console(), report.form
    done = f"{count(report.encoded, 'clip')} encoded in {report.seconds:.1f} s"
    there = f", {report.unchanged:,} there already" if report.unchanged else ""
    out.print(f"Wrote {safe(report.folder)}: {done}{there}.")
    rate = float(Fraction(form["fps"]))
    out.print(f"  H.264, {rate:.4g} frames a second, {form['width']} x {form['height']} ({form['fit']})")
    for notice in report.notices:
        out.print(f"[yellow]{safe(notice)}[/]")
    list_aside(report.set_aside, more=AGAIN)
