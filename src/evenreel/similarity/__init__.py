"""How alike captions and videos are: the kernels that matchers share, and all pairs in tiles of bounded memory."""
