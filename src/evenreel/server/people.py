"""The route of the API for people: a face of each name; the names are a facet of `/stats`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from evenreel.library.people import LONGEST_NAME, person_still
from evenreel.server.desk import Desk

Who = Annotated[str, Query(min_length=1, max_length=LONGEST_NAME, description="Name or number of the person.")]


def add_people(router: APIRouter, desk: Desk, described: dict[str, Any]) -> None:
    """Add the route to a router."""

    async def face(who: Who) -> Response:
        """Send the surest face of a person, which no browser keeps: it is gone when the person is forgotten."""
        jpeg = await desk.look_up(lambda library: person_still(library.path, who))
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "no-store"})

    router.add_api_route("/people/still", face, methods=["GET"], **described)
