"""A library as an audit reads it: its clips as a corpus, and the scores that its search gives for some queries.

It is not known which clip answers which query, so the corpus has no captions; audits of sources and lengths need none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arguments import one_or_more
from evenreel.arrays import Indices
from evenreel.errors import CorpusError, UsageError
from evenreel.library.search.query import MAX_CHARACTERS, readable, unit
from evenreel.library.search.seen import DECIMALS
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.sources import ClipSources, read_sources
from evenreel.library.store.vectors import ExactVectors
from evenreel.types import NO_NOTES, Corpus, Encoder, FloatArray, ScoreNotes

if TYPE_CHECKING:
    import polars as pl

QUERIES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class BestFrames:
    """Similarity (Q, V) of each query to each clip's best frame, computed a block at a time; implements `ScoreBlocks`.

    Attributes:
        caption_ids: Q ids of queries: `q1`, `q2`, ...
        video_ids: V ids of clips.
        queries: (Q, D) vectors of unit length.
        vectors: store of all frames of the library.
        first_rows: (V,) row of each clip's first frame in `vectors`.
        counts: (V,) number of frames of each clip.
        about: notices of what was left out, the texts of the queries, and the file of each clip as a search shows it; a
            clip whose files are all gone has none.
    """

    caption_ids: Sequence[str]
    video_ids: Sequence[str]
    queries: FloatArray
    vectors: ExactVectors
    first_rows: Indices
    counts: Indices
    about: ScoreNotes = NO_NOTES

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the similarities of some queries and clips, rounded as in search: equal frames score equally."""
        found = self.vectors.best_per_clip(self.queries[captions], self.first_rows[videos], self.counts[videos])
        return np.round(found, DECIMALS)


class EncodedQueries(NamedTuple):
    """Encoded queries: vectors (Q, D) of unit length, their texts, and notices of what was cut."""

    vectors: FloatArray
    notices: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def encoded(queries: Sequence[str], encoder: Encoder) -> EncodedQueries:
    """Clean and encode queries as a search would."""
    queries = one_or_more(queries, "queries")
    texts = [readable(query) for query in queries]
    if not texts:
        raise UsageError("There is no query to audit with; give some sentences that people search for.")
    if "" in texts:
        raise UsageError(f"Query {texts.index('') + 1} is empty; say in a few words what is to be seen, or drop it.")
    parts = (texts[start : start + QUERIES_AT_ONCE] for start in range(0, len(texts), QUERIES_AT_ONCE))
    vectors = np.stack([unit(vector) for part in parts for vector in encoder.encode_text(part).sentence])
    return EncodedQueries(vectors, tuple(_cut(queries)), tuple(texts))


def _cut(queries: Sequence[str]) -> Iterator[str]:
    long = sum(len(query.strip()) > MAX_CHARACTERS for query in queries)
    if long:
        yield f"Of {long:,} of {len(queries):,} queries only the first {MAX_CHARACTERS:,} characters were read."


def audited(library: Snapshot, searched: EncodedQueries, *, every_clip: bool) -> tuple[Corpus, BestFrames]:
    """Return a library's clips with frames (or with frames and a known source) as a corpus, with scores of queries."""
    vectors, clip_ids = library.vectors, library.seen_ids
    if vectors is None:
        raise UsageError("The library has no vision, so no similarity can be audited.")
    sources = read_sources(library.connection, clip_ids)
    rows = _with_frames(sources) if every_clip else _of_known_source(sources)
    ids = [f"q{number}" for number in range(1, len(searched.vectors) + 1)]
    about = ScoreNotes(
        notices=(*searched.notices, *_left_out(library, len(rows), "no" if every_clip else "no known source or no")),
        texts=dict(zip(ids, searched.texts, strict=False)),
        names={clip_ids[row]: path for row in rows if (path := sources.paths[row])},
    )
    scores = BestFrames(
        caption_ids=ids,
        video_ids=[clip_ids[row] for row in rows],
        queries=searched.vectors,
        vectors=vectors,
        first_rows=library.first_rows[library.seen[rows]],
        counts=library.counts[library.seen[rows]],
        about=about,
    )
    return _corpus(library, sources, rows), scores


def _with_frames(sources: ClipSources) -> Indices:
    if not sources.names:
        raise UsageError("No clip of the library has frames, so there is nothing to audit; index some videos first.")
    return np.arange(len(sources.names), dtype=np.int64)


def _of_known_source(sources: ClipSources) -> Indices:
    rows = np.array([row for row, name in enumerate(sources.names) if name is not None], np.int64)
    if not len(rows):
        raise CorpusError(
            "No clip with frames has a source, so there is nothing to audit; say in a column 'source' of the metadata "
            "table: 'camera' for real clips, the generator's name for others."
        )
    return rows


def _left_out(library: Snapshot, audited: int, lacking: str) -> tuple[str, ...]:
    (held,) = library.connection.execute("SELECT count(*) FROM clips").fetchone()
    if audited == held:
        return ()
    return (f"{held - audited:,} of {held:,} clips have {lacking} frames, and are left out.",)


def _corpus(library: Snapshot, sources: ClipSources, rows: Indices) -> Corpus:
    import polars as pl

    from evenreel.corpus import make_corpus

    captions = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
    return make_corpus(_clips(library, sources, rows), captions)


def _clips(library: Snapshot, sources: ClipSources, rows: Indices) -> pl.DataFrame:
    """One row a clip, in the order of `rows`, with its format: sources may differ in that as well."""
    import polars as pl

    clip_ids = library.seen_ids
    about = {
        clip_id: values
        for clip_id, *values in library.connection.execute(
            "SELECT clip_id, duration_s, fps, container, codec, width, height FROM clips"
        )
    }
    columns = ("duration_s", "fps", "container", "codec", "width", "height")
    table = pl.DataFrame([about[clip_ids[row]] for row in rows], schema=columns, orient="row", infer_schema_length=None)
    length = pl.when(pl.col("duration_s") > 0).then(pl.col("duration_s"))
    said = pl.DataFrame(
        {
            "clip_id": [clip_ids[row] for row in rows],
            "path": [sources.paths[row] for row in rows],
            "source": [sources.names[row] for row in rows],
            "pair_id": [clip_ids[real] if (real := sources.mirrored[row]) >= 0 else None for row in rows],
            "setting": [sources.settings[row] for row in rows],
        },
        schema_overrides={"pair_id": pl.String, "setting": pl.String},
    )
    timed = table.select(
        pl.when(length.is_not_null()).then(0.0).alias("start_s"),
        length.alias("end_s"),
        pl.when(pl.col("fps") > 0).then(pl.col("fps")).alias("fps"),
        *columns[2:],
    )
    noted = said if said["setting"].is_not_null().any() else said.drop("setting")
    return noted.hstack(timed)
