"""`evenreel elements --library`: what the clips of a library show, to be read on results and filtered by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, print_json, safe
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.language.scene_dictionary import SceneDictionary
    from evenreel.library import TagReport


def check_library_alone(given: Sequence[str]) -> None:
    """Check that no option of the elements of a corpus is given with a library; `given` are their names.

    Raises:
        UsageError: such an option is given.
    """
    if given:
        raise UsageError(
            "--library finds what the clips of a library show, by the library's own model, and takes no "
            f"{' and no '.join(given)}. To look for what captions name, make a dictionary of the corpus first, and "
            "give it with --dictionary."
        )


def check_forget(library: Path | None, sources: Sequence[str]) -> None:
    """Check that a library is named whose elements are to be forgotten, and no source of phrases.

    Raises:
        UsageError: no library is named, or phrases are.
    """
    if library is None:
        raise UsageError("--forget is about the elements of a library; name it with --library.")
    if sources:
        raise UsageError(f"--forget looks for no phrases, and {sources[0]} names some; leave one of them out.")


def tell_library(library: Path, dictionary: SceneDictionary | None, device: str, as_json: bool) -> None:
    """Find which phrases of a scene dictionary every clip of a library shows, store them, and print a summary.

    Args:
        library: folder of the library.
        dictionary: dictionary with the phrases; None to remove the library's present one and the phrases of its clips.
        device: device the model runs on.
        as_json: print JSON in place of text.
    """
    from evenreel.library import tag_library, untag_library

    report = None
    if dictionary is None:
        untag_library(library)
    else:
        with share_bar("reading the phrases") as progress:
            report = tag_library(library, dictionary, device=device, progress=progress)
    if as_json:
        print_json((report.to_json() if report else {}) | {"library": library})
    elif report:
        _show(report, library)
    else:
        console().print(f"{safe(library)} has no scene elements any more.")


def _show(report: TagReport, library: Path) -> None:
    out = console()
    out.print(
        f"{report.tagged:,} of {report.clips:,} clips of {safe(library)} show something that the dictionary names:"
        f" {report.elements:,} scene elements."
    )
    out.print(f"  dictionary: {report.entities:,} entities, {report.activities:,} activities; {safe(report.source)}")
    for kind, phrases in (("entities", report.entities), ("activities", report.activities)):
        if not phrases:
            out.print(f"  [yellow]no clip shows {kind}: the dictionary has none[/]")
    if report.often:
        out.print(f"  most often: {', '.join(f'{safe(phrase)} ({clips:,})' for phrase, clips in report.often)}")
        first = report.often[0][0].replace("'", "''")
        out.print(f"  filter by them: evenreel search QUERY --where \"element = '{safe(first)}'\"")
