"""What is asked of a file of scores before it is made, and said of it afterwards."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenreel.cli.show_library import WITHOUT, console, list_aside, print_json, safe
from evenreel.errors import OutputError, UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.features import SetAside

LARGE_BYTES = 2**30
SCORE_BYTES = 4
MANY = 10


@dataclass(frozen=True)
class Scored:
    """Contents of a file of scores.

    Attributes:
        captions: number of captions.
        clips: number of clips.
        set_aside: clips that were left out, with the reasons.
        notices: sentences on what a reader should know.
        uses: what went into the scores, see `evenreel.types.ScoreNotes.uses`.
        use: words before each of `uses` where it is shown.
    """

    captions: int
    clips: int
    set_aside: tuple[SetAside, ...] = ()
    notices: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    use: str = "the matcher was trained with"


def check_name(out: Path) -> None:
    """Check that scores can be saved as a file of this name.

    Raises:
        UsageError: its name ends neither in `.npz` nor in `.npy`.
    """
    if out.suffix not in (".npz", ".npy"):
        raise UsageError(f"{out} ends neither in .npz nor in .npy; give --out one of these names.")


def check_table(out: Path, scored: Scored) -> None:
    """Check, before hours are spent, that a table can be written, and say how large a large one will be.

    Raises:
        OutputError: the disk has no room for it.
        UsageError: its file names no ids, and some clips are left out.
    """
    if out.suffix == ".npy" and scored.set_aside:
        raise UsageError(
            f"The features leave {count(len(scored.set_aside), 'clip')} out that had been skipped, and an .npy does "
            "not say which clips it is about; give --out a name that ends in .npz."
        )
    needed, free = SCORE_BYTES * scored.captions * scored.clips, shutil.disk_usage(out.parent).free
    size = f"The scores of {scored.captions:,} captions and {scored.clips:,} clips take {needed / 2**30:.1f} GiB"
    if needed > free:
        raise OutputError(f"{size}, and {out.parent} has {free / 2**30:.1f} GiB left; choose another place.")
    if needed > LARGE_BYTES:
        typer.echo(f"{size} in {out}.", err=True)


def show_scored(out: Path, scored: Scored, as_json: bool) -> None:
    """Print what was written: captions, clips, what the scores use, and clips that were left out."""
    aside = scored.set_aside
    if as_json:
        result = {"scores": out, "captions": scored.captions, "clips": scored.clips}
        print_json(result | {"notices": scored.notices, "uses": scored.uses, "set_aside": aside})
        return
    terminal = console()
    written = f"Scored {count(scored.captions, 'caption')} with {count(scored.clips, 'clip')} each into"
    terminal.print(f"{written} {safe(out)}.")
    for use in scored.uses:
        terminal.print(f"  [yellow]{scored.use} {safe(use)}[/]: its scores say so, wherever they are shown")
    for notice in scored.notices:
        terminal.print(f"  note: {safe(notice)}")
    list_aside(aside, WITHOUT, ": evaluate with --partial.", MANY)
    if len(aside) > MANY:
        terminal.print(f"  and {len(aside) - MANY:,} more (--json lists them all)")
