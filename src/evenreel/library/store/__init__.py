"""Storage of a library on disk.

`catalog` is the SQLite file that holds the truth, laid down from `schema.sql`; `user_tables` copies those of its tables
that are a person's own. `writer` changes it, one transaction a clip; `vectors`, with what nonsense scores on them, and
`fulltext` are derived from it.
"""
