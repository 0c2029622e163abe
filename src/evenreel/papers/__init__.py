"""Studies: each table and figure of a paper on a corpus of your own, as a function of what is in memory.

A paper's studies, and the rows of its tables as data, are in its `tables` (or `studies`): what a study reads, which
settings it looks at and what makes it (`study.Study`); what it asks and reproduces, and what its readers have to know,
is in `words`. `registry.run_study` makes one of a `workspace.Workspace`; rows are trained, measured and compared by
`engine`.
"""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
