"""The untrusted half of indexing, run in a killable worker: open, decode, read the words on screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from evenreel.config import MediaLimits
from evenreel.media import open_video, parse_rule
from evenreel.media.workers import Message

if TYPE_CHECKING:
    from evenreel.onscreen import TextReader


class FileReader:
    """Answers `{"path", "frames", "text"}` with messages `info`, then `frame` or `tick` each, then `end`.

    Args:
        rule: how frames are sampled.
        limits: fields of `MediaLimits`.
        threads: threads of the text recogniser.
        text: whether text will be asked for; its models are loaded here, so that no file is blamed for them.
    """

    def __init__(self, rule: str, limits: dict[str, Any], threads: int, *, text: bool) -> None:
        self._rule = parse_rule(rule)
        self._limits = MediaLimits(**limits)
        self._text = _text_reader(threads) if text else None

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Read one file; `frames` and `text` say what is wanted of it."""
        text = self._text if task["text"] else None
        words = text.new_video() if text else None
        with open_video(task["path"], self._limits) as video:
            yield {"kind": "info", "info": asdict(video.info)}, None
            for frame in video.frames(self._rule):
                if task["frames"]:
                    yield {"kind": "frame", "time_s": frame.time_s}, frame.pixels
                if words is not None:
                    words.add(frame)
                if words is not None or not task["frames"]:
                    yield {"kind": "tick", "time_s": frame.time_s}, None
            notes = list(video.notes)
        end: dict[str, Any] = {"kind": "end", "notes": notes}
        if text and words is not None:
            end |= {"tracks": [asdict(track) for track in words.tracks()], "reader_id": text.reader_id}
        yield end, None


def _text_reader(threads: int) -> TextReader:
    from evenreel.onscreen import TextReader, TextSettings

    return TextReader(TextSettings(threads=threads))
