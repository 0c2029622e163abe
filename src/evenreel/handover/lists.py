"""Stretches as lists: a table (csv), JSON, timelines for editors (OTIO, EDL, FCPXML); what is said, as subtitles.

OTIO and EDL (CMX3600) are written by OpenTimelineIO (extra `editing`): the stretches follow one another on one track,
each a clip of its file with the file's own timecode; an EDL has one frame rate, the one that most stretches have. In
FCPXML, which Final Cut Pro and DaVinci Resolve read, times are whole numbers of frames over the frame's exact length,
`1001/24000s` for one. OpenTimelineIO's adapter (1.0.0) is not used for it: it takes rates as floats, has none for
24000/1001, and reads 30000/1001 as 29 a second.
"""

from __future__ import annotations

import csv
import io
import json
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from evenreel.errors import EvenreelError, NotFoundError
from evenreel.extras import needed_extra
from evenreel.handover.frames import FileFacts, FrameRate, most_common
from evenreel.handover.picks import REASONS, CheckedTake
from evenreel.speech.transcripts import as_srt, as_vtt, is_in
from evenreel.wording import printable

if TYPE_CHECKING:
    import opentimelineio as otio

    from evenreel.speech import Transcript

_WRITERS = {"srt": as_srt, "vtt": as_vtt}

