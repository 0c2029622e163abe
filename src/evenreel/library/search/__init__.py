"""Search: a query on its way to an answer, over the columns of a snapshot; CONTRIBUTING.md says what to read first."""
