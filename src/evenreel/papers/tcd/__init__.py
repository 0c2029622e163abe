"""The tables and figures of TCD, on-screen text as clues, on a corpus of your own."""
