"""MultiVENT 2.0: queries about events, each with the videos that were judged relevant, of a collection.

`multivent_2_q.csv`: `Query_id, query`; `multivent_2_j.jsonl`: `query_id, doc_id, relevance` a line;
`multivent_2_ids.csv`: `id`, all videos that are searched. (Kriz et al. 2025.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evenreel.corpus.given_files import ReleaseFiles, csv_rows, field, json_lines
from evenreel.corpus.imported import Draft, Imported
from evenreel.corpus.relevance import OTHER_CLIPS
from evenreel.errors import CorpusError
from evenreel.wording import count

QUERIES, JUDGEMENTS, IDS = "multivent_2_q.csv", "multivent_2_j.jsonl", "multivent_2_ids.csv"


def read_multivent(paths: Sequence[Path]) -> Imported:
    """Read MultiVENT 2.0; a query becomes a caption of its first relevant video.

    The column `other_clips` of the captions lists the other relevant videos.
    """
    given = ReleaseFiles("MultiVENT 2.0", paths)
    draft = Draft("MultiVENT 2.0")
    queries = {row["Query_id"]: row["query"] for _, row in csv_rows(given.need(QUERIES), ("Query_id", "query"))}
    relevant, below = _relevant(given.need(JUDGEMENTS), queries)
    ids = given.one(IDS)
    listed = [row["id"] for _, row in csv_rows(ids, ("id",))] if ids else []
    for name in dict.fromkeys((*listed, *(name for names in relevant.values() for name in names))):
        draft.clip(name, {"split": "test"}, f"{name},")
    for query, names in relevant.items():
        columns = {"caption_id": query, OTHER_CLIPS: names[1:]}
        draft.caption(names[0], queries[query], columns)
    if below:
        draft.note(f"{count(below, 'judgement')} of a grade below 0, as of spam, counted as not relevant.")
    draft.leave_out("queries have no relevant video", [query for query in queries if query not in relevant])
    if ids is None:
        draft.note(f"{IDS} was not given: the corpus has the judged videos alone.", left_out=True)
    draft.notices += given.unread()
    return draft.finish(all_captioned=False)


def _relevant(path: Path, queries: Mapping[str, str]) -> tuple[dict[str, list[str]], int]:
    """Videos that answer each query, in the order of the file; and how many grades are below 0."""
    found: dict[str, list[str]] = {}
    below = 0
    for where, entry in json_lines(path):
        query, name = field(entry, "query_id", str, where), field(entry, "doc_id", str, where)
        if query not in queries:
            raise CorpusError(f"{where} judges the query {query!r}, which {QUERIES} does not have.")
        grade = field(entry, "relevance", int, where)
        below += grade < 0
        if grade > 0:
            found.setdefault(query, []).append(name)
    return found, below
