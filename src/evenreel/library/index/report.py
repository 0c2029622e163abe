"""What an index run did."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from evenreel.features.progress import SetAside


@dataclass
class IndexReport:
    """Counts and lists of what an index run did.

    `missing` counts files that are gone with their content, `moved` gone files whose content another file has.
    `subtitles` counts subtitle files and streams that were read, `subtitles_gone` those that are gone, `heard` clips
    whose speech was recognised, `sounds` those whose sounds were encoded, `people` those in which faces were looked
    for.
    `set_aside` lists every unusable file of the folders, also those known before; `newly_aside` counts those that this
    run looked at. `other_suffixes` counts the files that are no videos by their names. `ignored`
    counts files and folders that an ignore list passed over. `unfinished` is True where the run was asked to end early:
    the next one goes on. `warnings` are sentences about the whole library.
    """

    indexed: int = 0
    unchanged: int = 0
    recognised: int = 0
    missing: int = 0
    moved: int = 0
    newly_aside: int = 0
    metadata_changed: int = 0
    subtitles: int = 0
    subtitles_gone: int = 0
    heard: int = 0
    sounds: int = 0
    people: int = 0
    frames: int = 0
    seconds: float = 0.0
    set_aside: list[SetAside] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    other_files: int = 0
    other_suffixes: dict[str, int] = field(default_factory=dict)
    links: int = 0
    ignored: int = 0
    unfinished: bool = False
    warnings: list[str] = field(default_factory=list)
    closed_folders: list[str] = field(default_factory=list)

    @property
    def did_nothing(self) -> bool:
        """True if the library was up to date already."""
        files = self.indexed or self.recognised or self.missing or self.moved or self.newly_aside
        beside = self.subtitles or self.subtitles_gone or self.heard or self.sounds or self.people
        return not (files or self.metadata_changed or beside)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self) | {"set_aside": [one.to_json() for one in self.set_aside]}
