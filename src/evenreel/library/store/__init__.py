"""Storage of a library on disk.

`catalog` is the SQLite file that holds the truth, with the tables of `schema` and the checksums of `seals`; `writer`
changes it, one transaction a clip; `vectors` and `fulltext` are derived from it, and so is `confidence`, what nonsense
scores in the library; `kept` is a second copy of what
nothing else knows, and `salvage` reads what is left of a damaged one.
"""
