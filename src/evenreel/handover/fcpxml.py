"""Stretches as FCPXML, which Final Cut Pro and DaVinci Resolve read.

Times are written as whole numbers of frames over the frame's exact length, `1001/24000s` for one. OpenTimelineIO's
adapter (1.0.0) is not used: it takes rates as floats, has none for 24000/1001, and reads 30000/1001 as 29 a second.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from fractions import Fraction

from evenreel.handover.facts import FileFacts
from evenreel.handover.frames import FrameRate, most_common
from evenreel.handover.picks import CheckedTake
from evenreel.handover.timelines import url_of
from evenreel.wording import printable

VERSION = "1.8"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE fcpxml>\n'


def as_fcpxml(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches, one after another, as a project whose frame rate is the one that most have.

    Where a stretch begins in a sequence of another rate than its own, and how long it is there, is in whole frames of
    the sequence, so that it holds the stretch.
    """
    rate = most_common(take.facts.rate for take in takes)
    root = ET.Element("fcpxml", version=VERSION)
    resources = _Resources(ET.SubElement(root, "resources"))
    shown = next(take.facts for take in takes if take.facts.rate == rate)
    project = ET.SubElement(root, "project", name=printable(title))
    sequence = ET.SubElement(
        project, "sequence", format=resources.format_of(shown), tcStart="0s", tcFormat=_timecodes(rate)
    )
    spine, at = ET.SubElement(sequence, "spine"), 0
    for take in takes:
        length = _length(take, rate)
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


def _length(take: CheckedTake, rate: FrameRate) -> int:
    """Frames of the sequence that a stretch takes."""
    return -(-len(take.frames) * rate.fps // take.facts.fps)


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
        """Return the id of the format of a file's pictures."""
        size = {"width": str(facts.width), "height": str(facts.height)}
        duration = f"{facts.fps.denominator}/{facts.fps.numerator}s"
        return self._named(("format", facts.fps, *size.values()), "format", {"frameDuration": duration, **size})

    def asset_of(self, take: CheckedTake) -> str:
        """Return the id of a file."""
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
