"""TCD (Zhao et al., AAAI 2026): on-screen text as clues of a clip."""
