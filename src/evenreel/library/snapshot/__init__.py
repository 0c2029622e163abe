"""Published snapshots of a library: written once, read by any number of machines.

`place` says where they lie, `manifest` what each is. `publish` writes one: `tables` turns catalog and matrix into
Lance tables, `indexes` adds indexes and measures them. `opening` makes a folder of it that is read like a library, in a
cache that `holding` guards; `vectors` reads what is too large for that folder; `following` takes up new ones.
"""
