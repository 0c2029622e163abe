"""Audit of order: does a caption tell its clip from the same frames in another order?

Read `pairs` first, then `preference` and `measures`; `kinds`, `tables` and `words` show what these find.
"""
