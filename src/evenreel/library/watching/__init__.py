"""Watching: folders whose changes are brought into a library as they happen.

`watcher.Watcher` listens to the file system and has an index run (`evenreel.library.index.run`) look at what has
changed; `changes` says which files are settled, `state` what a page shows of it all.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
