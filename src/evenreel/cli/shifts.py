"""`evenreel shifts`: what twelve corruptions of videos cost a model, on the clips of any corpus."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import LICENCE_HELP, CorpusClips, JsonOption, from_settings
from evenreel.cli.progress import bars
from evenreel.cli.show_library import console, list_aside, print_json, safe, table_of
from evenreel.edits.settings import CorruptionSettings

if TYPE_CHECKING:
    from evenreel.evaluation import EvaluationSettings
    from evenreel.shifts.figures import ShiftReport

CHECKPOINT_HELP = "A matcher: a folder, a hub id, or mean_pool, which needs no training (zero-shot)."


@dataclass(frozen=True)
class ShiftFiles:
    """Where the corrupted clips go, and the page.

    Attributes:
        out: folder of a corpus for each corruption, with features and scores; what is there is kept.
        html: write a page with charts.
    """

    out: Path
    html: Path | None = None


@dataclass(frozen=True)
class ShiftTowers:
    """The encoder of a matcher that has no checkpoint.

    Attributes:
        model: for mean_pool: a hub id, a folder, or `builtin`; None for google/siglip2-base-patch16-224. A checkpoint
            has its own.
        device: where the model runs: auto, cpu, cuda, cuda:1, mps.
        accept_licence: accept the model's licence where that forbids commercial use.
    """

    model: str | None = None
    device: str = "auto"
    accept_licence: Annotated[bool, typer.Option("--accept-licence", help=LICENCE_HELP)] = False


def shifts(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    clips: CorpusClips = from_settings(CorpusClips),
    files: ShiftFiles = from_settings(ShiftFiles),
    corruptions: CorruptionSettings = from_settings(CorruptionSettings, leave_out=("videos",)),
    towers: ShiftTowers = from_settings(ShiftTowers),
    settings: EvaluationSettings = from_settings(
        "evenreel.evaluation:EvaluationSettings",
        leave_out=(
            *("metrics", "directions", "t2v_protocol", "v2t_protocol", "ties", "seed"),
            *("by", "partial", "band_bytes", "threads"),
        ),
    ),
    as_json: JsonOption = False,
) -> None:
    """Corrupt the clips of a corpus in twelve ways, and measure what a model finds among them.

    R@1 with intervals and what is lost, hubs, and what the hub memory adds. What is made is kept: a broken-off run goes
    on, and another strength adds to it. Exit status 3: clips were skipped.
    """
    from evenreel.encoders.loading import check_licence
    from evenreel.provenance import provenance_of
    from evenreel.report import write_page
    from evenreel.shifts.measuring import measure_shifts
    from evenreel.shifts.model import load_model
    from evenreel.shifts.page import shifts_page

    corpus = clips.load()
    if towers.model is not None:
        check_licence(towers.model, towers.accept_licence)
    with bars() as progress:
        progress.stage("loading the model")
        model = load_model(checkpoint, towers.model, towers.device)
        asked = replace(corruptions, videos=clips.place)
        report = measure_shifts(model, corpus, files.out, asked, settings, progress)
    if files.html:
        write_page(
            shifts_page(report), files.html, provenance_of({"checkpoint": [checkpoint], "corpus": [clips.folder]})
        )
    _show(report, as_json)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _show(report: ShiftReport, as_json: bool) -> None:
    from evenreel.report.words import percent
    from evenreel.shifts.page import NARROW, NARROW_CAPTION, narrow_cells, worst_sentence

    if as_json:
        print_json(report.to_json())
        return
    out = console()
    out.print(safe(worst_sentence(report)))
    for direction in dict.fromkeys(row.direction for row in report.rows):
        table = table_of(NARROW, direction)
        for row in report.rows:
            if row.direction == direction:
                table.add_row(*map(safe, narrow_cells(row, report.confidence)))
        out.print(table)
    out.print(f"[dim]{safe(NARROW_CAPTION.format(sure=percent(report.confidence)))}[/]")
    for notice in report.notices:
        out.print(f"[yellow]{safe(notice)}[/]")
    list_aside(report.set_aside, more=" (tried again the next time)")
    out.print(f"Each corruption has its clips, features and scores.npz in {safe(report.folder)}.")
