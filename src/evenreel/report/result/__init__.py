"""Records of one result (`record`): effects with intervals, tables, figures; in words, on a page, as charts."""
