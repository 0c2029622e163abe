"""Search: a query on its way to an answer.

`asked` reads which channels a query asks, `query` encodes it; `searcher` asks them: frames (`gallery`), and words on
screen, said, and in file names (`by_words`, of `text_match` with `spellings`); `store.confidence` measures each against
queries that nothing answers; `answering` puts the channels together, in the columns of `ranked_clips`; `ranking` says
which clips answer and in which order; `rerank` may order the first ones anew; `moments` and `highlights` say why.
`hits` has the records of the answer.
"""
