"""Storage of a library on disk.

`catalog` is the SQLite file that holds the truth, with the tables of `schema`; `user_tables` copies those that are a
person's own. `writer` changes the catalog, one transaction a clip; `vectors` and `fulltext` are derived from it, and so
is `confidence`, what nonsense scores in the library.
"""
