"""Headers of a corpus's videos: codec, picture size, rate and length of each clip."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from evenreel.config import MediaLimits, usable_cores
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, MediaError
from evenreel.features.manifest import NO_PATH, CorpusClip, clip_aside, clips_of
from evenreel.features.pool import ClipRun, SetAside
from evenreel.files import file_at, replacing
from evenreel.media.sampling import WHOLE
from evenreel.media.workers import FileStamp, Worker, stamp
from evenreel.progress import Progress
from evenreel.types import Corpus

FACTS = "video_facts.parquet"
"""Usual name of the file in which `clip_facts` keeps headers: a row a video, not a clip."""

READER = "evenreel.media.video:HeaderReader"
FACT_COLUMNS: dict[str, pl.DataType] = {
    "codec": pl.String(),
    "width": pl.Int64(),
    "height": pl.Int64(),
    "fps": pl.Float64(),
    "duration_s": pl.Float64(),
    "frame_count": pl.Int64(),
}
_FILE_COLUMNS: dict[str, pl.DataType] = {
    "path": pl.String(),
    "size": pl.Int64(),
    "mtime_ns": pl.Int64(),
    "ctime_ns": pl.Int64(),
    **FACT_COLUMNS,
}

_SCHEMA = pl.Schema(_FILE_COLUMNS)


@dataclass(frozen=True, eq=False)
class ClipFacts:
    """Header values of the clips of a corpus.

    Attributes:
        table: `clip_id, codec, width, height, fps, duration_s, frame_count`, a row for each clip whose video can be
            read, in the corpus's order. `width` and `height` are as shown; `frame_count` is the header's, and none for
            a clip that is a part of its file.
        set_aside: the other clips.
    """

    table: pl.DataFrame
    set_aside: tuple[SetAside, ...] = ()


@dataclass(frozen=True)
class FactSettings:
    """Settings of reading headers.

    Attributes:
        videos: folder in which the paths of the clips begin.
        cache: file in which facts are kept for the next time; None for none.
        workers: reader processes; 0 means one for each core.
        limits: limits of one file.
    """

    videos: Path = Path()
    cache: Path | None = None
    workers: int = 0
    limits: MediaLimits = field(default_factory=MediaLimits)


def clip_facts(corpus: Corpus, settings: FactSettings, progress: Progress = lambda share: None) -> ClipFacts:
    """Read the header of each video of a corpus once, in processes that can be killed.

    A file that is in the cache as it is now is not opened again; one that could not be read is tried each time.
    """
    clips = list(clips_of(corpus))
    found = _load(settings.cache)

    def is_known(path: str) -> bool:
        row = found.get(path)
        try:
            now = stamp(str(file_at(settings.videos, path)))
        except MediaError:
            return False
        return row is not None and FileStamp(row["size"], row["mtime_ns"], row["ctime_ns"]) == now

    def read(worker: Worker, path: str) -> None:
        place = str(file_at(settings.videos, path))
        row: dict[str, Any] = {"path": path, **asdict(stamp(place))}
        for info, _ in worker.run({"path": place}):
            row |= {name: info[name] for name in FACT_COLUMNS}
        found[path] = row

    def set_aside(path: str, error: MediaError) -> None:
        found[path] = {"path": path, "reason": error.reason, "sentence": str(error)}

    new_reader = partial(Worker, READER, {"limits": asdict(settings.limits)}, settings.limits)
    run = ClipRun(new_reader, read, set_aside, settings.workers or usable_cores(), progress)
    try:
        run.run([path for path in dict.fromkeys(clip.path for clip in clips if clip.path) if not is_known(path)])
    finally:
        _save(settings.cache, found)
    rows: list[dict[str, Any]] = []
    aside: list[SetAside] = []
    for clip in clips:
        try:
            rows.append(_facts(clip, found))
        except MediaError as error:
            aside.append(clip_aside(clip, error))
    return ClipFacts(pl.DataFrame(rows, schema={"clip_id": pl.String(), **FACT_COLUMNS}), tuple(aside))


def with_facts(corpus: Corpus, facts: ClipFacts) -> Corpus:
    """Add header values to a corpus, in columns `codec, width, height, fps, duration_s, frame_count`.

    A value of the corpus stays where the headers say nothing.
    """
    clips, new = corpus.clips, facts.table
    joined = clips.select("clip_id").join(new, on="clip_id", how="left", maintain_order="left")
    try:
        filled = [
            joined[name].fill_null(clips[name].cast(kind)) if name in clips.columns else joined[name]
            for name, kind in FACT_COLUMNS.items()
        ]
    except pl.exceptions.PolarsError as error:
        raise CorpusError(
            f"A column of the clips has the name of a fact of their videos and holds something else ({error}); rename "
            "it."
        ) from error
    return make_corpus(clips.with_columns(filled), corpus.captions)


def _facts(clip: CorpusClip, found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a clip."""
    if not clip.path:
        raise MediaError(*NO_PATH)
    row = found[clip.path]
    if "reason" in row:
        raise MediaError(row["reason"], row["sentence"])
    facts = {name: row[name] for name in FACT_COLUMNS}
    if clip.part != WHOLE:
        length_s = clip.part.length_s(row["duration_s"])
        if not length_s:
            raise MediaError(
                "no_frames",
                f"it begins at {clip.part.start_s:g} s of a video that ends at {row['duration_s']:.2f} s; is it "
                "another cut?",
            )
        facts |= {"duration_s": length_s, "frame_count": None}
    return {"clip_id": clip.clip_id, **facts}


def _load(cache: Path | None) -> dict[str, dict[str, Any]]:
    """Read rows by path; a file that cannot be read costs time alone."""
    if cache is None or not cache.is_file():
        return {}
    with contextlib.suppress(OSError, pl.exceptions.PolarsError):
        table = pl.read_parquet(cache)
        return {row["path"]: row for row in table.iter_rows(named=True)} if table.schema == _SCHEMA else {}
    return {}


def _save(cache: Path | None, found: Mapping[str, dict[str, Any]]) -> None:
    """Write the rows; a folder that cannot be written costs the next run its time, and no result."""
    rows = [row for row in found.values() if "reason" not in row]
    if cache is None or not rows:
        return
    table = pl.DataFrame(rows, schema=_FILE_COLUMNS).sort("path")
    with contextlib.suppress(OSError, pl.exceptions.PolarsError), replacing(cache) as part:
        table.write_parquet(part)
