"""The tables and figures of BiMa, visual and textual bias, on a corpus of your own."""
