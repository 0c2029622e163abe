"""Watching: folders whose changes are brought into a library as they happen.

`watcher.Watcher` listens to the file system and has an index run (`evenreel.library.index.run`) look at what has
changed; `changes` says which files are settled, `state` what a page shows of it all.
"""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
