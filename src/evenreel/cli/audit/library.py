"""A library as an audit reads it: its clips as a corpus, and the scores that its search gives for some queries.

It is not known which clip answers which query, so the corpus has no captions; audits of sources and lengths need none.
For the audit of order every clip is there as it was shot, and with its stored frames turned round. A search by the best
frame scores both alike. A matcher that re-ranks reads all frames of a clip, and may tell which came first.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices, slices
from evenreel.config import one_or_more
from evenreel.errors import CorpusError, UsageError
from evenreel.files import printable
from evenreel.library.search.query import MAX_CHARACTERS, readable
from evenreel.library.search.seen import DECIMALS, unit
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.store.catalog import loaded_path
from evenreel.library.store.vectors import ExactVectors
from evenreel.types import CAMERA, NO_NOTES, Corpus, Encoder, FloatArray, ScoreBlocks, ScoreNotes, Scores

if TYPE_CHECKING:
    import polars as pl

    from evenreel.checkpoint import Pretrained
    from evenreel.library import Library
    from evenreel.similarity.tiles import Encoded

QUERIES_AT_ONCE = 256
CLIP_COLUMNS = ("duration_s", "fps", "container", "codec", "width", "height")
NO_FRAMES = "No clip of the library has frames, so there is nothing to audit; index some videos first."


@dataclass(frozen=True, eq=False)
class BestFrames:
    """Similarity (Q, V) of each query to each clip's best frame, a block at a time; implements `ScoreBlocks`."""

    caption_ids: Sequence[str]  # (Q,) ids of queries (`q1`, `q2`, ...)
    video_ids: Sequence[str]  # (V,) ids of clips
    queries: FloatArray  # (Q, D) vectors of unit length
    vectors: ExactVectors  # all frames of the library
    first_rows: Indices  # (V,) row of each clip's first frame in `vectors`
    counts: Indices  # (V,) number of its frames
    about: ScoreNotes = NO_NOTES  # what was left out, texts of queries, the file of each clip as a search shows it

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        """Return the similarities of some queries and clips, rounded as in search: equal frames score equally."""
        found = self.vectors.best_per_clip(self.queries[captions], self.first_rows[videos], self.counts[videos])
        return np.round(found, DECIMALS)


def audit_inputs(library: Library, queries: Sequence[str], *, every_clip: bool = False) -> tuple[Corpus, ScoreBlocks]:
    """Return clips and scores for an audit of a library.

    Returns:
        The clips with frames and, unless `every_clip`, a known source, without captions; and the similarity of each
        query (`q1`, `q2`, ...) to each clip's best frame. The `notices` of the scores say how many clips are left out.
    """
    import polars as pl

    from evenreel.corpus import make_corpus

    if library.encoder is None:
        raise UsageError(f"The library {library.path} is searched without vision, so no similarity can be audited.")
    encoded, texts, cut = _encoded(queries, library.encoder)
    with library.snapshot() as s:
        clip_ids = s.seen_ids
        if s.vectors is None or (every_clip and not len(clip_ids)):
            raise UsageError(NO_FRAMES)
        notes = clip_notes(s.connection, clip_ids)
        rows = np.array([row for row, one in enumerate(notes) if every_clip or one.source is not None], np.int64)
        if not len(rows):
            raise CorpusError(
                "No clip with frames has a source, so there is nothing to audit; say in a column 'source' of the "
                "metadata table: 'camera' for real clips, the generator's name for others."
            )
        (held,) = s.connection.execute("SELECT count(*) FROM clips").fetchone()
        lacking = "no" if every_clip else "no known source or no"
        left_out = f"{held - len(rows):,} of {held:,} clips have {lacking} frames, and are left out."
        names = {clip_ids[row]: path for row in rows if (path := notes[row].shown_path)}
        about = ScoreNotes(notices=(*cut, *([left_out] if len(rows) < held else [])), texts=texts, names=names)
        ids, seen = [clip_ids[row] for row in rows], s.seen[rows]
        scores = BestFrames(list(texts), ids, encoded, s.vectors, s.first_rows[seen], s.counts[seen], about)
        captions = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
        return make_corpus(_clips(s, notes, rows), captions), scores


