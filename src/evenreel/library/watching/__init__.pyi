from .state import WatchState as WatchState
from .watcher import Watcher as Watcher
