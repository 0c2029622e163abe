"""Stretches as a timeline for editors: OTIO and EDL (CMX3600), by OpenTimelineIO (extra `editing`).

The stretches follow one another on one track, each a clip of its file with the file's own timecode. An EDL has one
frame rate for all that is in it: the one that most stretches have.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from evenreel.errors import EvenreelError
from evenreel.extras import needed_extra
from evenreel.handover.frames import FrameRate, most_common
from evenreel.handover.picks import CheckedTake
from evenreel.wording import printable

if TYPE_CHECKING:
    import opentimelineio as otio

LONGEST_REEL = 8
"""Characters of a reel's name in CMX3600."""


def as_otio(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches as an OTIO document, pictures and sound on a track each."""
    text: str = _opentimelineio().adapters.write_to_string(timeline(takes, title), "otio_json")
    return text + "\n"


def as_edl(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches of one frame rate as a CMX3600 list; timecodes drop frames where those of the files do."""
    otio, rate = _opentimelineio(), takes[0].facts.rate
    # Labels count frames alike at 24 and 24000/1001; only where some are dropped does otio's rate change them.
    labels = rate.base * 1000 / 1001 if rate.drop else float(rate.base)
    track = otio.schema.Track("V1", kind=otio.schema.TrackKind.Video)
    for take, reel in zip(takes, _reels(takes), strict=True):
        clip = otio.schema.Clip(_line(take.take.name), _reference(take, labels), _range(take.source_frames, labels))
        clip.metadata["cmx_3600"] = {"reel": reel}
        track.append(clip)
    listed = otio.schema.Timeline(_line(title))
    listed.tracks.append(track)
    try:
        text: str = otio.adapters.write_to_string(listed, "cmx_3600", rate=labels)
    except otio.exceptions.NoKnownAdapterForExtensionError as error:
        raise _missing("otio_cmx3600_adapter") from error
    head, _, events = text.partition("\n\n")
    return f"{head}\nFCM: {'' if rate.drop else 'NON-'}DROP FRAME\n\n{events}"


def of_one_rate(takes: Sequence[CheckedTake]) -> tuple[list[CheckedTake], list[CheckedTake]]:
    """Part stretches into those of the frame rate that most have, which fit into one EDL, and the others."""
    rate = most_common(take.facts.rate for take in takes)
    fits = [take for take in takes if take.facts.rate == rate]
    return fits, [take for take in takes if take.facts.rate != rate]


def timeline(takes: Sequence[CheckedTake], title: str) -> otio.schema.Timeline:
    """Make a timeline of stretches that follow one another, at the rate that most have."""
    otio = _opentimelineio()
    made = otio.schema.Timeline(title)
    made.global_start_time = otio.opentime.RationalTime(0, _rate(most_common(take.facts.rate for take in takes)))
    kinds = [("V1", otio.schema.TrackKind.Video, False)]
    if any(take.facts.sounds for take in takes):
        kinds.append(("A1", otio.schema.TrackKind.Audio, True))
    for name, kind, heard in kinds:
        track = otio.schema.Track(name, kind=kind)
        track.extend(_item(take, silent=heard and not take.facts.sounds) for take in takes)
        made.tracks.append(track)
    return made


def _item(take: CheckedTake, *, silent: bool) -> otio.schema.Item:
    otio, rate = _opentimelineio(), _rate(take.facts.rate)
    source = _range(take.source_frames, rate)
    if silent:
        return otio.schema.Gap(source_range=source)
    clip = otio.schema.Clip(take.take.name, _reference(take, rate), source)
    clip.metadata["evenreel"] = {
        "clip_id": take.take.pick.clip_id,
        "start_s": str(take.stretch[0]),
        "end_s": str(take.stretch[1]),
        **{name: value for name, value in take.take.pick.reason.items() if value is not None},
    }
    return clip


def _reference(take: CheckedTake, rate: float) -> otio.schema.ExternalReference:
    otio, first = _opentimelineio(), take.facts.first_frame
    available = _range(range(first, first + take.facts.frame_count), rate)
    return otio.schema.ExternalReference(url_of(take.take.shown_path), available)


def _range(frames: range, rate: float) -> otio.opentime.TimeRange:
    otio = _opentimelineio()
    start, duration = (otio.opentime.RationalTime(number, rate) for number in (frames.start, len(frames)))
    return otio.opentime.TimeRange(start, duration)


def _rate(rate: FrameRate) -> float:
    return float(Fraction(rate.fps))


def url_of(path: str) -> str:
    """Return the address of a file for lists of editors: `file:` for a full path, else a relative one.

    >>> url_of("/videos/a b.mp4"), url_of("trams/a.mp4")
    ('file:///videos/a%20b.mp4', 'trams/a.mp4')
    """
    pure = PurePath(path)
    return pure.as_uri() if pure.is_absolute() else urllib.parse.quote(pure.as_posix())


def _reels(takes: Iterable[CheckedTake]) -> list[str]:
    """A name of at most eight letters and digits for each file, none of them for two."""
    names: dict[str, str] = {}
    for path, name in ((take.take.path, take.take.name) for take in takes):
        if path not in names:
            letters = "".join(letter for letter in PurePath(name).stem.upper() if letter.isascii() and letter.isalnum())
            reel, number = letters[:LONGEST_REEL] or "CLIP", 1
            while reel in names.values():
                number += 1
                reel = f"{(letters or 'CLIP')[: LONGEST_REEL - len(str(number))]}{number}"
            names[path] = reel
    return [names[take.take.path] for take in takes]


def _line(text: str) -> str:
    return printable(text).strip() or "evenreel"


def _opentimelineio() -> Any:
    try:
        import opentimelineio
    except ImportError as error:
        raise _missing("opentimelineio") from error
    return opentimelineio


def _missing(package: str) -> EvenreelError:
    sentence = needed_extra(ImportError(name=package), "A list for editors in this form")
    return EvenreelError(sentence or f"{package} is not installed.")
