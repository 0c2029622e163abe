"""The tables and figures of TITAN (MM 2023) on a corpus of your own."""
