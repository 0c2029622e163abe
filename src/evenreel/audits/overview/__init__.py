"""An overview of a benchmark: what real clips and their mirrors are made of, and how near they are."""
