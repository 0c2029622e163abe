"""`evenreel people`: who is in the clips of a library: names, corrections, and forgetting."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import JsonOption, LibraryOption
from evenreel.cli.show_library import clock, console, print_json, safe, table_of
from evenreel.config import default_library
from evenreel.errors import NotFoundError, UsageError
from evenreel.files import first_there
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.library.people.listing import Person, PersonFace

EVERYONE = "ALL"  # that of `people.store`, which `--help` does not wait for
NOT_HERE = (
    "Published snapshots have never held people, and copies of the library's folder that you made are not reached: "
    "delete those yourself."
)


@dataclass(frozen=True)
class PeopleChange:
    """What is to be changed of people, who are named by number or by name.

    Attributes:
        name: give person WHO the name NAME.
        merge: make WHO and OTHER one person, who keeps the number and name of WHO.
        split: take a person apart whose faces are of several.
        not_: number of a face that is not the person's whom it was put to.
        forget: delete a person's name, vectors and pictures, or with ALL everyone's, and look for people no more.

    Raises:
        UsageError: more than one of them is named.
    """

    name: Annotated[tuple[str, str] | None, typer.Option("--name", metavar="WHO NAME")] = None
    merge: Annotated[tuple[str, str] | None, typer.Option("--merge", metavar="WHO OTHER")] = None
    split: Annotated[str | None, typer.Option("--split", metavar="WHO")] = None
    not_: Annotated[int | None, typer.Option("--not", metavar="FACE", min=1, max=2**63 - 1)] = None
    forget: Annotated[str | None, typer.Option("--forget", metavar=f"WHO|{EVERYONE}")] = None

    def __post_init__(self) -> None:
        given = [one for one in (self.name, self.merge, self.split, self.not_, self.forget) if one is not None]
        if len(given) > 1:
            raise UsageError("--name, --merge, --split, --not and --forget are one change each; give one at a time.")


@dataclass(frozen=True)
class PeopleListed:
    """What is listed of people.

    Attributes:
        everyone: also people without a name of whom there are fewer than 3 faces.
        faces: list the faces of this person, with their numbers.
        sheet: write a picture of the people and their faces, or with --faces of all faces of one, such as people.jpg.
    """

    everyone: Annotated[bool, typer.Option("--all")] = False
    faces: Annotated[str | None, typer.Option("--faces", metavar="WHO")] = None
    sheet: Path | None = None


def people(
    change: PeopleChange = from_settings(PeopleChange),
    listed: PeopleListed = from_settings(PeopleListed),
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the people in a library's clips, name, merge and correct them, or forget them."""
    place = library or default_library()
    if change != PeopleChange():
        if listed != PeopleListed():
            raise UsageError("--all, --faces and --sheet list people; leave them out where something is changed.")
        _change(place, change, as_json)
    elif listed.faces is not None:
        _show_faces(place, listed.faces, listed.sheet, as_json)
    else:
        _show_people(place, listed, as_json)


def _change(place: Path, change: PeopleChange, as_json: bool) -> None:
    from evenreel.library.people.editing import merge_people, name_person, refuse_face, split_person

    if change.forget is not None:
        _forget(place, change.forget, as_json)
    elif change.split is not None:
        _show_changed("Now", split_person(place, change.split), as_json)
    elif change.not_ is not None:
        _show_changed(f"Face {change.not_} is now of", [refuse_face(place, change.not_)], as_json)
    elif change.merge is not None:
        _show_changed("Merged:", [merge_people(place, *change.merge)], as_json)
    elif change.name is not None:
        _show_changed("Named:", [name_person(place, *change.name)], as_json)


def _forget(place: Path, who: str, as_json: bool) -> None:
    from evenreel.library.people.forgetting import forget_everyone, forget_person

    if who.upper() == EVERYONE:
        there = forget_everyone(place)
        said = f"Everyone is forgotten ({there:,} people); no people are looked for any more."
        gone: dict[str, Any] = {"forgotten": there, "everyone": True}
    else:
        person = forget_person(place, who)
        faces = f"{count(person.faces, 'face')} in {count(person.clips, 'clip')}"
        said = (
            f"{person.label} is forgotten ({faces}). Clips that were looked at are not looked at again; new clips can "
            "bring the person back without a name, as nothing is kept to know them by. Faces that were put to other "
            "people stay (evenreel people --sheet shows them)."
        )
        gone = {"forgotten": person, "everyone": False}
    if as_json:
        print_json(gone)
        return
    console().print(safe(said))
    console().print(NOT_HERE)


def _show_changed(lead: str, changed: list[Person], as_json: bool) -> None:
    if as_json:
        print_json(changed)
        return
    for one in changed:
        faces = f"{count(one.faces, 'face')} in {count(one.clips, 'clip')}"
        console().print(f"{lead} {safe(one.label)}, number {one.number}: {faces}.")


def _show_people(place: Path, listed: PeopleListed, as_json: bool) -> None:
    from evenreel.library.people.listing import FEW_FACES, list_people
    from evenreel.library.people.sheet import write_sheet

    everyone = list_people(place, everyone=True)
    shown = [one for one in everyone if listed.everyone or one.name or one.faces >= FEW_FACES]
    if listed.sheet is not None:
        if not shown:
            raise NotFoundError(
                "There is nobody to draw on a sheet; evenreel people --all lists also who is seldom seen."
            )
        write_sheet(place, shown, listed.sheet)
    if as_json:
        print_json(shown)
        return
    out = console()
    if shown:
        table = table_of(["number", "name", "faces", "clips"], words=2)
        for one in shown:
            table.add_row(str(one.number), safe(one.name or ""), f"{one.faces:,}", f"{one.clips:,}")
        out.print(table)
    if left := len(everyone) - len(shown):
        out.print(f"{left:,} more with fewer than {FEW_FACES} faces each (--all lists them).")
    if not everyone:
        out.print("No faces were found in the clips.")
    _show_sheet(listed.sheet)


def _show_faces(place: Path, who: str, sheet: Path | None, as_json: bool) -> None:
    from evenreel.library.people.listing import list_faces
    from evenreel.library.people.sheet import write_faces

    found = list_faces(place, who)
    if sheet is not None:
        write_faces(place, who, sheet)
    if as_json:
        print_json(found)
        return
    paths = _paths(place, found)
    table = table_of(["face", "clip", "at", "sure"], words=2)
    for one in found:
        where = paths.get(one.clip_id, one.clip_id)
        table.add_row(str(one.number), safe(where), clock(one.time_s), f"{one.score:.2f}")
    console().print(table)
    _show_sheet(sheet)


def _paths(place: Path, faces: list[PersonFace]) -> dict[str, str]:
    """A file of each clip, where it is still there."""
    from evenreel.library import open_library

    with open_library(place, vision=False) as opened:
        located = {clip_id: opened.locate(clip_id).files for clip_id in {one.clip_id for one in faces}}
    return {clip_id: first_there([one.path for one in files]) for clip_id, files in located.items() if files}


def _show_sheet(sheet: Path | None) -> None:
    if sheet is not None:
        console().print(f"Wrote {safe(sheet)}; it shows faces, and forgetting somebody does not reach it.")
