"""Indexing: a video on its way into a library.

`ingest.index_folders` scans the folders (`scan`), compares them with the catalog (`plan`) and loads the model
(`model`). In one pass or two (`passes`), each new file is read in a process that can be killed
(`features.clip_reader`), encoded, written to a shard and entered in one transaction (`library.store.writer`).
`integrity` finds what is damaged and `rebuild` makes it whole again.
"""
