"""Stretches as a table (csv) and as JSON, with times in seconds, frames and timecodes; what is said, as subtitles."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from evenreel.errors import NotFoundError
from evenreel.handover.picks import REASONS, CheckedTake
from evenreel.speech.transcripts import is_in
from evenreel.speech.writing import as_srt, as_vtt

if TYPE_CHECKING:
    from evenreel.speech import Transcript, Utterance

_WRITERS = {"srt": as_srt, "vtt": as_vtt}

COLUMNS = (
    *("number", "file", "path", "clip_id", "start_s", "end_s", "start_timecode", "end_timecode"),
    *("first_frame", "frames", "fps", "drop_frame", "steady", *REASONS, "words"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def records(takes: Sequence[CheckedTake]) -> list[dict[str, Any]]:
    """Return a record a stretch; its end timecode names the first frame after it, as in lists of editors."""
    return [_record(number, take) for number, take in enumerate(takes, 1)]


def _record(number: int, checked: CheckedTake) -> dict[str, Any]:
    take, facts, frames = checked.take, checked.facts, checked.source_frames
    reason = {name: take.pick.reason.get(name) for name in REASONS}
    return {
        "number": number,
        "file": take.name,
        "path": take.shown_path,
        "clip_id": take.pick.clip_id,
        "start_s": float(checked.stretch[0]),
        "end_s": float(checked.stretch[1]),
        "start_timecode": facts.rate.timecode(frames.start),
        "end_timecode": facts.rate.timecode(frames.stop),
        "first_frame": checked.frames.start,
        "frames": len(frames),
        "fps": str(facts.fps),
        "drop_frame": facts.drop,
        "steady": facts.is_exact,
        **reason,
        "words": take.pick.reason.get("words", []),
    }


def as_json(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches as a JSON document."""
    return json.dumps({"title": title, "stretches": records(takes)}, indent=2) + "\n"


def as_csv(takes: Sequence[CheckedTake], title: str) -> str:
    """Write stretches as a table; text that a spreadsheet would take for a formula begins with an apostrophe."""
    held = io.StringIO()
    writer = csv.DictWriter(held, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for record in records(takes):
        words = " | ".join(record["words"])
        writer.writerow({name: _plain(value) for name, value in {**record, "words": words}.items()})
    return held.getvalue()


def _plain(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def subtitles(
    transcripts: Sequence[Transcript], form: str, span_s: tuple[Fraction, Fraction], language: str | None
) -> str:
    """Write what is said between two times of a clip as subtitles, whose time 0 is the first of them."""
    start_s, end_s = map(float, span_s)
    spoken = [one for one in transcripts if one.utterances and is_in(one, language)]
    if not spoken:
        where = "" if language is None else f" in {language[:40]}"
        raise NotFoundError(f"nothing is known of what is said in it{where}, so there are no subtitles")
    said = [_within(one, start_s, end_s) for one in spoken[0].utterances if one.start_s < end_s and one.end_s > start_s]
    if not said:
        raise NotFoundError("nothing is said in the stretch, so there are no subtitles")
    return _WRITERS[form](said)


def _within(one: Utterance, start_s: float, end_s: float) -> Utterance:
    begins_s, ends_s = max(one.start_s, start_s) - start_s, min(one.end_s, end_s) - start_s
    return replace(one, start_s=begins_s, end_s=ends_s, words=())
