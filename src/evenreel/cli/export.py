"""`evenreel export`: what a search found, or a stretch of a clip, as cuts, lists for editors, tables, subtitles."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import CacheOption, DeviceOption, JsonOption, PlaceOption
from evenreel.cli.progress import share_bar
from evenreel.cli.publish import fetched
from evenreel.cli.search import as_utf8
from evenreel.cli.show_library import console, print_json, safe
from evenreel.config import OptionForm, default_library
from evenreel.errors import NotFoundError, UsageError
from evenreel.wording import count, seconds_of

if TYPE_CHECKING:
    from evenreel.handover import HandoverSettings
    from evenreel.handover.picks import HandoverReport, Pick
    from evenreel.library import Library

USAGE = (
    "Give a query in quotes, what `evenreel search --json` printed (a .json file, or - for standard input), or "
    "CLIP START END, such as tram.mp4 0:15 0:22.5."
)
LARGEST_DOCUMENT = 64 * 2**20


@dataclass(frozen=True)
class WantedStretches:
    """Which stretches of a search are taken away.

    Attributes:
        k: how many clips at most.
        where: filter, for example "source = 'camera' and duration_s < 60".
        vision: False searches by words alone and loads no model.
        every_moment: take all moments of a clip, not its best alone.
        others: take the weaker matches too.
    """

    k: Annotated[int, OptionForm("-k")] = 10
    where: Annotated[str | None, typer.Option(callback=as_utf8)] = None
    vision: bool = True
    every_moment: bool = False
    others: Annotated[bool, OptionForm("--all")] = False


def export(
    what: Annotated[list[str], typer.Argument(metavar="WHAT...", help=USAGE)],
    settings: HandoverSettings = from_settings("evenreel.handover:HandoverSettings"),
    wanted: WantedStretches = from_settings(WantedStretches),
    out: Annotated[Path, typer.Option(help="Folder to write to; nothing in it is replaced.")] = Path(),
    library: PlaceOption = None,
    device: DeviceOption = "auto",
    snapshot_cache: CacheOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take found stretches away: cuts, lists for editors, tables, subtitles, a sheet of stills."""
    from evenreel.handover.taking import take_away
    from evenreel.library import open_library

    document = _document(what)
    place = fetched(library or default_library(), snapshot_cache)
    searching = len(what) == 1 and document is None
    with open_library(place, device=device, vision=searching and wanted.vision) as opened:
        title, picks = _picked(opened, what, document, wanted)
        with share_bar("cutting" if "clip" in settings.forms else "writing") as progress:
            report = take_away(opened, picks, out, title, settings, progress)
    _show(report, out, as_json)
    if not report.files:
        raise typer.Exit(1)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _document(what: list[str]) -> dict[str, Any] | None:
    """The JSON that the argument names; None where it names none."""
    if len(what) != 1 or not (what[0] == "-" or (what[0].lower().endswith(".json") and Path(what[0]).is_file())):
        return None
    from evenreel.documents import parse_json

    try:
        if what[0] == "-":
            held = sys.stdin.buffer.read(LARGEST_DOCUMENT + 1)
        else:
            with Path(what[0]).open("rb") as file:
                held = file.read(LARGEST_DOCUMENT + 1)
        if len(held) > LARGEST_DOCUMENT:
            raise UsageError(f"{what[0]} is larger than {LARGEST_DOCUMENT >> 20} MiB, the limit; ask for fewer clips.")
        document = parse_json(held.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{what[0]} cannot be read ({(error.strerror or str(error)).lower()}).") from error
    except ValueError as error:
        raise UsageError(f"{what[0]} is no JSON ({error}); give what `evenreel search --json` prints.") from error
    if not isinstance(document, dict):
        raise UsageError(f"{what[0]} holds no result of a search; give what `evenreel search --json` prints.")
    return document


def _picked(
    library: Library, what: list[str], document: dict[str, Any] | None, wanted: WantedStretches
) -> tuple[str, list[Pick]]:
    """The title of lists, and the stretches."""
    from evenreel.handover.picks import Pick, picks_of, stretches_of

    if document is not None:
        if "stretches" in document:
            return str(document.get("title") or "stretches"), stretches_of(document)
        query, found = str(document.get("query") or "stretches"), document
    elif len(what) == 3:
        times_s = (_seconds(text) for text in what[1:])
        return PurePath(what[0]).stem, [
            Pick(library.clip_named(what[0]), next(times_s), next(times_s), path=os.path.abspath(what[0]))
        ]
    elif len(what) == 1:
        query = as_utf8(what[0]) or ""
        found = library.search(query, wanted.k, wanted.where).to_json()
    else:
        raise UsageError(USAGE)
    picks = picks_of(found, every_moment=wanted.every_moment, others=wanted.others)
    if not picks:
        raise NotFoundError(f"Nothing fits {query[:200]!r}; --all takes weaker matches too.")
    return query, picks


def _seconds(text: str) -> float:
    found = seconds_of(text)
    if found is None:
        raise UsageError(f"{text[:40]!r} is no time; write seconds (75.5), 1:15.5 or 1:02:03. {USAGE}")
    return found


def _show(report: HandoverReport, out: Path, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json() | {"out": out})
        return
    shown = console()
    if report.files:
        shown.print(f"Wrote {count(len(report.files), 'file')} to {safe(out)}:")
    for path in report.files:
        shown.print(f"  {safe(path.name)}")
    for name, sentence in report.notes:
        shown.print(f"  [dim]{safe(name)} {safe(sentence)}[/]")
    if report.set_aside:
        shown.print(f"[yellow]Not taken: {len(report.set_aside)}{'' if report.files else '; nothing was written'}[/]")
    for one in report.set_aside:
        shown.print(f"  {safe(one.path)}: {safe(one.sentence)}")
