"""Results of audits and studies: the records (`record`), and how they are shown in words, on a page and as charts."""
