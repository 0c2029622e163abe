"""Stretches of an open library exported in one call: found, read by a process of its own, written.

EDL (CMX3600), FCPXML, xmeml and OTIO are short texts that are written here: nothing has to be installed for them, and
rates stay fractions (OpenTimelineIO's adapter of FCPXML has none for 24000/1001 and reads 30000/1001 as 29).
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import tempfile
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path, PurePath
from statistics import mode
from typing import TYPE_CHECKING, Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError, NotFoundError, OutputError
from evenreel.features.shards import read_still
from evenreel.files import make_folder, printable
from evenreel.handover import A_FILE_EACH, FORMS, READER, SUFFIXES, HandoverForm, HandoverSettings
from evenreel.handover.cuts import SUFFIXES as CUT_SUFFIXES
from evenreel.handover.cuts import formats_for
from evenreel.handover.frames import FileFacts, FrameRate
from evenreel.handover.picks import (
    REASONS,
    CheckedTake,
    HandoverReport,
    Pick,
    Take,
    checked,
    file_stem,
    give_name,
    stretch_stem,
)
from evenreel.library.contents import SameContent, check_unchanged
from evenreel.library.store.catalog import STILLS
from evenreel.media.workers import Worker
from evenreel.speech.subtitles import as_srt, as_vtt, is_in

if TYPE_CHECKING:
    from evenreel.library import Library
    from evenreel.library.contents import Located
    from evenreel.speech import Transcript

_UNSEEN = Fraction(1, 100)  # less than a frame at 60 a second needs no word
STALL_S = 30.0  # how long a file may give nothing while its content is compared


def take_away(
    library: Library,
    picks: Sequence[Pick],
    folder: str | Path,
    title: str = "stretches",
    settings: HandoverSettings | None = None,
    progress: Callable[[float], object] = lambda share: None,
) -> HandoverReport:
    """Write stretches of a library's clips into a folder, as cuts, lists for editors, tables, subtitles or a sheet."""
    limits, report, same, takes = MediaLimits(), HandoverReport(), SameContent(STALL_S), list[Take]()
    for pick in picks:
        try:
            file = _unchanged(library, pick, same)
            takes.append(Take(pick, file.path, file.path, PurePath(file.path).name, file.stamp))
        except (MediaError, NotFoundError) as error:
            name = pick.clip_id
            with suppress(NotFoundError):
                name = library.clip(pick.clip_id).name
            report.leave_out(Take(pick, "", "", name), error)
    with closing(Worker(READER, {"limits": asdict(limits)}, limits)) as worker:
        still = partial(read_still, library.path / STILLS)
        handover = Handover(worker, library.transcripts, still, settings or HandoverSettings(), report, progress)
        handover.write(takes, Path(folder), title)
    return report


def _unchanged(library: Library, pick: Pick, same: SameContent) -> Located:
    why = "its file is not there any more; is its disk connected? `evenreel index` looks again"
    for file in sorted(library.locate(pick.clip_id).files, key=lambda file: file.path != pick.path):
        try:
            return same.check(pick.clip_id, file, os.stat(file.path, follow_symlinks=False))
        except OSError:
            continue
        except MediaError:
            why = "its file has changed since it was indexed; `evenreel index` reads it again"
    raise MediaError("unreadable", why)


