"""What a person keeps: favourites and notes (`evenreel mark`), searches (`saved ...`) and names (`people`)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli.options import DeviceOption, JsonOption, LibraryOption
from evenreel.cli.show_library import clock, console, print_json, safe, show_result, table_of
from evenreel.config import default_library
from evenreel.errors import OutputError, UsageError
from evenreel.wording import count, seconds_of

if TYPE_CHECKING:
    from evenreel.library.people import Person
    from evenreel.library.personal import SavedSearch

NameArgument = Annotated[str, typer.Argument(help="Name of the saved search.")]
WhereOption = Annotated[
    str | None, typer.Option("--where", help="Filter, for example \"source = 'camera' and duration_s < 60\".")
]
GONE = {"replaced": "the file has another content than when it was marked", "gone": "its file is gone"}


def mark(
    clip: Annotated[
        str | None, typer.Argument(help="Name or path of a video, or id of a clip as search --json prints it.")
    ] = None,
    at: Annotated[str | None, typer.Option("--at", help="Time of the moment, such as 75.5 or 1:15.5.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="Write a note; an empty text deletes it.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it from the favourites; its note stays.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mark a clip or a moment as a favourite, or write a note. Without a clip: list favourites and notes."""
    from evenreel.library import open_library

    time_s = None if at is None else seconds_of(at)
    if at is not None and time_s is None:
        raise UsageError(f"{at[:40]!r} is no time; write seconds (75.5), 1:15.5 or 1:02:03.")
    with open_library(library or default_library(), vision=False) as opened:
        if clip is not None:
            favourite = False if remove else None if note is not None else True
            opened.personal.mark(clip, time_s, favourite=favourite, note=note)
        elif remove or at is not None or note is not None:
            raise UsageError('Name the clip: evenreel mark CLIP --note "the bridge at dawn".')
        marks = opened.personal.marks()
    if as_json:
        print_json(list(marks))
        return
    out = console()
    for one in marks:
        moment = "" if one.mark.time_s is None else f"  at {clock(one.mark.time_s)}"
        star = "[yellow]*[/] " if one.mark.favourite else "  "
        why = f"  [dim]({GONE[one.state]})[/]" if one.state in GONE else ""
        out.print(f"{star}[bold]{safe(one.path)}[/]{moment}{why}")
        for line in one.mark.note.splitlines():
            out.print(f"      {safe(line)}")
    if not marks:
        out.print("There are no favourites and no notes; make one with: evenreel mark VIDEO.")


