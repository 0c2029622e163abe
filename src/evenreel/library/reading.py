"""What an open library holds, beside its searches: clips, files, facets, transcripts, and what a result favours."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import LibraryError
from evenreel.library import contents
from evenreel.library.browsing import BrowsedPage, BrowseOrder, browse
from evenreel.library.contents import ClipDetail, ClipMedia, Examples, FilePage, FileQuery
from evenreel.library.rendered import unknown_to_builtin
from evenreel.library.search.filters import Filter, read_filter
from evenreel.library.sizes import sizes_on_disk
from evenreel.library.stats import LibraryStats, read_stats
from evenreel.library.store import catalog
from evenreel.library.store.speech import clip_transcripts
from evenreel.library.store.user_tables import own_state

if TYPE_CHECKING:
    from evenreel.library.facets import Facet
    from evenreel.library.personal import PersonalView
    from evenreel.library.population import Populations
    from evenreel.library.result_bias import Favours
    from evenreel.speech import Transcript


class LibraryContents:
    """Contents of a library whose catalog is open; every method raises LibraryError where that is damaged.

    Attributes:
        path: folder of the library.
    """

    path: Path
    _connection: sqlite3.Connection
    _relative_paths: bool

    def _filter(self, where: str | None) -> Filter:
        """What a person wrote, understood; before a search too, so that no model is loaded for what is wrong."""
        view = self._personal
        with catalog.readable(self.path):
            found = read_filter(self._connection, where, relative_paths=self._relative_paths)
        view.of_filter(found.sql)
        return found

    @cached_property
    def _personal(self) -> PersonalView:
        """A person's own records, by which filters choose too."""
        from evenreel.library.personal import PersonalView

        return PersonalView(self.path, self._connection)

    def roots(self) -> tuple[str, ...]:
        """Return the folders that were indexed, as the system names them."""
        with self._reading():
            return tuple(contents.roots(self._connection))

    def single_files(self) -> tuple[str, ...]:
        """List the files that were indexed by themselves, not with a folder, as the system names them."""
        with self._reading():
            return tuple(contents.single_files(self._connection))

    def stats(self) -> LibraryStats:
        """Count what the library holds and list what was set aside."""
        with self._reading():
            found = read_stats(self._connection, self.path, catalog.get_meta(self._connection))
        from evenreel.library.published import copy_of

        copied = copy_of(self.path)
        return found if copied is None else replace(found, library=copied.place, snapshot=copied.id)

    def sizes(self) -> dict[str, int]:
        """Measure what each part of the library takes on the disk, in bytes; see `evenreel.library.sizes.PARTS`."""
        return sizes_on_disk(self.path)

    def unknown_to_model(self) -> str | None:
        """Return a sentence where clips are shown to a model that cannot know them, see `evenreel.library.rendered`."""
        with self._reading():
            return unknown_to_builtin(self._connection, catalog.get_meta(self._connection))

    def clip(self, clip_id: str) -> ClipDetail:
        """Return everything known about one clip."""
        with self._reading():
            return contents.clip_detail(self._connection, clip_id, self.path / catalog.SHARDS)

    def clip_named(self, name: str) -> str:
        """Return the id of the clip with this id, or of the file with this path."""
        with self._reading():
            return contents.clip_named(self._connection, name)

    def transcripts(self, clip: str) -> tuple[Transcript, ...]:
        """Read what is said in a clip, given by its id or the path of a file, by each source."""
        with self._reading():
            return tuple(clip_transcripts(self._connection, contents.clip_named(self._connection, clip)))

    def files(self, state: str | None = None, text: str = "", limit: int = 50, offset: int = 0) -> FilePage:
        """List files of the library, also those set aside or missing, by path."""
        query = FileQuery(state, text, limit, offset)
        with self._reading():
            return contents.list_files(self._connection, query)

    def browse(
        self, where: str | None = None, order: BrowseOrder = "latest", limit: int = 50, offset: int = 0
    ) -> BrowsedPage:
        """List clips without a query."""
        chosen = self._filter(where)
        with self._reading():
            return browse(self._connection, chosen, order, limit, offset)

    def locate(self, clip_id: str) -> ClipMedia:
        """Find the existing files of a clip, to open them."""
        with self._reading():
            return contents.locate(self._connection, clip_id)

    def examples(self) -> Examples:
        """Suggest searches that find something in this library."""
        with self._reading():
            return contents.examples(self._connection)

    def facets(self) -> list[Facet]:
        """List the columns that the library can be filtered by."""
        from evenreel.library.facets import facets

        with contextlib.suppress(LibraryError):  # the other columns do not depend on a person's own
            self._personal.refresh()
        with self._reading():
            return facets(self._connection)

    def favours(self, clip_ids: Sequence[str], where: str | None = None, left_out: str | None = None) -> Favours:
        """Compare the clips of a result with all clips that pass its filter, by source, on-screen text and length."""
        from evenreel.library.result_bias import favours

        with self._reading():
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            state = hash(version)
            population = self._populations.passing(state, where, own_state(self.path))
            return favours(population.without(left_out) if left_out else population, clip_ids)

    @cached_property
    def _populations(self) -> Populations:
        from evenreel.library.population import Populations

        return Populations(self._connection, self._filter)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """The catalog at one moment; what cannot be read of it becomes one sentence."""
        with catalog.reading(self._connection, self.path), catalog.snapshot(self._connection):
            yield
