"""Index runs of a watcher: over all that is in its folders, or over what has changed there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evenreel.config import IndexSettings
from evenreel.errors import VanishedFilesError
from evenreel.features.pool import Brake
from evenreel.features.progress import StagedProgress
from evenreel.library.index.metadata import KnownMetadata, read_tables, tables_beside
from evenreel.library.index.report import IndexReport
from evenreel.library.index.run import RunParts, check_settings, ignore_rules, index_found
from evenreel.library.index.scan import Scan, rescan, scan
from evenreel.library.store import catalog
from evenreel.media.content import FileStamp
from evenreel.types import Encoder

TableStamps = tuple[tuple[str, FileStamp], ...]


@dataclass
class WatchRuns:
    """Makes the index runs of a watcher; models stay loaded and tables read between them.

    Attributes:
        library: folder of the library.
        roots: the watched folders, absolute.
        settings: settings of every run.
        metadata: tables about the videos, besides those in the folders.
        encoders: loaded models, by name.
    """

    library: Path
    roots: Sequence[str]
    settings: IndexSettings
    metadata: Sequence[Path] = ()
    encoders: dict[str, Encoder] = field(default_factory=dict)
    _tables: tuple[TableStamps, KnownMetadata] | None = None

    def check(self) -> None:
        """Check the library and the settings before anything is watched."""
        check_settings(self.library, self.settings)

    def all(self, unsettled: Iterable[str], progress: StagedProgress, brake: Brake) -> IndexReport:
        """Index all that is in the folders but files that are still being written."""
        found = scan([Path(root) for root in self.roots], ignore_rules(self.library, self.settings))
        _leave_out(found, set(unsettled))
        try:
            return self._index(found, self.settings, progress, brake)
        except VanishedFilesError:
            there = replace(found, changed=frozenset(file.path for file in found.files))
            self._index(there, self.settings, progress, brake)
            raise

    def changed(
        self, paths: Iterable[str], unsettled: Iterable[str], progress: StagedProgress, brake: Brake
    ) -> IndexReport:
        """Index what has changed; that files are gone was seen, and needs no second look."""
        found = rescan(self.roots, paths, ignore_rules(self.library, self.settings))
        _leave_out(found, set(unsettled))
        return self._index(found, replace(self.settings, accept_missing=True), progress, brake)

    def _index(self, found: Scan, settings: IndexSettings, progress: StagedProgress, brake: Brake) -> IndexReport:
        if not found.files and not (self.library / catalog.CATALOG).exists():
            return IndexReport()  # an empty folder is watched for its first video
        parts = RunParts(progress, brake=brake, encoders=self.encoders)
        report = index_found(self.library, settings, found, self._known(), parts)
        self.settings = replace(self.settings, ignore=(), unignore=())  # the library keeps them now
        return report

    def _known(self) -> KnownMetadata:
        """What the tables say; they are read when one has changed."""
        beside = tables_beside(self.roots)
        stamps = tuple((str(path), FileStamp.of(os.stat(path))) for path in (*beside, *self.metadata) if path.exists())
        if self._tables is None or self._tables[0] != stamps:
            self._tables = stamps, read_tables(beside, self.metadata, self.settings.limits)
        return self._tables[1]


def _leave_out(found: Scan, unsettled: set[str]) -> None:
    """Leave out files that are still being written: they are settled some time, and looked at then."""
    found.files = [file for file in found.files if file.path not in unsettled]
    found.subtitles = [file for file in found.subtitles if file.path not in unsettled]