def saved_add(
    query: Annotated[str, typer.Argument(help="What to look for, as in evenreel search.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the search; otherwise its query.")] = None,
    where: WhereOption = None,
    library: LibraryOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Save a search. What it finds now counts as seen."""
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
        out.print(f"[bold]{safe(one.name)}[/]{named}{where}  [dim]looked at {_when(one.looked)}[/]")
    if not searches:
        out.print('No search is saved; save one with: evenreel saved add "a red bus".')


def saved_run(
    name: NameArgument,
    keep: Annotated[bool, typer.Option("--keep", help="Do not mark the new clips as seen.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show all clips that it finds, not only new ones.")] = False,
    library: LibraryOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Run a saved search and show what is new since it was last run."""
    from evenreel.library import open_library

    with open_library(library or default_library(), device=device) as opened:
        found = opened.personal.run_search(name, keep=keep)
    shown = found.result if everything else replace(found.result, hits=found.new)
    if as_json:
        print_json({"name": found.saved.name, "new": [hit.clip_id for hit in found.new], "result": shown.to_json()})
        return
    since = f" since {_when(found.saved.looked)}" if found.saved.looked else ""
    more = "" if everything else f"; {count(found.result.answering, 'clip')} found in all (--all shows them)"
    console().print(f"{safe(found.saved.name)}: {len(found.new)} new{since}{more}.")
    if shown.hits:
        show_result(shown, as_json)


def saved_remove(name: NameArgument, library: LibraryOption = None) -> None:
    """Delete a saved search."""
    from evenreel.library import open_library

    with open_library(library or default_library(), vision=False) as opened:
        opened.personal.remove_search(name)
    console().print(f"Removed {safe(name)}.")


def _when(looked: str) -> str:
    return f"{datetime.fromisoformat(looked).astimezone():%Y-%m-%d %H:%M}"


def _plain(saved: SavedSearch) -> dict[str, object]:
    return {"name": saved.name, "query": saved.query, "where": saved.where, "looked": saved.looked}


Pair = tuple[str, str] | None
FORGOTTEN = (
    "forgotten. Clips that were looked at are not looked at again; new clips can bring a person back without a name, "
    "as nothing is kept to know them by. Faces that were put to other people stay, and so do copies of the library's "
    "folder that you made: delete those yourself."
)


def people(
    name: Annotated[Pair, typer.Option(metavar="WHO NAME", help="Name a person, by number or name.")] = None,
    merge: Annotated[Pair, typer.Option(metavar="WHO OTHER", help="Merge two people under WHO's name.")] = None,
    forget: Annotated[
        str | None,
        typer.Option(metavar="WHO|ALL", help="Delete name, vectors, pictures; ALL: everyone's, and look for no faces."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="List people with fewer than 3 faces too.")] = False,
    stills: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a picture of each listed person: NUMBER.jpg.")
    ] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the people in a library's clips; name, merge or forget them."""
    from evenreel.library.people import EVERYONE, forget_everyone, forget_person, merge_people, name_person

    place = library or default_library()
    if sum(one is not None for one in (name, merge, forget)) > 1:
        raise UsageError("--name, --merge and --forget are one change each; give one at a time.")
    if (name or merge or forget is not None) and (everyone or stills):
        raise UsageError("--all and --stills list people; leave them out where something is changed.")
    if name or merge:
        one = name_person(place, *name) if name else merge_people(place, *(merge or ("", "")))
        _say(one, f"{'Named' if name else 'Merged'}: {_described(one)}.", as_json)
    elif forget is not None and forget.upper() == EVERYONE:
        there = forget_everyone(place)
        said = f"Everyone ({there:,} people) is {FORGOTTEN} No people are looked for any more."
        _say({"forgotten": there, "everyone": True}, said, as_json)
    elif forget is not None:
        one = forget_person(place, forget)
        _say({"forgotten": one, "everyone": False}, f"{_described(one)}: {FORGOTTEN}", as_json)
    else:
        _list(place, everyone, stills, as_json)


def _described(one: Person) -> str:
    return f"{one.name or 'person'}, number {one.number}, {count(one.faces, 'face')} in {count(one.clips, 'clip')}"


def _say(record: object, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(record)
    else:
        console().print(safe(sentence))


def _list(place: Path, everyone: bool, stills: Path | None, as_json: bool) -> None:
    from evenreel.library.people import FEW_FACES, list_people, person_still

    found = list_people(place, everyone=True)
    shown = [one for one in found if everyone or one.name or one.faces >= FEW_FACES]
    if stills is not None:
        try:
            stills.mkdir(parents=True, exist_ok=True)
            for one in shown:
                if one.faces:
                    (stills / f"{one.number}.jpg").write_bytes(person_still(place, str(one.number)))
        except OSError as error:
            raise OutputError(f"{stills} cannot be written ({error.strerror or error}); name a folder.") from error
    if as_json:
        print_json(shown)
        return
    if shown:
        table = table_of(["number", "name", "faces", "clips"], words=2)
        for one in shown:
            table.add_row(str(one.number), safe(one.name or ""), f"{one.faces:,}", f"{one.clips:,}")
        console().print(table)
    if left := len(found) - len(shown):
        console().print(f"{left:,} more with fewer than {FEW_FACES} faces each (--all lists them).")
    if not found:
        console().print("No faces were found in the clips.")
