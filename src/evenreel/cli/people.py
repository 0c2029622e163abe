"""`evenreel people`: who is in the clips of a library: names, merging, and forgetting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenreel.cli.options import JsonOption, LibraryOption
from evenreel.cli.show_library import clock, console, print_json, safe, table_of
from evenreel.config import default_library
from evenreel.errors import OutputError, UsageError
from evenreel.wording import count

EVERYONE = "ALL"  # that of `library.people`, which `--help` does not wait for
NOT_HERE = "Copies of the library's folder that you made are not reached: delete those yourself."


def people(
    name: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="WHO NAME", help="Give a person a name; WHO is a number or a name."),
    ] = None,
    merge: Annotated[
        tuple[str, str] | None, typer.Option(metavar="WHO OTHER", help="Make two one, with WHO's number and name.")
    ] = None,
    forget: Annotated[
        str | None,
        typer.Option(
            metavar=f"WHO|{EVERYONE}",
            help="Delete a person's name, vectors and pictures, or everyone's, and look no more.",
        ),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="List also who has no name and fewer than 3 faces.")] = False,
    stills: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a picture of each, NUMBER.jpg, to know whom to name.")
    ] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the people in a library's clips, name and merge them, or forget them."""
    from evenreel.library.people import merge_people, name_person

    place = library or default_library()
    changes = [one for one in (name, merge, forget) if one is not None]
    if len(changes) > 1:
        raise UsageError("--name, --merge and --forget are one change each; give one at a time.")
    if changes and (everyone or stills):
        raise UsageError("--all and --stills list people; leave them out where something is changed.")
    if forget is not None:
        _forget(place, forget, as_json)
    elif changes:
        one = name_person(place, *name) if name else merge_people(place, *changes[0])
        if as_json:
            print_json(one)
        else:
            faces = f"{count(one.faces, 'face')} in {count(one.clips, 'clip')}"
            console().print(f"{'Named' if name else 'Merged'}: {safe(one.label)}, number {one.number}: {faces}.")
    else:
        _list(place, everyone, stills, as_json)


def _forget(place: Path, who: str, as_json: bool) -> None:
    from evenreel.library.people import forget_everyone, forget_person

    gone: dict[str, Any]
    if who.upper() == EVERYONE:
        there = forget_everyone(place)
        said = f"Everyone is forgotten ({there:,} people); no people are looked for any more."
        gone = {"forgotten": there, "everyone": True}
    else:
        person = forget_person(place, who)
        said = (
            f"{person.label} is forgotten ({count(person.faces, 'face')} in {count(person.clips, 'clip')}). Clips that "
            "were looked at are not looked at again; new clips can bring the person back without a name, as nothing is "
            "kept to know them by. Faces that were put to other people stay (evenreel people --stills FOLDER)."
        )
        gone = {"forgotten": person, "everyone": False}
    if as_json:
        print_json(gone)
    else:
        console().print(safe(f"{said} {NOT_HERE}"))


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
        table = table_of(["number", "name", "faces", "clips", "seen best in", "at"], words=2)
        for one in shown:
            where = (safe(Path(one.path or "").name), "" if one.time_s is None else clock(one.time_s))
            table.add_row(str(one.number), safe(one.name or ""), f"{one.faces:,}", f"{one.clips:,}", *where)
        console().print(table)
    if left := len(found) - len(shown):
        console().print(f"{left:,} more with fewer than {FEW_FACES} faces each (--all lists them).")
    if not found:
        console().print("No faces were found in the clips.")
    if stills is not None:
        console().print(
            f"Wrote {count(len(shown), 'picture')} into {safe(stills)}; forgetting somebody does not reach it."
        )
