from .search.asking import Mark as Mark, Marked as Marked, Then as Then, Without as Without
from .check import LibraryProblem as LibraryProblem, repair as repair, verify as verify
from .contents import LibraryStats as LibraryStats
from .index.run import index_folders as index_folders
from .index.reindex import RemoveReport as RemoveReport, remove_from_library as remove_from_library
from .index.reindex import reindex as reindex
from .index.scan import IndexReport as IndexReport
from .library import Library as Library, open_library as open_library
from .published import (
    PublishReport as PublishReport,
    PublishSettings as PublishSettings,
    publish_library as publish_library,
)
from .search.query import PlainText as PlainText, UnfinishedText as UnfinishedText
from .watching import WatchState as WatchState, Watcher as Watcher
