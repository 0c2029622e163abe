"""The tables and figures of the paper on frame-length bias, on a corpus of your own."""
