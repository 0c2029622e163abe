"""Generated videos: found in a folder or listed in a csv, and added to a corpus beside the real clips they mirror."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from evenreel.corpus.cells import from_cell
from evenreel.corpus.counterparts import SETTING, counterparts, group_name, is_generated
from evenreel.corpus.given_files import csv_rows, stem
from evenreel.corpus.imported import some, table
from evenreel.corpus.prompts import file_name
from evenreel.corpus.tables import make_corpus
from evenreel.errors import CorpusError
from evenreel.files import VIDEO_SUFFIXES, FileNames, file_at
from evenreel.types import CAMERA, Corpus

_TAKEN_OVER = ("split", "domain", "verb_classes", "noun_classes")
"""What is true of a mirror because it is true of its real clip."""

_SHOWN = 5


@dataclass(frozen=True)
class Generator:
    """A video generator and the kind of input it was given.

    Attributes:
        source: the generator's name.
        setting: its kind of input, such as `text`; None where that is not noted.
    """

    source: str
    setting: str | None = None

    def __post_init__(self) -> None:
        if not self.source.strip() or self.source == CAMERA:
            raise CorpusError(
                f"The source of generated clips is {self.source!r}; give the name of the generator ({CAMERA!r} is said "
                "of real clips)."
            )
        if self.setting is not None and not self.setting.strip():
            raise CorpusError(
                "The setting of generated clips is empty; give it a word, such as 'text', or leave it out."
            )

    @property
    def group(self) -> str:
        """Name of the group that the generator's clips form: its name, and the setting where one is noted."""
        return group_name(self.source, self.setting)


@dataclass(frozen=True)
class GeneratedClip:
    """A generated video that mirrors a real clip.

    Attributes:
        clip_id: id of the real clip.
        path: path of the generated video, absolute or as the corpus writes paths.
        generator: the generator that made it.
        generated_id: clip id of the generated video in a corpus; None for `CLIP@SOURCE-SETTING`.
    """

    clip_id: str
    path: str
    generator: Generator
    generated_id: str | None = None

    @property
    def own_id(self) -> str:
        """Clip id of the generated video in a corpus: `generated_id`, or `CLIP@SOURCE-SETTING` where that is None."""
        return (
            self.generated_id
            or f"{self.clip_id}@{'-'.join(filter(None, (self.generator.source, self.generator.setting)))}"
        )


@dataclass(frozen=True)
class FoundVideos:
    """Generated videos that were found for the real clips of a corpus.

    Attributes:
        clips: videos that mirror a clip of the corpus.
        strangers: names of videos in the folder, or of rows of the csv, that fit no real clip.
        missing: paths that the csv names and that do not exist.
    """

    clips: tuple[GeneratedClip, ...]
    strangers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def pair_clips(corpus: Corpus, generated: Sequence[GeneratedClip]) -> Corpus:
    """Add generated clips to a corpus, after its own clips.

    A generated clip gets the split, domain and classes of its real clip and answers that clip's captions; it has no
    caption, length or frame rate of its own. Real clips without a source get the source `camera`.

    >>> clips = pl.DataFrame({"clip_id": ["a"], "path": ["a.mp4"], "split": ["test"]})
    >>> captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a ball rolls"]})
    >>> mirror = GeneratedClip("a", "sora/a.mp4", Generator("sora", "text"))
    >>> pair_clips(make_corpus(clips, captions), [mirror]).clips.select("clip_id", "source", "pair_id", "split").rows()
    [('a', 'camera', None, 'test'), ('a@sora-text', 'sora', 'a', 'test')]
    """
    if violations := list(_violations(corpus, generated)):
        more = [f"... and {len(violations) - _SHOWN:,} more."] if len(violations) > _SHOWN else []
        raise CorpusError(*violations[:_SHOWN], *more)
    if not generated:
        return corpus
    clips = corpus.clips.with_columns(
        pl.when(is_generated()).then(pl.col("source")).otherwise(pl.lit(CAMERA)).alias("source")
    )
    mirrors = _mirrors(clips, generated)
    if SETTING in clips.columns:
        clips = clips.with_columns(pl.col(SETTING).cast(pl.String))
    return make_corpus(pl.concat([clips, mirrors], how="diagonal"), corpus.captions)


def _mirrors(clips: pl.DataFrame, generated: Sequence[GeneratedClip]) -> pl.DataFrame:
    """Rows of generated clips, in their order; they have a setting where one is noted anywhere."""
    columns = {name: pl.String() for name in ("clip_id", "path", "source", "pair_id", SETTING)}
    rows = [
        dict(
            zip(columns, (one.own_id, one.path, one.generator.source, one.clip_id, one.generator.setting), strict=True)
        )
        for one in generated
    ]
    mirrors = table(rows, columns)
    if mirrors[SETTING].null_count() == mirrors.height and SETTING not in clips.columns:
        mirrors = mirrors.drop(SETTING)
    shared = clips.select(pl.col("clip_id").alias("pair_id"), *_TAKEN_OVER)
    return mirrors.join(shared, on="pair_id", how="left", maintain_order="left")


