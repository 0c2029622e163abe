"""Overview of a corpus of real clips and their mirrors: their forms, and their similarity."""
