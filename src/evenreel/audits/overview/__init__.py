"""Overview of a benchmark: forms of real clips and their mirrors, and the similarity of both."""
