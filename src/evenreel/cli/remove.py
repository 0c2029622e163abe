"""`evenreel remove`: a library forgets folders or single videos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli.options import JsonOption, LibraryOption
from evenreel.cli.show_library import console, print_json, safe
from evenreel.config import default_library
from evenreel.wording import count, printable

if TYPE_CHECKING:
    from evenreel.library import RemoveReport


def remove(
    places: Annotated[list[Path], typer.Argument(help="Folders or videos to forget, there or not.")],
    library: LibraryOption = None,
    ignore: Annotated[
        bool, typer.Option("--ignore", help="Pass over them from now on, where an indexed folder holds them.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be forgotten.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Forget the clips of folders or single videos; the files on the disk stay as they are."""
    from evenreel.library import remove_from_library

    _show(remove_from_library(library or default_library(), places, ignore=ignore, dry_run=dry_run), as_json)


def _show(report: RemoveReport, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    out, done = console(), "Forgot" if report.removed else "Would forget"
    files = f"{count(report.files, 'file')} ({count(report.clips, 'clip')})"
    stays = "the files on the disk stay" if report.removed else "nothing was changed"
    out.print(f"{done} {files} of {safe(report.library)}; {stays}.")
    for source in report.sources:
        out.print(f"  {safe(source)} is no longer indexed")
    for pattern in report.ignored:
        out.print(f"  passed over from now on: {printable(pattern)}", markup=False)
    for root in report.found_again:
        out.print(f"  [yellow]evenreel index {safe(root)} finds them again[/]; --ignore passes over them from now on")