def _violations(corpus: Corpus, generated: Sequence[GeneratedClip]) -> Iterator[str]:
    """A sentence for each clip that cannot be paired."""
    made = dict(corpus.clips.select("clip_id", is_generated()).iter_rows())
    owner = {path: clip_id for clip_id, path in corpus.clips.select("clip_id", "path").iter_rows() if path}
    pairs = {(real, group): f"the clip {mirror}" for real, mirror, group in counterparts(corpus).iter_rows()}
    for one in generated:
        if made.get(one.clip_id, True):
            what = "a generated clip itself" if one.clip_id in made else "no clip of the corpus"
            yield f"{one.path} is to mirror {one.clip_id!r}, which is {what}; name a real clip."
        if one.path in owner:
            yield (
                f"{one.path} is the video of the clip {owner[one.path]!r} already; give the folder that the generated "
                "videos alone are in."
            )
        key = one.clip_id, one.generator.group
        if key in pairs:
            yield (
                f"The clip {one.clip_id!r} has two mirrors of {one.generator.group}: {pairs[key]} and {one.path}; keep "
                "one, or say of one that it has another source or setting."
            )
        elif one.own_id in made:
            yield f"The id {one.own_id!r} of {one.path} is that of another clip; give it an id of its own."
        owner.setdefault(one.path, one.own_id)
        pairs.setdefault(key, one.path)
        made.setdefault(one.own_id, True)


def find_generated(corpus: Corpus, place: Path, videos: Path, generator: Generator | None = None) -> FoundVideos:
    """Look for generated videos in a folder, or in a csv that names them.

    A video of a folder, searched with all folders in it, mirrors the real clip whose id it is called by (its place in
    the folder without the suffix, or its name alone, also as `evenreel.corpus.prompts.file_name` writes it), or else
    the one whose own video has this name. A csv has `clip_id` and `path`, which begins in the folder of the csv, and
    may have `generated_id`, `source` and `setting`; a row without a path is a clip that has no counterpart.
    """
    if place.is_dir():
        if generator is None:
            raise CorpusError(f"Nobody says who made the videos in {place}; name the generator with --source.")
        return _in_folder(_RealClips(corpus), place, videos, generator)
    if not place.is_file():
        raise CorpusError(f"{place} does not exist; give a folder of generated videos, or a csv that names them.")
    return _in_table(_RealClips(corpus), place, videos, generator)


def path_from(videos: Path, file: Path) -> str:
    """Return a video's path as a corpus writes it: from the folder `videos` on, or absolute if it lies elsewhere."""
    file, videos = (Path(os.path.abspath(path)) for path in (file, videos))
    return file.relative_to(videos).as_posix() if file.is_relative_to(videos) else str(file)


class _RealClips:
    """The real clips of a corpus by the names that a generated video may have."""

    def __init__(self, corpus: Corpus) -> None:
        real = corpus.clips.filter(~is_generated()).select("clip_id", "path")
        self.ids = FileNames(real["clip_id"])
        self._by_file_name: dict[str, str] = {file_name(clip_id): clip_id for clip_id in real["clip_id"]}
        self._by_video: dict[str, list[str]] = {}
        for clip_id, path in real.iter_rows():
            if path:
                self._by_video.setdefault(stem(path), []).append(clip_id)
        self._file_names, self._videos = FileNames(self._by_file_name), FileNames(self._by_video)

    def mirrored_by(self, folder: Path, file: Path) -> str | None:
        """The clip that a file of a folder is called after; None where it is none."""
        name = file.relative_to(folder).with_suffix("").as_posix()
        for called in (name, file.stem):
            if clip_id := self.ids.find(called):
                return clip_id
        if named := self._file_names.find(file.stem):
            return self._by_file_name[named]
        found = self._by_video.get(self._videos.find(file.stem) or "", [])
        if len(found) > 1:
            raise CorpusError(
                f"{file} could mirror {len(found):,} clips, whose videos are all called {file.stem!r} ({some(found)}); "
                "call it after the id of the clip, or write a csv with clip_id and path."
            )
        return found[0] if found else None


def _in_folder(real: _RealClips, folder: Path, videos: Path, generator: Generator) -> FoundVideos:
    clips, strangers = [], []
    for file in _video_files(folder):
        clip_id = real.mirrored_by(folder, file)
        if clip_id is None:
            strangers.append(str(file))
        else:
            clips.append(GeneratedClip(clip_id, path_from(videos, file), generator))
    return FoundVideos(tuple(clips), tuple(strangers))


def _video_files(folder: Path) -> Iterable[Path]:
    """Files that may be videos, in a folder and those in it, by name; hidden ones are passed over."""
    found = (Path(place) / name for place, _, names in os.walk(folder) for name in names if not name.startswith("."))
    return sorted(file for file in found if file.suffix.lower() in VIDEO_SUFFIXES)


def _in_table(real: _RealClips, place: Path, videos: Path, generator: Generator | None) -> FoundVideos:
    clips, strangers, missing = [], [], []
    for where, cells in csv_rows(place, ("clip_id", "path")):
        row = {name: from_cell(cell.strip()) for name, cell in cells.items()}
        if not row["path"]:
            continue
        file = file_at(place.parent, row["path"])
        if (clip_id := real.ids.find(row["clip_id"])) is None:
            strangers.append(f"{row['path']} ({where}: {row['clip_id']})")
        elif not file.is_file():
            missing.append(f"{row['path']} ({where}: {row['clip_id']})")
        else:
            made_by = _generator_of(row, generator, where)
            clips.append(GeneratedClip(clip_id, path_from(videos, file), made_by, row.get("generated_id") or None))
    return FoundVideos(tuple(clips), tuple(strangers), tuple(missing))


def _generator_of(row: dict[str, str], generator: Generator | None, where: str) -> Generator:
    """What a row says, else what is said of all."""
    source = row.get("source") or (generator and generator.source)
    if not source:
        raise CorpusError(f"{where} names no source; add a column source, or name the generator with --source.")
    return Generator(source, row.get(SETTING) or (generator and generator.setting) or None)
