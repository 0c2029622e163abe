"""The user's own paraphrases of captions, read from a table with a row for each caption."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from evenreel.corpus.dataframes import as_ids
from evenreel.corpus.formats.plain_tables import read_table
from evenreel.corpus.imported import some
from evenreel.errors import CorpusError
from evenreel.types import Corpus

ID, TEXT = "caption_id", "paraphrase"


def read_paraphrases(path: Path, corpus: Corpus) -> dict[str, str]:
    """Read a table of paraphrases by caption id; captions that it does not name have none.

    Args:
        path: csv, tsv, jsonl, json or parquet with the columns `caption_id` and `paraphrase`.
        corpus: corpus of the captions.

    Raises:
        CorpusError: the table cannot be read, lacks a column or a value, or names a caption twice or one that is not in
            the corpus.
    """
    table = read_table(path)
    if missing := [name for name in (ID, TEXT) if name not in table.columns]:
        raise CorpusError(f"{path} has no column {missing[0]!r}; it needs {ID} and {TEXT}, a row a caption.")
    rows = pl.DataFrame([as_ids(table[ID]), table[TEXT].cast(pl.String)])
    empty = rows.select(pl.any_horizontal(pl.all().fill_null("").str.strip_chars() == "").alias("empty"))["empty"]
    if empty.any():
        raise CorpusError(f"Row {empty.arg_true()[0] + 1} of {path} lacks {ID} or {TEXT}; fill both, or drop the row.")
    twice = rows.filter(rows[ID].is_duplicated())[ID].unique(maintain_order=True).to_list()
    if twice:
        raise CorpusError(f"{path} names captions twice ({some(twice)}); give each one row.")
    strangers = rows.filter(~pl.col(ID).is_in(corpus.captions[ID].implode()))[ID].to_list()
    if strangers:
        raise CorpusError(
            f"{path} names captions that are not in the corpus ({some(strangers)}); their ids are those of its column "
            f"{ID}."
        )
    return dict(rows.iter_rows())
