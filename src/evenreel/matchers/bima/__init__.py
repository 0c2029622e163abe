"""BiMa (arXiv 2506.03589): scene elements guide the video side, and content is kept apart from bias in captions."""
