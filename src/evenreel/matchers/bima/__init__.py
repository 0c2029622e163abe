"""BiMa (arXiv 2506.03589): frames attend to scene elements, and captions are split into content and bias."""
