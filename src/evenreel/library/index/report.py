"""What an index run did."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from evenreel.features.progress import SetAside
from evenreel.library.index.plan import IndexPlan
from evenreel.library.index.scan import Scan
from evenreel.wording import printable


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

    def add_scan(self, found: Scan, plan: IndexPlan, lost: str) -> None:
        """Note what a scan found, and what is planned for it.

        Args:
            found: files of the folders.
            plan: what is planned for each file.
            lost: note on a file whose clip has no shard.
        """
        self.unchanged = len(plan.unchanged)
        self.other_files, self.other_suffixes = found.other_files.total(), dict(found.other_files)
        self.links, self.ignored = found.links, len(found.ignored)
        self.notes += found.troubles
        self.closed_folders = [printable(folder) for folder in found.closed_folders]
        self.set_aside += [
            SetAside("", printable(row.path), row.reason or "failed", row.sentence or "") for row in plan.aside_before
        ]
        self.notes += [(printable(path), lost) for path in sorted(plan.lost)]

    @property
    def did_nothing(self) -> bool:
        """True if the library was up to date already."""
        files = self.indexed or self.recognised or self.missing or self.moved or self.newly_aside
        beside = self.subtitles or self.subtitles_gone or self.heard or self.sounds or self.people
        return not (files or self.metadata_changed or beside)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self) | {"set_aside": [one.to_json() for one in self.set_aside]}