@dataclass
class Handover:
    worker: Worker
    transcripts: Callable[[str], Sequence[Transcript]]  # of a clip's id
    still: Callable[[str, float], bytes | None]  # the JPEG that was kept of a clip's id at a time
    settings: HandoverSettings
    report: HandoverReport
    progress: Callable[[float], object] = lambda share: None

    def __post_init__(self) -> None:
        self._facts: dict[str, FileFacts | MediaError] = {}
        self._cuts: dict[int, tuple[str, tuple[Fraction, Fraction]]] = {}  # their names and times, by the take's place

    def write(self, takes: Sequence[Take], folder: Path, title: str) -> None:
        """Write the forms; the names of lists come from the title, those of cuts from their files and times."""
        try:
            make_folder(folder)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise OutputError(f"{folder} cannot be written to ({why}); choose another place with --out.") from error
        ready = self._ready(takes)
        forms = sorted(set(self.settings.forms), key=FORMS.index) if ready else []  # cuts before their subtitles
        each = [(form, place) for form in forms if form in A_FILE_EACH for place in range(len(ready))]
        for tried, (form, place) in enumerate(each, 1):
            one = ready[place]
            try:
                made = self._cut(place, one, folder) if form == "clip" else self._subtitled(place, one, form, folder)
                self.report.files.append(made)
            except (EvenreelError, OSError) as error:
                self.report.leave_out(one.take, error)
            self.progress(tried / len(each))
        for form in (form for form in forms if form not in A_FILE_EACH):
            for name, listed in by_rate(ready, title) if form == "edl" else [(title, ready)]:
                try:
                    content = self._listed(form, listed, title)
                    self.report.files.append(_put(content, folder, file_stem(name, "stretches"), SUFFIXES[form]))
                except (EvenreelError, OSError) as error:
                    self.report.leave_out(form, error)

    def _ready(self, takes: Sequence[Take]) -> list[CheckedTake]:
        ready = []
        for take in takes:
            try:
                pick, more_s = take.pick, self.settings.handles_s
                longer = replace(pick, start_s=max(0.0, pick.start_s - more_s), end_s=pick.end_s + more_s)
                ready.append(checked(replace(take, pick=longer), self._facts_of(take)))
            except MediaError as error:
                self.report.leave_out(take, error)
                continue
            if ready[-1].facts.note and LISTS.keys() & set(self.settings.forms):
                self.report.note(take.name, ready[-1].facts.note)
            if take.pick.end_s > ready[-1].stretch[1] + _UNSEEN:
                self.report.note(take.name, f"ends at {float(ready[-1].stretch[1]):.2f} s, and so does the stretch")
        return ready

    def _facts_of(self, take: Take) -> FileFacts:
        if take.path not in self._facts:
            try:
                ((found, _),) = self.worker.run({"facts": take.path})
                self._facts[take.path] = FileFacts.from_json(found)
            except MediaError as error:
                self._facts[take.path] = error
        facts = self._facts[take.path]
        if isinstance(facts, MediaError):
            raise facts
        return facts

    def _listed(self, form: HandoverForm, ready: Sequence[CheckedTake], title: str) -> bytes:
        if form == "sheet":
            if len(ready) > MOST_STILLS:
                self.report.note("sheet", f"shows the first {MOST_STILLS} of {len(ready):,} stretches, all that it can")
            return sheet_jpeg([self._cell(take) for take in ready[:MOST_STILLS]], title)
        return LISTS[form](ready, title).encode("utf-8", "replace")

    def _cut(self, place: int, checked: CheckedTake, folder: Path) -> Path:
        """Cut a stretch into a hidden folder, and give it its name when it is whole."""
        take, facts = checked.take, checked.facts
        formats = formats_for(facts.container, PurePath(take.path).suffix)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".evenreel-") as scratch:
            made = os.path.join(scratch, "cut")
            task = {"out": made, "stretch": list(map(str, checked.stretch)), "facts": facts.to_json()}
            wanted = {"encode": take.path} if self.settings.exact else {"copy": take.path, "formats": formats}
            *_, (said, _) = self.worker.run(task | wanted)
            check_unchanged(take.path, take.stamp)
            stem = stretch_stem(take.name, *checked.stretch)
            path = give_name(Path(made), folder, stem, CUT_SUFFIXES[said["format"]])
        self._cuts[place] = path.stem, (Fraction(said["starts_s"]), Fraction(said["ends_s"]))
        note = partial(self.report.note, path.name)
        early_s, late_s = float(checked.stretch[0]) - said["starts_s"], said["ends_s"] - float(checked.stretch[1])
        if why := said.get("why"):
            note(f"was re-encoded as a whole, as {why}")
        elif copied := said.get("copied"):
            note(f"was re-encoded at its ends; the {copied[1] - copied[0]:,} frames between are copied")
        else:
            if early_s > 1 / facts.fps:
                note(f"begins {early_s:.2f} s early, at a key frame (--exact cuts frame-accurately)")
            if late_s > 2 / facts.fps:
                note(f"ends {late_s:.2f} s late")
            if said["format"] != formats[0]:
                note(f"is a Matroska file, as {formats[0]} does not hold its codecs")
        if said["left_out"]:
            anew = self.settings.exact or said.get("why")
            why = "of which nothing can be decoded" if anew else "which no container here holds"
            note(f"lacks a stream of sound, {why}")
        return path

    def _subtitled(self, place: int, checked: CheckedTake, form: HandoverForm, folder: Path) -> Path:
        """Write what is said in a stretch, with the clock and the name of its cut where there is one."""
        take = checked.take
        stem, span_s = self._cuts.get(place) or (stretch_stem(take.name, *checked.stretch), checked.stretch)
        text = subtitles(self.transcripts(take.pick.clip_id), form, span_s, self.settings.language)
        return _put(text.encode("utf-8", "replace"), folder, stem, f".{form}")

    def _cell(self, checked: CheckedTake) -> SheetCell:
        take, (start_s, end_s) = checked.take, map(float, checked.stretch)
        time_s = take.pick.reason.get("time_s")
        if time_s is None or not start_s <= time_s < end_s:
            time_s = (start_s + end_s) / 2
        rate, frames = checked.facts.rate, checked.source_frames
        times = f"{rate.timecode(frames.start)} - {rate.timecode(frames.stop)}"
        still = self.still(take.pick.clip_id, time_s)
        if still is None:
            try:
                task = {"still": take.path, "time_s": time_s, "width": STILL_PX[0]}
                still = b"".join(array.tobytes() for _, array in self.worker.run(task) if array is not None)
                check_unchanged(take.path, take.stamp)
            except MediaError as error:
                self.report.note(take.name, f"has no still on the sheet: {error}")
        return SheetCell(still, take.name, times)


