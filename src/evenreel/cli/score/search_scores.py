"""Scores of a library's whole search, by all that its clips show, say and are called, for measures and audits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from evenreel.errors import CorpusError
from evenreel.files import FileNames
from evenreel.language.bm25 import WORD_COUNTS
from evenreel.library import Library
from evenreel.library.search.query import as_sentence
from evenreel.library.search.result import Hit
from evenreel.library.store.catalog import loaded_path
from evenreel.progress import Progress
from evenreel.types import Corpus, ScoreNotes, Scores

ABOUT = ScoreNotes(uses=(WORD_COUNTS,))
"""Words are weighed by how many clips of the library have them."""


class SearchScores(NamedTuple):
    """Scores of a library's search, and ids of the clips of the corpus that it has no file of."""

    # number of the library's clips that each clip stands before, for each caption; minus infinity for a clip that the
    # search did not find
    scores: Scores
    missing: tuple[str, ...] = ()  # they are no columns of the scores


def search_scores(library: Library, corpus: Corpus, progress: Progress = lambda share: None) -> SearchScores:
    """Search a library for every caption of a corpus, and score its clips by where they stand.

    A file of the library is the clip's whose path it ends with, in any spelling. Captions are searched for as
    sentences, also where they begin as a query in quotes or of one channel does. Clips that stand equal score equally.
    """
    with library.snapshot() as s:
        rows = s.connection.execute("SELECT path, clip_id FROM files WHERE state = 'indexed'")
        found = {loaded_path(path): clip_id for path, clip_id in rows}
    wanted = _paths(corpus)
    clips = _matched(wanted, found)
    if not clips:
        raise CorpusError(
            f"The library {library.path} has none of the {len(wanted):,} files of the corpus, such as "
            f"{next(iter(wanted), '')!r}; index the folder that they lie in."
        )
    columns = [clip for clip in corpus.clips["clip_id"] if clip in clips]
    captions = corpus.captions.select("caption_id", "text").rows()
    values = np.full((len(captions), len(columns)), -np.inf, np.float32)
    for row, (_, text) in enumerate(captions):
        standing = _standing(library.search(as_sentence(text), k=len(found)).hits)
        values[row] = [standing.get(clips[clip], -np.inf) for clip in columns]
        progress((row + 1) / len(captions))
    missing = tuple(clip for clip in corpus.clips["clip_id"] if clip not in clips)
    return SearchScores(Scores(values, [caption for caption, _ in captions], columns, ABOUT), missing)


def _standing(hits: Sequence[Hit]) -> dict[str, float]:
    """How many clips each clip stands before, by its id in the library."""
    standing: dict[str, float] = {}
    behind = len(hits)
    for _, equal in groupby(hits, lambda hit: (hit.weaker is not False, -hit.score, -hit.written)):  # before its path
        ids = [hit.clip_id for hit in equal]
        behind -= len(ids)
        standing |= dict.fromkeys(ids, float(behind))
    return standing


def _paths(corpus: Corpus) -> dict[str, str]:
    """Clips of the corpus by their path."""
    clips: dict[str, str] = {}
    for clip, path in corpus.clips.select("clip_id", "path").iter_rows():
        if path and path in clips:
            raise CorpusError(
                f"The clips {clips[path]!r} and {clip!r} are parts of one video, {path}, and a library finds whole "
                "files; write each into a file of its own (`evenreel corpus edit --remove motion --control`)."
            )
        if path:
            clips[path] = clip
    return clips


def _matched(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Clips of the library by those of the corpus."""
    ends = {PurePath(path.replace("\\", "/")).as_posix(): clip for path, clip in wanted.items()}
    named, lengths = FileNames(ends), sorted({path.count("/") + 1 for path in ends}, reverse=True)
    fitting: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for path in found:
        names = PurePath(path).as_posix().split("/")
        tails = ("/".join(names[-length:]) for length in lengths)
        if fits := next(((end, end == tail) for tail in tails if (end := named.find(tail))), None):
            fitting[ends[fits[0]]].append((path, fits[1]))
    files = {clip: [one for one, same in its if same] or [one for one, _ in its] for clip, its in fitting.items()}
    several = next((paths for paths in files.values() if len({found[path] for path in paths}) > 1), None)
    if several is not None:
        raise CorpusError(
            f"The library has {several[0]} and {several[1]}, and the path of one clip of the corpus fits both; index "
            "the files of this corpus alone."
        )
    return {clip: found[paths[0]] for clip, paths in files.items()}
