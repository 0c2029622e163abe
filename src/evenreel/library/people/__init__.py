"""People of a library: faces in its clips, grouped, named by a person, searched by name, and forgotten.

`store` is their file, a database of its own; `looking` is the stage of an index run that fills it and `grouping` puts
new faces to people; `listing` reads them, `editing` names, merges and corrects, `forgetting` deletes; `asked` is
`person:` in a query, `clips` the column `people` of a filter, `sheet` a picture of them all.
"""
