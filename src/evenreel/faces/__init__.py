"""Faces on frames: where they are, a vector of each, and which of them are of one person.

`models` has the files of the two models, which are asked for and never fetched; `finder` runs them, in a process that
can be killed (`file_reader`); `grouping` puts faces of one person together.
"""