def _encoded(queries: Sequence[str], encoder: Encoder) -> tuple[FloatArray, dict[str, str], tuple[str, ...]]:
    """Clean and encode queries as a search would: unit vectors (Q, D), texts by id, notices of what was cut."""
    queries = one_or_more(queries, "queries")
    texts = [readable(query) for query in queries]
    if not texts:
        raise UsageError("There is no query to audit with; give some sentences that people search for.")
    if "" in texts:
        raise UsageError(f"Query {texts.index('') + 1} is empty; say in a few words what is to be seen, or drop it.")
    parts = (texts[some] for some in slices(len(texts), QUERIES_AT_ONCE))
    vectors = np.stack([unit(vector) for part in parts for vector in encoder.encode_text(part).sentence])
    long = sum(len(query.strip()) > MAX_CHARACTERS for query in queries)
    cut = f"Of {long:,} of {len(queries):,} queries only the first {MAX_CHARACTERS:,} characters were read."
    by_id = {f"q{number}": text for number, text in enumerate(texts, start=1)}
    return vectors, by_id, (cut,) if long else ()


def _clips(library: Snapshot, notes: Sequence[ClipNote], rows: Indices) -> pl.DataFrame:
    """One row a clip, in the order of `rows`, with its format: sources may differ in that as well."""
    import polars as pl

    ids, said = [library.seen_ids[row] for row in rows], [notes[row] for row in rows]
    known = library.connection.execute(f"SELECT clip_id, {', '.join(CLIP_COLUMNS)} FROM clips")
    about = {clip_id: values for clip_id, *values in known}
    clips = pl.DataFrame(
        {
            "clip_id": ids,
            "path": [one.shown_path for one in said],
            "source": [one.source for one in said],
            "pair_id": [one.mirrors for one in said],
            "setting": [one.setting for one in said],
        },
        schema_overrides={"pair_id": pl.String, "setting": pl.String},
    )
    formats = pl.DataFrame([about[one] for one in ids], CLIP_COLUMNS, orient="row", infer_schema_length=None)
    length = pl.when(pl.col("duration_s") > 0).then(pl.col("duration_s"))
    timed = formats.select(
        pl.when(length.is_not_null()).then(0.0).alias("start_s"),
        length.alias("end_s"),
        pl.when(pl.col("fps") > 0).then(pl.col("fps")).alias("fps"),
        *CLIP_COLUMNS[2:],
    )
    return (clips if clips["setting"].is_not_null().any() else clips.drop("setting")).hstack(timed)


# Sources -------------------------------------------------------------------------------------------------------------


class ClipNote(NamedTuple):
    """What the metadata of a clip's first file says; nothing of a clip whose files are all gone."""

    path: str | None = None  # the file
    source: str | None = None  # `camera`, a generator, or None where it is unknown
    # what a generated clip says of the real one that it mirrors: its clip id, or its file name, with or without suffix
    # and any of the folders above it (`0007`, `0007.mp4`, `real/0007.mp4`)
    pair_id: str | None = None
    setting: str | None = None  # input of the generator, such as `text` or `image`
    mirrors: str | None = None  # id of the real clip that is meant, None where none or several could be

    @property
    def shown_path(self) -> str | None:
        return self.path and printable(self.path)


