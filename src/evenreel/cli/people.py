"""`evenreel people`: who is in the clips of a library: names, merging, and forgetting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli.options import JsonOption, LibraryOption
from evenreel.cli.show_library import console, print_json, safe, table_of
from evenreel.config import default_library
from evenreel.errors import OutputError, UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.library.people import Person

Pair = tuple[str, str] | None
FORGOTTEN = (
    "forgotten. Clips that were looked at are not looked at again; new clips can bring a person back without a name, "
    "as nothing is kept to know them by. Faces that were put to other people stay, and so do copies of the library's "
    "folder that you made: delete those yourself."
)


def people(
    name: Annotated[Pair, typer.Option(metavar="WHO NAME", help="Name a person, by number or name.")] = None,
    merge: Annotated[Pair, typer.Option(metavar="WHO OTHER", help="Make two one, who stays WHO.")] = None,
    forget: Annotated[
        str | None,
        typer.Option(metavar="WHO|ALL", help="Delete name, vectors and pictures; ALL: everyone's, and look no more."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="List also who has no name and fewer than 3 faces.")] = False,
    stills: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a picture of each that is listed: NUMBER.jpg.")
    ] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the people in a library's clips, name and merge them, or forget them."""
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
