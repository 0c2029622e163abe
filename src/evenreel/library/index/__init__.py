"""Indexing: a video on its way into a library.

`run.index_folders` scans the folders (`scan`), compares them with the library (`plan`) and takes each stage of the
table (`stages`) through the files that lack it; `worker` is the unit that reads one. `integrity` finds what is damaged
and `rebuild` makes it whole again.
"""
