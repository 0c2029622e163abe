"""Studies: each table and figure of a paper on a corpus of your own, as a function of inputs in memory.

A study is registered in the `studies` module of its paper: its function, what it works on (`engine.needs`: where that
is on disk, the record the function is given, and the reader between them, in `engine.reading`) and the class of its
settings, whose fields are its options on the command line; what it asks and reproduces, and what its readers have to
know, is in `words`. The function and the reader are imported when the study is made.
`registry.run_study` makes one: `engine.variants` are its rows, `engine.trainings` trains them,
`engine.training_tables` measures each with each seed, and `engine.seeds` has their means and changes.
"""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
