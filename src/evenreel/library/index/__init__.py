"""Indexing: a video on its way into a library.

`run.index_folders` scans the folders and compares them with the library (`scan`), then takes each stage of the table
(`stages`) through the files that lack it.
"""
