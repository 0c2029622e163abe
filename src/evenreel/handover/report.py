"""What taking stretches away has come to: files, what is unusual in them, and what could not be taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenreel.errors import MediaError, OutputError
from evenreel.features import SetAside
from evenreel.handover.picks import Take
from evenreel.wording import printable


@dataclass
class HandoverReport:
    """Files that were written, and one sentence on whatever was not.

    Attributes:
        files: the files, in the order in which they were written.
        notes: names of files or stretches, each with a sentence on what is unusual about it.
        set_aside: stretches that are in none of the files, or not in one, with the reason.
    """

    files: list[Path] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)

    def note(self, name: str, sentence: str) -> None:
        """Add a sentence, once."""
        if (printable(name), sentence) not in self.notes:
            self.notes.append((printable(name), sentence))

    def leave_out(self, take: Take, error: Exception) -> None:
        """Add a stretch that cannot be taken."""
        self.set_aside.append(_aside(take.pick.clip_id, take.name, error))

    def leave_out_form(self, form: str, error: Exception) -> None:
        """Add a whole list that cannot be written."""
        self.set_aside.append(_aside("", form, error))

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "files": [printable(str(path)) for path in self.files],
            "notes": [{"name": name, "sentence": sentence} for name, sentence in self.notes],
            "set_aside": [one.to_json() for one in self.set_aside],
        }


def _aside(clip_id: str, name: str, error: Exception) -> SetAside:
    reason = error.reason if isinstance(error, MediaError) else "failed"
    if isinstance(error, OutputError) and isinstance(error.__cause__, OSError):
        error = error.__cause__
    if isinstance(error, OSError):
        sentence = f"it cannot be written ({(error.strerror or str(error)).lower()}); choose another place"
    else:
        sentence = str(error)
    return SetAside(clip_id, printable(name), reason, sentence)
