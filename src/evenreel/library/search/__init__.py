"""Search: a query on its way to an answer.

`query` understands the words; `searcher` asks three channels: frames (`gallery`), on-screen words and file names
(`text_match`, with `spellings`); `store.confidence` measures each against queries that nothing answers; `answering`
puts the channels together, in the columns of `ranked_clips`; `ranking` says which clips answer and in which order;
`rerank` may order the first ones anew; `moments` and `highlights` say why. `hits` has the records of the answer.
"""
