"""Changed versions of a corpus: clips or captions edited in one known way, for audits to compare with."""
