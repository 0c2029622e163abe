"""Search: a query on its way to an answer, over the columns of a snapshot.

`query` reads what is asked, `snapshot` the library at one moment, `filters` which clips may be found; `words`, `seen`
and `sounds` are the channels, each a column of scores with what it shows; `rank` fuses them, `shown` makes the hits,
with the `moments` that answer; `searcher` leads through it. `rerank` may order the first clips anew; `folding` puts
takes together; `hits` has the records of the answer.
"""