def clip_notes(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> list[ClipNote]:
    """Read the sources of some clips, and which real one of these each generated one mirrors.

    Only real clips are candidates, so that a mirror may have the name of its original, in another folder.
    """
    rows = connection.execute(
        "SELECT clip_id, path, json_extract(metadata, '$.source'), json_extract(metadata, '$.pair_id'),"
        " json_extract(metadata, '$.setting') FROM files WHERE state = 'indexed' ORDER BY path DESC"
    )  # of a clip's files the first one comes last
    known = {
        clip_id: ClipNote(loaded_path(path), *(None if one in {None, ""} else printable(str(one)) for one in said))
        for clip_id, path, *said in rows
    }
    notes = [known.get(clip_id, ClipNote()) for clip_id in clip_ids]
    real = {clip_id: one for clip_id, one in zip(clip_ids, notes, strict=True) if one.source == CAMERA}
    by_stem: dict[str, list[tuple[PurePath, str]]] = defaultdict(list)
    for clip_id, one in real.items():
        file = PurePath(one.path or "")
        by_stem[file.stem].append((file, clip_id))

    def original(pair_id: str) -> str | None:
        if pair_id in real:
            return pair_id
        wanted = tuple(part for part in PurePath(pair_id).parts if part != "..")
        found = {
            clip_id
            for stem in ({wanted[-1], PurePath(wanted[-1]).stem} if wanted else ())
            for file, clip_id in by_stem.get(stem, ())
            if wanted in {file.parts[-len(wanted) :], file.with_suffix("").parts[-len(wanted) :]}
        }
        return found.pop() if len(found) == 1 else None

    return [
        one._replace(mirrors=original(one.pair_id)) if one.pair_id and one.source not in {None, CAMERA} else one
        for one in notes
    ]


# Order ---------------------------------------------------------------------------------------------------------------

TURNED = " turned round"  # behind the id of a clip whose frames are turned round
MOST_CLIPS = 1_000  # clips of a library that are scored in both orders; of more, so many are drawn at random
_AT_ONCE = 64


def order_inputs(
    library: Library, queries: Sequence[str], pretrained: Pretrained | None = None, *, seed: int = 0
) -> tuple[Corpus, ScoreBlocks]:
    """Return clips of a library in both orders and their scores, for an audit of order."""
    import polars as pl

    from evenreel.corpus import make_corpus
    from evenreel.corpus.counterparts import ORDER_OF

    if pretrained is not None:
        library.check_matcher(pretrained)
    encoder = library.encoder
    with library.snapshot() as s:
        if encoder is None or s.vectors is None:
            raise UsageError("The library is searched without vision, so no order of frames can be audited.")
        (encoded, texts, cut), ids = _encoded(queries, encoder), s.seen_ids
        if not len(ids):
            raise UsageError(NO_FRAMES)
        places = np.arange(len(ids))
        if len(ids) > MOST_CLIPS:
            places = np.sort(np.random.default_rng(seed).choice(len(ids), MOST_CLIPS, replace=False))
        some = (places[part].tolist() for part in slices(len(places), _AT_ONCE))
        if pretrained is None:
            values = [_by_best_frame(s, s.vectors, encoded, part) for part in some]
        else:
            asked = _matcher_queries(encoder, pretrained, list(texts.values()))
            values = [_by_matcher(s, encoder, pretrained, asked, part) for part in some]
    shot = [ids[place] for place in places.tolist()]
    both = shot + [f"{clip}{TURNED}" for clip in shot]
    notices = [*cut]
    if len(places) < len(ids):
        notices.append(f"Of {len(ids):,} clips {len(places):,}, drawn at random, were looked at in both orders.")
    if encoder.window.frames > 1:
        notices.append(
            f"The library's model sees {encoder.window.frames} frames at once, and within these they stay in order: "
            "only their sequence is turned round. To turn all round, index copies of the videos that play backwards."
        )
    about = ScoreNotes(uses=pretrained.about.uses if pretrained else (), notices=tuple(notices), texts=texts)
    clips = pl.DataFrame({"clip_id": both, ORDER_OF: [None] * len(shot) + shot})
    captions = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
    table = np.concatenate(np.concatenate(values, axis=2), axis=1)
    return make_corpus(clips, captions), Scores(table, list(texts), both, about)


def _by_best_frame(s: Snapshot, vectors: ExactVectors, queries: FloatArray, places: Sequence[int]) -> NDArray[Any]:
    """Scores (2, Q, C) of queries with clips, given by their places: as they are, and turned round."""
    frames = [
        np.asarray(vectors.read(int(s.first_rows[one]), int(s.counts[one])), np.float32) for one in s.seen[list(places)]
    ]
    best = [[(queries @ order.T).max(axis=1) for order in (one, one[::-1])] for one in frames]
    return np.round(np.array(best).transpose(1, 2, 0), DECIMALS)


def _by_matcher(
    s: Snapshot, encoder: Encoder, pretrained: Pretrained, queries: Sequence[Encoded], places: Sequence[int]
) -> NDArray[Any]:
    from evenreel.edits.frame_order import reordered
    from evenreel.library.search.rerank import as_given, stored_clip
    from evenreel.matchers.scoring import encode_videos, score_with_parts
    from evenreel.similarity.tiles import Encoded, gather_rows, row_bytes

    matcher, inputs = pretrained.matcher, pretrained.about.inputs
    stored = [stored_clip(s, s.seen_ids[place], text=inputs.windows is not None) for place in places]
    clips, found = [as_given(clip, inputs, encoder) for clip in stored], []
    for order in (clips, [reordered(one, "reversed") for one in clips]):
        states = [(place, encode_videos(matcher, one).state) for place, one in enumerate(order)]
        largest_first = sorted(states, key=lambda placed: -row_bytes(placed[1]))  # so that none is copied for room
        rows = ((slice(place, place + 1), state) for place, state in largest_first)
        videos = Encoded(tuple(one.ids[0] for one in order), gather_rows(len(order), rows))
        found.append([score_with_parts(matcher, query, videos).values for query in queries])
    return np.round(np.array(found), DECIMALS)


def _matcher_queries(encoder: Encoder, pretrained: Pretrained, texts: Sequence[str]) -> list[Encoded]:
    from evenreel.library.search.rerank import query_features
    from evenreel.matchers.matcher import check_words
    from evenreel.matchers.scoring import encode_texts

    found = []
    for text in texts:
        query = query_features(pretrained, text, encoder.encode_text([text]))
        check_words(pretrained.matcher, query.word_mask)
        found.append(encode_texts(pretrained.matcher, query))
    return found
