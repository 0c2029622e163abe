"""What a person has put into a library: favourites, notes and saved searches.

`records` says what they are, `file` keeps them beside the catalog and twice, `placed` finds the clips that they are
about, and `data` is what a library offers of them. No run that indexes, repairs or exchanges a model writes any of it.
"""
