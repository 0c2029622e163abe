"""TCD (Zhao et al., AAAI 2026): retrieval with frames and the text on screen, calibrated to each other."""
