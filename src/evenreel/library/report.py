"""What an index run tells: while it goes, and when it is done."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class SetAside:
    """One file that cannot be used, and why."""

    path: str
    reason: str
    sentence: str


@dataclass
class IndexReport:
    """What an index run did.

    `set_aside` lists every unusable file of the folders, also those known before; `newly_aside` counts those that this
    run looked at.
    """

    indexed: int = 0
    unchanged: int = 0
    recognised: int = 0
    missing: int = 0
    newly_aside: int = 0
    metadata_changed: int = 0
    frames: int = 0
    seconds: float = 0.0
    set_aside: list[SetAside] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    other_files: int = 0
    links: int = 0
    closed_folders: list[str] = field(default_factory=list)

    @property
    def did_nothing(self) -> bool:
        """Whether the library was up to date already."""
        return not (self.indexed or self.recognised or self.missing or self.newly_aside or self.metadata_changed)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, the form that `--json` prints."""
        return asdict(self)


class Progress(Protocol):
    """Told how a run goes. Calls come from several threads."""

    def begin(self, files: int) -> None:
        """So many files are to be read."""

    def frame(self) -> None:
        """One more frame is decoded and read."""

    def file_done(self, path: str) -> None:
        """One more file is finished or set aside."""

    def stage(self, name: str) -> None:
        """A stage that has no count has begun."""


class NoProgress:
    """A `Progress` that says nothing."""

    def begin(self, files: int) -> None:
        """So many files are to be read."""

    def frame(self) -> None:
        """One more frame is decoded and read."""

    def file_done(self, path: str) -> None:
        """One more file is finished or set aside."""

    def stage(self, name: str) -> None:
        """A stage that has no count has begun."""
