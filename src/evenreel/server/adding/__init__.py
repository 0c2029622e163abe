"""Folders that a person adds to the library from the page, on the machine that it is served from.

To read in this order: `places` (which folders may be chosen), `run` (the process that indexes), `adder` (starts, pauses
and stops it), `routes` (the addresses, and who may use them).
"""
