"""Similarity of captions and videos: the kernels that matchers share, and all pairs in tiles of bounded memory."""
