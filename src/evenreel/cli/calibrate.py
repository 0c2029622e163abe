"""`evenreel calibrate`: probabilities of answers for a model, from clips whose captions are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenreel.cli.options import DeviceOption, JsonOption, LibraryOption
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, print_json, safe
from evenreel.config import default_library

LABELLED_HELP = (
    "Library whose clips have a caption in their metadata, indexed with the model of --library.  "
    "\\[default: that library itself]"
)


def calibrate(
    labelled: Annotated[Path | None, typer.Argument(metavar="LABELLED", help=LABELLED_HELP)] = None,
    library: LibraryOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Fit how likely an answer is right, on clips whose captions are known, and keep that in a library."""
    from evenreel.library import calibrate_library, open_library

    place = library or default_library()
    with open_library(labelled or place, device=device) as opened, share_bar("drawing libraries") as progress:
        found = calibrate_library(opened, place, progress=progress)
    sizes = found.sizes
    if as_json:
        print_json({
            "library": place, "model": found.encoder_id, "fitted_on": found.fitted_on, "date": found.date,
            "fewest_clips": sizes[0], "most_clips": found.most_clips, "phrases": len(found.phrases),
        })  # fmt: skip
        return
    console().print(
        f"Searches of {safe(place)} now say how likely an answer is: fitted for {safe(found.encoder_id)} on "
        f"{found.fitted_on}. It holds for searches among {sizes[0]:,} to {found.most_clips:,} clips."
    )
