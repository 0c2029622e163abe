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
    from evenreel.evaluation import EvaluationSettings, Interval
    from evenreel.shifts import ShiftReport

CAPTION = (
    "In brackets {sure} intervals. lost: points of R@1 below clips that are only encoded the same way; a star: not by "
    "chance (paired test, Holm). hubs: skewness of how often each item is among the first 10. memory: points of R@1 "
    "that the hub memory adds, with queries in the corpus's order."
)
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
    from evenreel.shifts import load_model, measure_shifts, shifts_page

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
    if as_json:
        print_json(report.to_json())
    else:
        _show(report)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _show(report: ShiftReport) -> None:
    from evenreel.report.words import percent
    from evenreel.shifts import worst_sentence

    out = console()
    out.print(safe(worst_sentence(report)))
    for direction, rows in report.by_direction().items():
        table = table_of(("corruption", "R@1", "lost", "hubs", "memory"), direction)
        for row in rows:
            star = "*" if row.p is not None and row.p <= 1 - report.confidence else ""
            table.add_row(
                f"{row.kind} {row.strength or ''}".rstrip(),
                _ends(row.found),
                "" if row.lost is None else _ends(row.lost, star),
                "" if row.skewness is None else f"{row.skewness:.1f}",
                "" if row.regained is None else f"{row.regained.value:+.1f}",
            )
        out.print(table)
    out.print(f"[dim]{safe(CAPTION.format(sure=percent(report.confidence)))}[/]")
    for notice in report.notices:
        out.print(f"[yellow]{safe(notice)}[/]")
    list_aside(report.set_aside, more=" (tried again the next time)")
    out.print(f"Each corruption has its clips, features and scores.npz in {safe(report.folder)}.")


def _ends(figure: Interval, mark: str = "") -> str:
    ends = "" if figure.low is None or figure.high is None else f" [{figure.low:.1f}, {figure.high:.1f}]"
    return safe(f"{figure.value + 0.0:.1f}{mark}{ends}")