COLUMNS = (
    *("number", "file", "path", "clip_id", "start_s", "end_s", "start_timecode", "end_timecode"),
    *("first_frame", "frames", "fps", "drop_frame", "steady", *REASONS, "words"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def records(takes: Sequence[CheckedTake]) -> list[dict[str, Any]]:
    """Return a record a stretch; its end timecode names the first frame after it, as in lists of editors."""
    return [
        {
            "number": number,
            "file": one.take.name,
            "path": one.take.shown_path,
            "clip_id": one.take.pick.clip_id,
            "start_s": float(one.stretch[0]),
            "end_s": float(one.stretch[1]),
            "start_timecode": one.facts.rate.timecode(one.source_frames.start),
            "end_timecode": one.facts.rate.timecode(one.source_frames.stop),
            "first_frame": one.frames.start,
            "frames": len(one.frames),
            "fps": str(one.facts.fps),
            "drop_frame": one.facts.drop,
            "steady": one.facts.is_exact,
            **{name: one.take.pick.reason.get(name) for name in REASONS},
            "words": one.take.pick.reason.get("words", []),
        }
        for number, one in enumerate(takes, 1)
    ]


def as_json(takes: Sequence[CheckedTake], title: str) -> str:
    return json.dumps({"title": title, "stretches": records(takes)}, indent=2) + "\n"


def as_csv(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches as a table; text that a spreadsheet would take for a formula begins with an apostrophe."""
    held = io.StringIO()
    writer = csv.DictWriter(held, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for record in records(takes):
        row = record | {"words": " | ".join(record["words"])}
        formulas = {name for name, value in row.items() if isinstance(value, str) and value.startswith(_FORMULA)}
        writer.writerow({name: f"'{value}" if name in formulas else value for name, value in row.items()})
    return held.getvalue()


def subtitles(
    transcripts: Sequence[Transcript], form: str, span_s: tuple[Fraction, Fraction], language: str | None
) -> str:
    """Write what is said between two times of a clip as subtitles, whose time 0 is the first of them."""
    start_s, end_s = map(float, span_s)
    spoken = [one for one in transcripts if one.utterances and is_in(one, language)]
    if not spoken:
        where = "" if language is None else f" in {language[:40]}"
        raise NotFoundError(f"nothing is known of what is said in it{where}, so there are no subtitles")
    inside = [one for one in spoken[0].utterances if one.start_s < end_s and one.end_s > start_s]
    if not inside:
        raise NotFoundError("nothing is said in the stretch, so there are no subtitles")
    spans_s = [(max(one.start_s, start_s) - start_s, min(one.end_s, end_s) - start_s) for one in inside]
    said = [replace(one, start_s=at_s, end_s=to_s) for one, (at_s, to_s) in zip(inside, spans_s, strict=True)]
    return _WRITERS[form](said)


LONGEST_REEL = 8  # characters of a reel's name in CMX3600


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
    rate = most_common(take.facts.rate for take in takes)
    made.global_start_time = otio.opentime.RationalTime(0, float(rate.fps))
    kinds = [("V1", otio.schema.TrackKind.Video, False)]
    if any(take.facts.sounds for take in takes):
        kinds.append(("A1", otio.schema.TrackKind.Audio, True))
    for name, kind, heard in kinds:
        track = otio.schema.Track(name, kind=kind)
        track.extend(_item(take, silent=heard and not take.facts.sounds) for take in takes)
        made.tracks.append(track)
    return made


def _item(take: CheckedTake, *, silent: bool) -> otio.schema.Item:
    otio, rate = _opentimelineio(), float(take.facts.fps)
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


HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE fcpxml>\n'


def as_fcpxml(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches, one after another, as a project whose frame rate is the one that most have.

    Where a stretch begins in a sequence of another rate than its own, and how long it is there, is in whole frames of
    the sequence, so that it holds the stretch.
    """
    rate = most_common(take.facts.rate for take in takes)
    root = ET.Element("fcpxml", version="1.8")
    resources = _Resources(ET.SubElement(root, "resources"))
    shown = next(take.facts for take in takes if take.facts.rate == rate)
    project = ET.SubElement(root, "project", name=printable(title))
    sequence = ET.SubElement(
        project, "sequence", format=resources.format_of(shown), tcStart="0s", tcFormat=_timecodes(rate)
    )
    spine, at = ET.SubElement(sequence, "spine"), 0
    for take in takes:
        length = -(-len(take.frames) * rate.fps // take.facts.fps)  # in whole frames of the sequence
        clip = ET.SubElement(
            spine,
            "asset-clip",
            name=printable(take.take.name),
            ref=resources.asset_of(take),
            offset=_seconds(at, rate.fps),
            start=_seconds(take.source_frames.start, take.facts.fps),
            duration=_seconds(length, rate.fps),
            format=resources.format_of(take.facts),
            tcFormat=_timecodes(take.facts.rate),
        )
        if words := take.take.pick.reason.get("words"):
            ET.SubElement(clip, "note").text = printable(" | ".join(words))
        at += length
    sequence.set("duration", _seconds(at, rate.fps))
    ET.indent(root)
    return HEAD + ET.tostring(root, "unicode") + "\n"


def _seconds(frames: int, fps: Fraction) -> str:
    """Write a time as whole frames over their exact length.

    >>> _seconds(2, Fraction(24000, 1001)), _seconds(0, Fraction(25)), _seconds(50, Fraction(25))
    ('2002/24000s', '0s', '50/25s')
    """
    return f"{frames * fps.denominator}/{fps.numerator}s" if frames else "0s"


def _timecodes(rate: FrameRate) -> str:
    return "DF" if rate.drop else "NDF"


class _Resources:
    """The formats and files that a document names, each once."""

    def __init__(self, element: ET.Element) -> None:
        self._element = element
        self._ids: dict[tuple[object, ...], str] = {}

    def format_of(self, facts: FileFacts) -> str:
        size = {"width": str(facts.width), "height": str(facts.height)}
        duration = f"{facts.fps.denominator}/{facts.fps.numerator}s"
        return self._named(("format", facts.fps, *size.values()), "format", {"frameDuration": duration, **size})

    def asset_of(self, take: CheckedTake) -> str:
        facts = take.facts
        about = {
            "name": printable(take.take.name),
            "src": url_of(take.take.shown_path),
            "start": _seconds(facts.first_frame, facts.fps),
            "duration": _seconds(facts.frame_count, facts.fps),
            "hasVideo": "1",
            "format": self.format_of(facts),
        }
        if facts.sounds:
            about |= {"hasAudio": "1", "audioSources": "1"}
        return self._named(("asset", take.take.path), "asset", about)

    def _named(self, key: tuple[object, ...], tag: str, about: dict[str, str]) -> str:
        if key not in self._ids:
            self._ids[key] = f"r{len(self._ids) + 1}"
            ET.SubElement(self._element, tag, {"id": self._ids[key], **about})
        return self._ids[key]
