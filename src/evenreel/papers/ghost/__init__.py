"""The tables and figures of Generative Ghost, source bias, on a corpus of your own."""
