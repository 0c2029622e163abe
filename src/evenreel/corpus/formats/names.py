"""Lengths of clips from the times that benchmarks write into their names."""

from __future__ import annotations

import re

_CUT = re.compile(r".+_([0-9]{1,9})_([0-9]{1,9})$")
_MOVIE = re.compile(r".*_(\d\d)\.(\d\d)\.(\d\d)\.(\d{3})-(\d\d)\.(\d\d)\.(\d\d)\.(\d{3})$")


def cut_length_s(name: str) -> float | None:
    """Return the seconds between the two times in a clip name `ID_FROM_TO` (MSVD, VATEX); None for other names.

    >>> cut_length_s("-4wsuPCjDBc_5_15"), cut_length_s("Ptf_2VRj-V0_000122_000132"), cut_length_s("video7")
    (10.0, 10.0, None)
    """
    found = _CUT.fullmatch(name)
    length = int(found[2]) - int(found[1]) if found else 0
    return float(length) if length > 0 else None


def movie_length_s(name: str) -> float | None:
    """Return the seconds between the times in a name `MOVIE_HH.MM.SS.mmm-HH.MM.SS.mmm` (LSMDC); None for other names.

    >>> movie_length_s("1012_Unbreakable_00.05.16.065-00.05.21.941")
    5.876
    """
    found = _MOVIE.fullmatch(name)
    if not found:
        return None
    hours, minutes, seconds, thousandths = (int(found[place + 4]) - int(found[place]) for place in range(1, 5))
    length = hours * 3600 + minutes * 60 + seconds + thousandths / 1000
    return round(length, 3) if length > 0 else None
