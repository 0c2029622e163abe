"""`evenreel corpus equalise`: every clip encoded anew in one form, so that form cannot tell a source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import (
    DAMAGED_SHARE,
    MEMORY_MIB,
    TIMEOUT_S,
    DamageOption,
    JsonOption,
    MemoryOption,
    ReadersOption,
    RetryOption,
    TimeoutOption,
    VideosOption,
    media_limits,
)

if TYPE_CHECKING:
    from evenreel.edits.equalise import EqualiseReport
    from evenreel.media.same_form import Fit

FIT_HELP = "Pictures of another shape: 'pad' keeps them whole with black bars, 'crop' fills the frame."


def equalise_corpus(
    folder: Annotated[Path, typer.Argument(metavar="CORPUS", help="Folder of the corpus.")],
    out: Annotated[Path, typer.Option(help="Folder of the new corpus and its clips.")],
    videos: VideosOption = None,
    fps: Annotated[
        float | None, typer.Option(help="Frames a second. \\[default: the lowest median of a group]")
    ] = None,
    height: Annotated[int | None, typer.Option(help="Of the picture, even. \\[default: likewise]")] = None,
    width: Annotated[
        int | None, typer.Option(help="Likewise. \\[default: by the shape of that group's pictures]")
    ] = None,
    duration: Annotated[
        float | None, typer.Option(help="Seconds of every clip. \\[default: the shortest of a clip and its mirrors]")
    ] = None,
    fit: Annotated[str, typer.Option(help=FIT_HELP)] = "pad",
    crf: Annotated[int, typer.Option(help="x264's constant rate factor, 0 to 51; a higher one is smaller.")] = 23,
    workers: ReadersOption = 0,
    timeout: TimeoutOption = TIMEOUT_S,
    memory: MemoryOption = MEMORY_MIB,
    max_damage: DamageOption = DAMAGED_SHARE,
    retry: RetryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give all clips one codec, rate, size and, within a pair, length. Exit status 3 if clips were set aside."""
    from evenreel.cli.waiting import share_bar
    from evenreel.corpus import load_corpus
    from evenreel.corpus.annotation import copy_class_names
    from evenreel.edits.common_form import EqualiseSettings
    from evenreel.edits.equalise import equalise

    settings = EqualiseSettings(
        videos=videos or folder,
        fps=fps,
        height=height,
        width=width,
        duration_s=duration,
        fit=cast("Fit", fit),
        crf=crf,
        workers=workers,
        limits=media_limits(timeout, memory, max_damage),
        retry=retry,
    )
    corpus = load_corpus(folder)
    with share_bar(f"encoding {corpus.clips.height:,} clips") as progress:
        report = equalise(corpus, out, settings, progress)
    copy_class_names(folder, out)
    _show(report, as_json)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _show(report: EqualiseReport, as_json: bool) -> None:
    from fractions import Fraction

    from evenreel.cli.show_library import console, list_clips_aside, print_json, safe
    from evenreel.wording import count

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
    if report.set_aside:
        out.print(
            f"[yellow]Set aside: {count(len(report.set_aside), 'clip')}[/] (tried again when changed, or with --retry)"
        )
    list_clips_aside(out, report.set_aside)