def _put(content: bytes, folder: Path, stem: str, suffix: str) -> Path:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".evenreel-") as scratch:
        made = Path(scratch, "made")
        made.write_bytes(content)
        return give_name(made, folder, stem, suffix)


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
    held, listed = io.StringIO(), records(takes)
    writer = csv.DictWriter(held, list(listed[0]), lineterminator="\r\n")
    writer.writeheader()
    for record in listed:
        row = record | {"words": " | ".join(record["words"])}
        formulas = {name: f"'{one}" for name, one in row.items() if isinstance(one, str) and one.startswith(_FORMULA)}
        writer.writerow(row | formulas)
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
    said = [
        replace(one, start_s=max(one.start_s, start_s) - start_s, end_s=min(one.end_s, end_s) - start_s)
        for one in spoken[0].utterances
        if one.start_s < end_s and one.end_s > start_s
    ]
    if not said:
        raise NotFoundError("nothing is said in the stretch, so there are no subtitles")
    return as_srt(said) if form == "srt" else as_vtt(said)


LONGEST_REEL = 8  # characters of a reel's name in CMX3600


def as_otio(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches one after another, pictures and sound on a track each, as OpenTimelineIO's JSON."""
    kinds = {"V1": "Video", "A1": "Audio"} if any(take.facts.channels for take in takes) else {"V1": "Video"}
    tracks = [
        _otio("Track.1", name=name, kind=kind, children=[_otio_item(take, silent=kind == "Audio") for take in takes])
        for name, kind in kinds.items()
    ]
    start = _otio("RationalTime.1", rate=float(mode(take.facts.rate for take in takes).fps), value=0.0)
    stack = _otio("Stack.1", name="tracks", children=tracks)
    made = _otio("Timeline.1", name=printable(title), global_start_time=start, tracks=stack)
    return json.dumps(made, indent=4) + "\n"


def _otio(schema: str, **fields: Any) -> dict[str, Any]:
    return {"OTIO_SCHEMA": schema, **fields}


def _otio_item(take: CheckedTake, *, silent: bool) -> dict[str, Any]:
    """A stretch as a clip of its file; a gap on the track of sound where the file has none."""

    def timed(first: int, count: int) -> dict[str, Any]:
        start, length = (_otio("RationalTime.1", rate=float(facts.fps), value=float(one)) for one in (first, count))
        return _otio("TimeRange.1", start_time=start, duration=length)

    facts, pick = take.facts, take.take.pick
    source_range = timed(take.source_frames.start, len(take.source_frames))
    if silent and not facts.channels:
        return _otio("Gap.1", source_range=source_range)
    reason = {name: value for name, value in pick.reason.items() if value is not None}
    about = {"clip_id": pick.clip_id, "start_s": str(take.stretch[0]), "end_s": str(take.stretch[1]), **reason}
    whole = timed(facts.first_frame, facts.frame_count)
    return _otio(
        "Clip.1",
        name=printable(take.take.name),
        metadata={"evenreel": about},
        source_range=source_range,
        media_reference=_otio("ExternalReference.1", target_url=url_of(take.take.shown_path), available_range=whole),
    )


def as_edl(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches of one frame rate as a CMX3600 list; timecodes drop frames where those of the files do."""
    rate, at = takes[0].facts.rate, 0
    lines = [f"TITLE: {printable(title).strip() or 'evenreel'}", f"FCM: {'' if rate.drop else 'NON-'}DROP FRAME", ""]
    for number, (take, reel) in enumerate(zip(takes, _reels(takes), strict=True), 1):
        frames, name = take.source_frames, printable(take.take.name).strip() or "evenreel"
        times = (frames.start, frames.stop, at, at := at + len(frames))
        lines += [
            f"{number:03}  {reel:8} V     C        {' '.join(map(rate.timecode, times))}",
            f"* FROM CLIP NAME:  {name}",
            f"* FROM CLIP: {url_of(take.take.shown_path)}",
        ]
    return "\n".join(lines) + "\n"


def by_rate(takes: Sequence[CheckedTake], title: str) -> list[tuple[str, list[CheckedTake]]]:
    """Part stretches by frame rate, of which an EDL has one; of several, each is named with the title and its rate."""
    parts: dict[FrameRate, list[CheckedTake]] = {}
    for take in takes:
        parts.setdefault(take.facts.rate, []).append(take)
    if len(parts) == 1:
        return [(title, list(takes))]
    return [(f"{title} {float(rate.fps):.5g}{' DF' if rate.drop else ''}", part) for rate, part in parts.items()]


def url_of(path: str) -> str:
    """Return the address of a file for lists of editors: `file:` for a full path, else a relative one."""
    pure = PurePath(path)
    return pure.as_uri() if pure.is_absolute() else urllib.parse.quote(os.fsencode(pure.as_posix()))


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


_Fields = dict[str, Any]  # of an element of XML: `@` names an attribute, a list several of one name


def as_fcpxml(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches, one after another, as a project whose frame rate is the one that most have.

    Where a stretch begins in a sequence of another rate than its own, and how long it is there, is in whole frames of
    the sequence, so that it holds the stretch.
    """
    rate, at, name = mode(take.facts.rate for take in takes), 0, xml_text(title)
    formats, assets, clips = dict[str, _Fields](), dict[str, _Fields](), list[_Fields]()

    def format_of(facts: FileFacts) -> str:
        about = {"@frameDuration": _seconds(1, facts.fps), "@width": facts.width, "@height": facts.height}
        return str(formats.setdefault(str(about), {"@id": f"r{len(formats) + 1}", **about})["@id"])

    for take in takes:
        facts, named, path = take.facts, {"@name": xml_text(take.take.name)}, take.take.path
        if path not in assets:
            assets[path] = {"@id": f"a{len(assets) + 1}", **named, "@start": _seconds(facts.first_frame, facts.fps)}
            assets[path] |= {"@duration": _seconds(facts.frame_count, facts.fps), "@hasVideo": 1}
            if facts.channels:
                sound = {"@audioChannels": facts.channels, "@audioRate": facts.sound_rate}
                assets[path] |= {"@hasAudio": 1, "@audioSources": 1, **sound}
            file = {"@kind": "original-media", "@src": url_of(take.take.shown_path)}
            assets[path] |= {"@format": format_of(facts), "media-rep": file}
        length = -(-len(take.frames) * rate.fps // facts.fps)  # in whole frames of the sequence
        clip = {"@ref": assets[path]["@id"], **named, "@format": format_of(facts), "@offset": _seconds(at, rate.fps)}
        clip |= {"@start": _seconds(take.source_frames.start, facts.fps), "@duration": _seconds(length, rate.fps)}
        words = {"note": _words(take)} if _words(take) else {}
        clips.append({**clip, "@tcFormat": "DF" if facts.drop else "NDF", **words})
        at += length
    shown = next(take.facts for take in takes if take.facts.rate == rate)
    sequence: _Fields = {"@format": format_of(shown), "@tcStart": "0s", "@tcFormat": "DF" if rate.drop else "NDF"}
    sequence |= {"@duration": _seconds(at, rate.fps), "spine": {"asset-clip": clips}}
    event = {"@name": name, "project": {"@name": name, "sequence": sequence}}
    resources = {"format": list(formats.values()), "asset": list(assets.values())}
    root = ET.Element("fcpxml", version="1.12")
    _fill(root, {"resources": resources, "library": {"event": event}})
    return _document(root)


def _document(root: ET.Element) -> str:
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE {root.tag}>\n{ET.tostring(root, "unicode")}\n'


def xml_text(text: str) -> str:
    """Return text in a form that XML can hold: beside what `printable` escapes, it has no U+FFFE and U+FFFF."""
    return printable(text).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")


def _seconds(frames: int, fps: Fraction) -> str:
    """A time as whole frames over their exact length, such as `1001/24000s`."""
    return f"{frames * fps.denominator}/{fps.numerator}s" if frames else "0s"


def as_xmeml(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches, one after another, as a sequence of Final Cut Pro 7 (xmeml 5), as Premiere Pro writes it.

    Its frame rate is the one that most have. Programs read where a clip begins and ends in its file as seconds times
    the rate of the sequence, whatever rate the file has; so that is what is written, in whole frames that hold the
    stretch, and it is the rate that the clip names. Only the file's length and timecode are counted at its own rate.
    Sound has a track for each channel: two that Premiere takes for one of stereo, and others for files that are not.
    """
    rate, at = mode(take.facts.rate for take in takes), 0
    shown = next(take.facts for take in takes if take.facts.rate == rate)
    channels = sorted({channel for take in takes for channel in _channels(take.facts)}, reverse=True)
    rows: dict[tuple[bool, int] | None, list[_Fields]] = {None: [], **{channel: [] for channel in channels}}
    files = dict[str, int]()
    for number, take in enumerate(takes, 1):
        facts, share, known = take.facts, rate.fps / take.facts.fps, take.take.path in files
        first, stop = math.floor(take.frames.start * share), math.ceil(take.frames.stop * share)
        file = files.setdefault(take.take.path, len(files) + 1)
        mine, links = [None, *_channels(facts)], list[_Fields]()
        for row in mine:
            item: _Fields = {"linkclipref": f"clipitem-{number}-{len(links)}", "mediatype": "audio" if row else "video"}
            place = channels.index(row) + 1 if row else 1
            links.append({**item, "trackindex": place, "clipindex": len(rows[row]) + 1})
        about: _Fields = {"masterclipid": f"masterclip-{file}", "name": xml_text(take.take.name), "enabled": "TRUE"}
        about |= {"duration": math.ceil(facts.frame_count * share), "rate": _rate(rate)}
        about |= {"start": at, "end": at + stop - first, "in": first, "out": stop}
        at += stop - first
        for row, link in zip(mine, links, strict=True):
            item = {"@id": link["linkclipref"], **about}
            item["file"] = {"@id": f"file-{file}", **({} if known or row else _file(take))}
            if row:
                item["@premiereChannelType"] = "stereo" if row[0] else "mono"
                item["sourcetrack"] = {"mediatype": "audio", "trackindex": 1 - row[1]}
            rows[row].append(item | {"link": links, "logginginfo": {"lognote": _words(take)}})
    tracks = list[_Fields]()
    for stereo, minus in channels:
        exploded = {"@currentExplodedTrackIndex": -minus * stereo, "@totalExplodedTrackCount": 1 + stereo}
        track = {**exploded, "@premiereTrackType": "Stereo" if stereo else "Mono", "clipitem": rows[stereo, minus]}
        tracks.append({**track, "outputchannelindex": 1 - minus * stereo})
    pictures = {"format": {"samplecharacteristics": _picture(shown)}, "track": {"clipitem": rows[None]}}
    media: _Fields = {"video": pictures}
    if channels:
        sampled = {"samplecharacteristics": {"depth": 16, "samplerate": shown.sound_rate}}
        media["audio"] = {"numOutputChannels": 2, "format": sampled, "track": tracks}
    about = {"@explodedTracks": "true", "name": xml_text(title), "duration": at, "rate": _rate(rate)}
    root = ET.Element("xmeml", version="5")
    _fill(root, {"sequence": {**about, "timecode": _timecode(rate, 0), "media": media}})
    return _document(root)


def _channels(facts: FileFacts) -> list[tuple[bool, int]]:
    """Whether a file is in stereo, and 0, -1, ... for each of its channels: tracks of sound by how they are sorted."""
    return [(facts.channels == 2, -place) for place in range(facts.channels)]


def _words(take: CheckedTake) -> str:
    return xml_text(" | ".join(take.take.pick.reason.get("words", ())))


def _fill(parent: ET.Element, fields: _Fields) -> None:
    for name, value in fields.items():
        if name.startswith("@"):
            parent.set(name[1:], str(value))
            continue
        for one in value if isinstance(value, list) else [value]:
            element = ET.SubElement(parent, name)
            if isinstance(one, dict):
                _fill(element, one)
            else:
                element.text = str(one)


def _rate(rate: FrameRate) -> _Fields:
    return {"timebase": rate.base, "ntsc": "TRUE" if rate.fps.denominator == 1001 else "FALSE"}


def _timecode(rate: FrameRate, frame: int) -> _Fields:
    shown = {"string": rate.timecode(frame), "frame": frame, "displayformat": "DF" if rate.drop else "NDF"}
    return {"rate": _rate(rate), **shown}


def _picture(facts: FileFacts) -> _Fields:
    size = {"width": facts.width, "height": facts.height, "anamorphic": "FALSE", "pixelaspectratio": "square"}
    return {"rate": _rate(facts.rate), **size, "fielddominance": "none"}


def _file(take: CheckedTake) -> _Fields:
    """A file, with the address that Premiere writes: of this machine, the colon after a drive escaped."""
    facts, (scheme, slashes, rest) = take.facts, url_of(take.take.shown_path).partition(":///")
    url = f"{scheme}://localhost/{rest.replace(':', '%3a')}" if slashes else scheme
    media: _Fields = {"video": {"samplecharacteristics": _picture(facts)}}
    if facts.channels:
        sampled = {"depth": 16, "samplerate": facts.sound_rate}
        media["audio"] = {"samplecharacteristics": sampled, "channelcount": facts.channels}
    about = {"name": xml_text(take.take.name), "pathurl": url, "rate": _rate(facts.rate), "duration": facts.frame_count}
    return {**about, "timecode": _timecode(facts.rate, facts.first_frame), "media": media}


LISTS: dict[HandoverForm, Callable[[Sequence[CheckedTake], str], str]] = {
    "csv": as_csv,
    "json": as_json,
    "edl": as_edl,
    "fcpxml": as_fcpxml,
    "otio": as_otio,
    "xmeml": as_xmeml,
}
"""Writer of each form that is one text for all stretches, with frame numbers, which a clip's rate is told for."""


STILL_PX = (320, 180)
MOST_STILLS = 400  # most stills of one sheet; at four a row it is some 24,000 pixels high then, and JPEG ends at 65,535
_FONTS = ("Arial Unicode.ttf", "NotoSansCJK-Regular.ttc", "DejaVuSans.ttf", "NotoSans-Regular.ttf", "arial.ttf")
_GAP, _TEXT = 16, 44
_PAPER, _INK, _PALE, _DARK = "#ffffff", "#1b1d1f", "#5a6066", "#202326"


class SheetCell(NamedTuple):
    still: bytes | None  # a JPEG; None where there is none
    name: str  # first line below it
    times: str  # second line


def sheet_jpeg(cells: Sequence[SheetCell], title: str) -> bytes:
    """Draw at most `MOST_STILLS` stills with two lines below each, four a row, below a title."""
    columns = min(4, max(1, len(cells)))
    rows = -(-len(cells) // columns)
    width, height = _GAP + columns * (STILL_PX[0] + _GAP), 56 + rows * (STILL_PX[1] + _TEXT + _GAP)
    picture = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(picture)
    _write(draw, (_GAP, 16), printable(title), 20, width - 2 * _GAP)
    for place, cell in enumerate(cells):
        row, column = divmod(place, columns)
        left, top = _GAP + column * (STILL_PX[0] + _GAP), 56 + row * (STILL_PX[1] + _TEXT + _GAP)
        draw.rectangle((left, top, left + STILL_PX[0] - 1, top + STILL_PX[1] - 1), _DARK)
        if cell.still is not None:  # into the middle of its place, whole
            with Image.open(io.BytesIO(cell.still), formats=("JPEG",)) as opened:
                image = opened.convert("RGB")
            image.thumbnail(STILL_PX)
            picture.paste(image, (left + (STILL_PX[0] - image.width) // 2, top + (STILL_PX[1] - image.height) // 2))
        _write(draw, (left, top + STILL_PX[1] + 4), printable(cell.name), 15, STILL_PX[0])
        _write(draw, (left, top + STILL_PX[1] + 23), cell.times, 13, STILL_PX[0], _PALE)
    made = io.BytesIO()
    picture.save(made, "JPEG", quality=88, optimize=True)
    return made.getvalue()


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return a font of the system for names in any script, else Pillow's own, which has hardly more than ASCII."""
    for name in _FONTS:
        with suppress(OSError):
            return ImageFont.truetype(name, size)
    return ImageFont.load_default(size)


def _write(draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, size: int, width: int, ink: str = _INK) -> None:
    """Write a line, with its middle left out where it is too long."""
    font = _font(size)
    shown, kept = text, len(text)
    while draw.textlength(shown, font) > width and kept > 8:
        kept -= 4
        shown = f"{text[: kept * 2 // 3]}…{text[-(kept // 3) :]}"
    draw.text(at, shown, ink, font)
