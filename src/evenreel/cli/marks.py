"""What a person keeps: favourites and notes (`evenreel mark`) and searches (`evenreel saved ...`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli.options import DeviceOption, JsonOption, LibraryOption
from evenreel.cli.show_library import clock, console, print_json, safe, show_result
from evenreel.config import default_library
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.library.personal import PlacedMark, SavedResult, SavedSearch

NameArgument = Annotated[str, typer.Argument(help="Name of the saved search.")]
WhereOption = Annotated[
    str | None, typer.Option("--where", help="Filter, for example \"source = 'camera' and duration_s < 60\".")
]
GONE = {"replaced": "the file has another content than when it was marked", "gone": "its file is gone"}


def mark(
    clip: Annotated[
        str | None, typer.Argument(help="Path of a video, or id of a clip as search prints it with --json.")
    ] = None,
    at: Annotated[float | None, typer.Option("--at", help="The moment, in seconds; the whole clip without it.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="Write a note; an empty one deletes it.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="It is no favourite any more; its note stays.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a clip, or a moment of it, a favourite, or write a note to it; without one, list favourites and notes."""
    from evenreel.library import open_library

    with open_library(library or default_library(), vision=False) as opened:
        if clip is not None:
            favourite = False if remove else None if note is not None else True
            opened.personal.mark(clip, at, favourite=favourite, note=note)
        elif remove or at is not None or note is not None:
            raise UsageError('Name the clip: evenreel mark CLIP --note "the bridge at dawn".')
        _show_marks(opened.personal.marks(), as_json)


def saved_add(
    query: Annotated[str, typer.Argument(help="What is looked for, as in evenreel search.")],
    name: Annotated[str | None, typer.Option("--name", help="Its name; the query without one.")] = None,
    where: WhereOption = None,
    library: LibraryOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Save a search; what it finds now counts as seen."""
    from evenreel.library import open_library

    with open_library(library or default_library(), device=device) as opened:
        saved = opened.personal.save_search(query, where, name)
    if as_json:
        print_json(_plain(saved))
        return
    console().print(f"Saved {safe(saved.name)}; {count(len(saved.seen), 'clip')} found now.")


def saved_list(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """List the saved searches."""
    from evenreel.library import open_library

    with open_library(library or default_library(), vision=False) as opened:
        searches = opened.personal.searches()
    if as_json:
        print_json([_plain(one) for one in searches])
        return
    out = console()
    for one in searches:
        named = "" if one.name == one.query else f": {safe(one.query)}"
        where = f"  where {safe(one.where)}" if one.where else ""
        out.print(f"[bold]{safe(one.name)}[/]{named}{where}  [dim]looked at {safe(one.looked)}[/]")
    if not searches:
        out.print('No search is saved; save one with: evenreel saved add "a red bus".')


def saved_run(
    name: NameArgument,
    keep: Annotated[bool, typer.Option("--keep", help="Leave what is new as new.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show all that it finds, not only what is new.")] = False,
    library: LibraryOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Run a saved search and show what is new since it was last run."""
    from evenreel.library import open_library

    with open_library(library or default_library(), device=device) as opened:
        found = opened.personal.run_search(name, keep=keep)
    _show_news(found, as_json, everything=everything)


def saved_remove(name: NameArgument, library: LibraryOption = None) -> None:
    """Delete a saved search."""
    from evenreel.library import open_library

    with open_library(library or default_library(), vision=False) as opened:
        opened.personal.remove_search(name)
    console().print(f"Removed {safe(name)}.")


def _show_marks(marks: tuple[PlacedMark, ...], as_json: bool) -> None:
    if as_json:
        print_json(list(marks))
        return
    out = console()
    for one in marks:
        at = "" if one.mark.time_s is None else f"  at {clock(one.mark.time_s)}"
        star = "[yellow]*[/] " if one.mark.favourite else "  "
        why = f"  [dim]({GONE[one.state]})[/]" if one.state in GONE else ""
        out.print(f"{star}[bold]{safe(one.path)}[/]{at}{why}")
        for line in one.mark.note.splitlines():
            out.print(f"      {safe(line)}")
    if not marks:
        out.print("There are no favourites and no notes; make one with: evenreel mark VIDEO.")


def _show_news(found: SavedResult, as_json: bool, *, everything: bool) -> None:
    from dataclasses import replace

    shown = found.result if everything else replace(found.result, hits=found.new)
    if as_json:
        print_json({"name": found.saved.name, "new": [hit.clip_id for hit in found.new], "result": shown.to_json()})
        return
    since = f" since {found.saved.looked}" if found.saved.looked else ""
    console().print(f"{safe(found.saved.name)}: {len(found.new)} new{safe(since)}.")
    if shown.hits:
        show_result(shown, as_json, others=False)


def _plain(saved: SavedSearch) -> dict[str, object]:
    return {"name": saved.name, "query": saved.query, "where": saved.where, "looked": saved.looked}
