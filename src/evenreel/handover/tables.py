"""Stretches as a table (csv) and as JSON, with times in seconds, frames and timecodes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from evenreel.handover.picks import REASONS, CheckedTake

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
