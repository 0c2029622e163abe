"""When a video says that it was recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone

_NAMES = ("com.apple.quicktime.creationdate", "date_recorded", "creation_time", "date", "year")
"""Names of what says so, those that know the camera's own time first; case does not count."""

_WHEN = re.compile(
    r"(\d{4})(?:[-:/.]?(\d\d)[-:/.]?(\d\d)(?:[T ](\d\d):?(\d\d)(?::?(\d\d))?(?:\.\d+)?)?|[-:/.](\d\d))?"
    r"(Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_FIRST_YEAR = 1888  # of the oldest film that is left
_NEVER_SET = ("1903-12-31", "1904-01-0", "1969-12-31", "1970-01-0")  # where clocks begin


def recorded_at(metadata: Mapping[str, str]) -> str | None:
    """Return when a video was recorded, by the metadata of its container or a stream; None where they do not say.

    Example:
        >>> recorded_at({"creation_time": "2024-05-31T12:03:00.000000Z"})
        '2024-05-31T12:03:00Z'
        >>> recorded_at({"com.apple.quicktime.creationdate": "2024-05-31T14:03:00+0200"})
        '2024-05-31T14:03:00'
        >>> recorded_at({"date": "20240531"}), recorded_at({"date": "1962"})
        ('2024-05-31', '1962')
        >>> recorded_at({"creation_time": "1904-01-01T00:00:00.000000Z"})
    """
    given = {name.casefold(): value for name, value in metadata.items()}
    return next(filter(None, (_read(given[name]) for name in _NAMES if name in given)), None)


def _read(text: str) -> str | None:
    found = _WHEN.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hours, minutes, seconds, month_alone, zone = found.groups()
    told = "-".join(filter(None, (year, month or month_alone, day)))
    try:
        clock = f"{hours or '00'}:{minutes or '00'}:{seconds or '00'}"
        when = datetime.fromisoformat(f"{told}-01-01"[:10] + f"T{clock}")
    except ValueError:
        return None
    if not _FIRST_YEAR <= when.year <= datetime.now(timezone.utc).year + 1 or told.startswith(_NEVER_SET):
        return None
    return when.isoformat() + ("Z" if zone == "Z" else "") if hours else told
