"""Clips that belong together: a generated clip and its real one, prompts, distractors, and clips in another order."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote

import numpy as np
import polars as pl

from evenreel.config import check_corpus
from evenreel.corpus.imported import csv_rows, some, stem
from evenreel.corpus.tables import as_cell, as_ids, from_cell, make_corpus, select
from evenreel.errors import CorpusError, UsageError
from evenreel.files import VIDEO_SUFFIXES, FileNames, file_at, replacing
from evenreel.types import CAMERA, Corpus

# Real clips and the generated clips made after them (mirrors): their pairs, and corpora with a share of mirrors.
#
# A generated clip names the real one that it was made after in `pair_id`, its generator in `source`, and, in an
# optional column `setting`, what the generator was given. It answers the captions of its real clip.

SETTING = "setting"
"""Column of `Corpus.clips`, not a standard one: what a generator was given, such as `text` or `image`."""

_NAMELESS = "generated"
"""Group of clips that mirror real ones and name no generator."""


def is_generated() -> pl.Expr:
    """Return a polars condition, true for generated clips: not from a camera, or with a `pair_id` and no source."""
    return _source() != CAMERA


def counterparts(corpus: Corpus, group: str | None = None) -> pl.DataFrame:
    """Return the pairs of a real clip and its mirror (the clip generated after it), in the order of the corpus's clips.

    >>> clips = pl.DataFrame({"clip_id": ["a", "b"], "source": ["camera", "sora"], "pair_id": [None, "a"]})
    >>> captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a ball rolls"]})
    >>> counterparts(make_corpus(clips, captions)).rows()
    [('a', 'b', 'sora')]
    """
    check_corpus(corpus)
    clips = corpus.clips
    real = clips.filter(~is_generated())["clip_id"]
    paired = clips.filter(is_generated() & pl.col("pair_id").is_in(real.implode()))
    rows = paired.select(pl.col("pair_id").alias("clip_id"), pl.col("clip_id").alias("generated_id"), _group(clips))
    return rows if group is None else rows.filter(pl.col("group") == group)


def sources_of(corpus: Corpus) -> dict[str, str]:
    """Return the source of each clip, `camera` or the name of a generator, by clip id."""
    return dict(corpus.clips.select("clip_id", _source().alias("source")).iter_rows())


def groups_of(corpus: Corpus) -> dict[str, str]:
    """Return the group of each generated clip (its generator, and the setting where one is noted) by clip id."""
    generated = corpus.clips.filter(is_generated())
    return dict(generated.select("clip_id", _group(corpus.clips)).iter_rows())


def with_generated(
    corpus: Corpus, share: float, seed: int, group: str | None = None, *, split: str | None = None
) -> Corpus:
    """Replace a share of a corpus's real clips by their mirrors, and remove all other mirrors.

    A mirror is the clip generated after a real one. It takes the captions of its real clip, so that the number of clips
    and of captions stays the same (Generative Ghost, section 3.3). Clips that have no mirror stay as they are; captions
    of a mirror's own are dropped. The clips replaced at one share are also replaced at a larger one, with the same
    seed.
    """
    if not 0 <= share <= 1:
        raise CorpusError(f"The share of generated clips is {share}; it must be between 0 and 1.")
    within = _of_split(corpus, split)
    pairs = counterparts(corpus).filter(within)
    mirrors = pl.col("clip_id").is_in(pairs["generated_id"].implode())
    clips, captions = corpus.clips.filter(~mirrors), corpus.captions.filter(~mirrors)
    real = clips.filter(within & ~is_generated()).height
    wanted = round(share * real)
    if wanted or group is not None:
        pairs = _of_one_group(pairs, group)
    if not wanted:
        return make_corpus(clips, captions)
    if pairs.height < wanted:
        raise CorpusError(
            f"{wanted:,} of {real:,} clips are to be generated ones, but only {pairs.height:,} have a counterpart; "
            "take a smaller share, or generate more."
        )
    order = np.random.default_rng(seed).permutation(pairs.height)
    chosen = pairs[np.sort(order[:wanted])]
    return _replaced(corpus, clips, captions, dict(chosen.select("clip_id", "generated_id").iter_rows()))


def only_paired(corpus: Corpus, group: str | None = None, *, split: str | None = None) -> Corpus:
    """Keep only the real clips that have a generated mirror of one group, and these mirrors."""
    within = _of_split(corpus, split)
    pairs = _of_one_group(counterparts(corpus).filter(within), group)
    if pairs.height == 0:
        raise CorpusError("No clip has a generated counterpart; add some with `evenreel corpus pair`.")
    kept = pl.concat([pairs["clip_id"], pairs["generated_id"]])
    return select(corpus, where=~within | pl.col("clip_id").is_in(kept.implode()))


def _source() -> pl.Expr:
    """The generator or the camera, also where a clip says neither."""
    unsaid = pl.when(pl.col("pair_id").is_null()).then(pl.lit(CAMERA)).otherwise(pl.lit(_NAMELESS))
    return pl.coalesce(pl.col("source").replace(dict.fromkeys(("real", "Real"), CAMERA)), unsaid)


def _group(clips: pl.DataFrame) -> pl.Expr:
    named = _source()
    if SETTING not in clips.columns:
        return named.alias("group")
    setting = pl.col(SETTING).cast(pl.String)
    return pl.when(setting.is_null()).then(named).otherwise(named + " " + setting).alias("group")


def _of_split(corpus: Corpus, split: str | None) -> pl.Expr:
    """Whether a row belongs to the split by its `clip_id`."""
    if split is None:
        return pl.lit(True)
    return pl.col("clip_id").is_in(select(corpus, split=split).clips["clip_id"].implode())


def _of_one_group(pairs: pl.DataFrame, group: str | None) -> pl.DataFrame:
    names = pairs["group"].unique(maintain_order=True).to_list()
    if group is None and len(names) > 1:
        raise CorpusError(f"The corpus has generated clips of {', '.join(names)}; name the group that is to be used.")
    if group is not None and group not in names:
        raise CorpusError(f"No clip has a counterpart of {group!r}; there are: {', '.join(names) or 'none'}.")
    found = pairs if group is None else pairs.filter(pl.col("group") == group)
    return found.unique("clip_id", keep="first", maintain_order=True)


def _replaced(corpus: Corpus, clips: pl.DataFrame, captions: pl.DataFrame, mirrors: dict[str, str]) -> Corpus:
    """A corpus in which clips give their place and their captions to mirrors, given by the id of the real clip."""
    place = {clip_id: row for row, clip_id in enumerate(clips["clip_id"])}
    row = pl.coalesce(
        pl.col(name).replace_strict(place, default=None, return_dtype=pl.Int64) for name in ("clip_id", "pair_id")
    )
    kept = clips.filter(~pl.col("clip_id").is_in(list(mirrors)))
    taken = corpus.clips.filter(pl.col("clip_id").is_in(list(mirrors.values())))
    return make_corpus(
        pl.concat([kept, taken]).sort(row, maintain_order=True),
        captions.with_columns(pl.col("clip_id").replace(mirrors)),
    )


# Inputs for video generators: the captions of a clip joined to one prompt, and its keyframe or first half.

Setting = Literal["text", "image", "video"]
"""What a generator is given beside the fused caption: nothing, a keyframe, or the first half of the real clip."""

SETTINGS: tuple[Setting, ...] = get_args(Setting)

Fuse = Callable[[Sequence[str]], str]
"""Captions of a clip, in order -> one text."""

_NO_BEGINNING = "=+-@ ,.;:"
_LONGEST_NAME = 150
_COLUMNS = ("clip_id", "setting", "prompt", "keyframe", "first_half")


@dataclass(frozen=True)
class GenerationRequest:
    """Request to a video generator for the counterpart of a real clip: its inputs and the file to write."""

    clip_id: str  # id of the real clip
    setting: Setting  # `text`, `image` or `video`, the kind of input
    prompt: str  # captions of the real clip as one text
    keyframe: Path | None = None  # PNG of a frame of the real clip, for the setting `image`
    first_half: Path | None = None  # mp4 of the real clip's first half, for the setting `video`


def setting_of(word: str) -> Setting:
    """Check that a word is a setting of video generators (`text`, `image`, `video`), and return it."""
    for setting in SETTINGS:
        if setting == word:
            return setting
    raise UsageError(f"There is no setting {word!r}; there are: {', '.join(SETTINGS)}.")


def join_captions(captions: Sequence[str], most: int | None = None) -> str:
    """Join the captions of a clip to one text, a sentence each: the first `most` distinct ones, None for all.

    Captions that differ only in case, spaces or the last full stop are the same. This stands in for the language model
    that writes one comprehensive description (Generative Ghost, section 2.2): nothing is added or dropped, and captions
    that contradict each other are all kept.

    >>> join_captions(["a man  sings .", "A man sings", "is it a stage?"])
    'A man sings. Is it a stage?'
    """
    distinct: dict[str, str] = {}
    for caption in captions:
        if sentence := _sentence(caption):
            distinct.setdefault(sentence.casefold(), sentence)
    return " ".join(list(distinct.values())[:most])


def _sentence(caption: str) -> str:
    """A caption that begins with a capital and ends in a stop; empty where it says nothing."""
    words = re.sub(r"\s+([,.;:!?])", r"\1", " ".join(caption.split())).lstrip(_NO_BEGINNING)
    if not words.endswith(("?", "!")):
        words = words.rstrip(" ,.;:")
        words += "." if words else ""
    return words[:1].upper() + words[1:]


def captions_of_real(corpus: Corpus) -> dict[str, list[str]]:
    """Return the captions of each real clip by clip id, in the corpus's order; an empty list for a clip without any."""
    captions = dict(corpus.captions.group_by("clip_id").agg("text").iter_rows())
    return {clip_id: captions.get(clip_id, []) for clip_id in corpus.clips.filter(~is_generated())["clip_id"]}


def file_name(clip_id: str) -> str:
    """Turn a clip's id into a file name: characters other than letters, digits and `_.-~@` are percent-encoded.

    >>> file_name("video7010"), file_name("Games/a b")
    ('video7010', 'Games%2Fa%20b')
    """
    name = quote(clip_id, safe="@")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{blake2b(clip_id.encode(), digest_size=8).hexdigest()}"


def write_prompts(path: Path, requests: Sequence[GenerationRequest]) -> None:
    """Write requests to video generators as a csv: `clip_id, setting, prompt, keyframe, first_half`.

    Paths are relative to the folder of the csv. A text that a spreadsheet would run as a formula is escaped by an
    apostrophe, see `evenreel.corpus.tables`.
    """
    try:
        with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(_COLUMNS)
            for one in requests:
                given = (_from(path.parent, one.keyframe), _from(path.parent, one.first_half))
                rows.writerow(map(as_cell, (one.clip_id, one.setting, one.prompt, *given)))
    except OSError as error:
        raise CorpusError(f"{path} cannot be written ({(error.strerror or str(error)).lower()}).") from error


def _from(folder: Path, file: Path | None) -> str:
    return "" if file is None else file.relative_to(folder).as_posix()


# Generated videos: found in a folder or listed in a csv, and added to a corpus beside the real clips they mirror.

_TAKEN_OVER = ("split", "domain", "verb_classes", "noun_classes")
"""What is true of a mirror because it is true of its real clip."""

_SHOWN = 5


@dataclass(frozen=True)
class Generator:
    """A video generator and the kind of input it was given."""

    source: str  # the generator's name
    setting: str | None = None  # its kind of input, such as `text`; None where that is not noted

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
        return self.source if self.setting is None else f"{self.source} {self.setting}"


@dataclass(frozen=True)
class GeneratedClip:
    """A generated video that mirrors a real clip."""

    clip_id: str  # id of the real clip
    path: str  # path of the generated video, absolute or as the corpus writes paths
    generator: Generator  # the generator that made it
    generated_id: str | None = None  # clip id of the generated video in a corpus; None for `CLIP@SOURCE-SETTING`

    @property
    def own_id(self) -> str:
        """Clip id of the generated video in a corpus: `generated_id`, or `CLIP@SOURCE-SETTING` where that is None."""
        made_by = "-".join(filter(None, (self.generator.source, self.generator.setting)))
        return self.generated_id or f"{self.clip_id}@{made_by}"


@dataclass(frozen=True)
class FoundVideos:
    """Generated videos that were found for the real clips of a corpus."""

    clips: tuple[GeneratedClip, ...]  # videos that mirror a clip of the corpus
    strangers: tuple[str, ...] = ()  # names of videos in the folder, or of rows of the csv, that fit no real clip
    missing: tuple[str, ...] = ()  # paths that the csv names and that do not exist


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
    columns = dict.fromkeys(("clip_id", "path", "source", "pair_id", SETTING), pl.String())
    rows = [(one.own_id, one.path, one.generator.source, one.clip_id, one.generator.setting) for one in generated]
    mirrors = pl.DataFrame(rows, columns, orient="row")
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
    the folder without the suffix, or its name alone, also as `file_name` writes it), or else
    the one whose own video has this name. A csv has `clip_id` and `path`, which begins in the folder of the csv, and
    may have `generated_id`, `source` and `setting`; a row without a path is a clip that has no counterpart.
    """
    real, clips, strangers, missing = _RealClips(corpus), list[GeneratedClip](), list[str](), list[str]()
    if place.is_dir():
        if generator is None:
            raise CorpusError(f"Nobody says who made the videos in {place}; name the generator with --source.")
        files = (Path(at) / name for at, _, names in os.walk(place) for name in names if not name.startswith("."))
        for file in sorted(file for file in files if file.suffix.lower() in VIDEO_SUFFIXES):
            if clip_id := real.mirrored_by(place, file):
                clips.append(GeneratedClip(clip_id, path_from(videos, file), generator))
            else:
                strangers.append(str(file))
        return FoundVideos(tuple(clips), tuple(strangers))
    if not place.is_file():
        raise CorpusError(f"{place} does not exist; give a folder of generated videos, or a csv that names them.")
    for where, cells in csv_rows(place, ("clip_id", "path")):
        row = {name: from_cell(cell.strip()) for name, cell in cells.items()}
        if not row["path"]:
            continue
        file, called = file_at(place.parent, row["path"]), f"{row['path']} ({where}: {row['clip_id']})"
        if (clip_id := real.ids.find(row["clip_id"])) is None:
            strangers.append(called)
        elif not file.is_file():
            missing.append(called)
        else:
            source = row.get("source") or (generator and generator.source)
            if not source:
                raise CorpusError(f"{where} names no source; add a column source, or name the generator with --source.")
            made_by = Generator(source, row.get(SETTING) or (generator and generator.setting) or None)
            clips.append(GeneratedClip(clip_id, path_from(videos, file), made_by, row.get("generated_id") or None))
    return FoundVideos(tuple(clips), tuple(strangers), tuple(missing))


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


# Assignment of distractors: which clip's words each clip is to show or say, each clip's used about as often.

OverlayName = Literal["overlay", "overlay-control"]
OVERLAY: OverlayName = "overlay"
OVERLAY_CONTROL: OverlayName = "overlay-control"
OVERLAYS = (OVERLAY, OVERLAY_CONTROL)
"""Names of the edits of clips: with another clip's words, and with as many letters that say nothing."""

OVERLAY_OF = "overlay_of"
"""Column of the clips that names the clip whose words each carries on its screen."""

VoiceoverName = Literal["voiceover", "voiceover-control"]
VOICEOVER: VoiceoverName = "voiceover"
VOICEOVER_CONTROL: VoiceoverName = "voiceover-control"
VOICEOVERS = (VOICEOVER, VOICEOVER_CONTROL)
"""Names of the edits of clips: a voice says another clip's words, and as many syllables that say nothing."""

VOICEOVER_OF = "voiceover_of"
"""Column of the clips that names the clip whose words are said in each."""

Fits = Callable[[str, str], bool]
"""Whether a clip, named first, may carry the words of another one."""


def assign_distractors(
    carriers: Sequence[str], distractors: Sequence[str], fits: Fits, random: np.random.Generator
) -> dict[str, str]:
    """Assign each clip (carrier) another clip (distractor) whose words it is to show or say, drawn at random.

    Where `fits` allows every pair, each distractor is used equally often, give or take one.

    >>> assign_distractors(["a", "b"], ["a", "b"], str.__ne__, np.random.default_rng(0))
    {'a': 'b', 'b': 'a'}
    """
    rounds = -(-len(carriers) // len(distractors)) if distractors else 0
    deck = [distractors[place] for _ in range(rounds) for place in random.permutation(len(distractors))]
    del deck[len(carriers) :]
    for place, carrier in enumerate(carriers):
        if not deck or not fits(carrier, deck[place]):
            _fix_distractor(place, carriers, deck, distractors, fits)
    return dict(zip(carriers, deck, strict=True))


def _fix_distractor(
    place: int, carriers: Sequence[str], deck: list[str], distractors: Sequence[str], fits: Fits
) -> None:
    """Exchange distractors with another carrier where both then fit, else lend somebody's words once more."""
    own = carriers[place]
    for other, distractor in enumerate(deck):
        if fits(own, distractor) and fits(carriers[other], deck[place]):
            deck[place], deck[other] = distractor, deck[place]
            return
    able = [distractor for distractor in distractors if fits(own, distractor)]
    if not able:
        raise CorpusError(
            f"No clip has words that could be put onto the clip {own!r}: others than its own, of a clip that shows "
            "something else. Give a corpus of more clips, or of more words."
        )
    deck[place] = able[place % len(able)]


# Clips that are other clips with their frames in another order, such as the same video played backwards.

ORDER_OF = "order_of"
"""Column of the clips that names the clip whose frames each has in another order; nothing for a clip as it was shot."""


def order_twins(corpus: Corpus) -> dict[str, list[str]]:
    """Return the twins of each clip, the clips that have its frames in another order, by the id of the clip.

    >>> from evenreel.corpus import make_corpus
    >>> clips = pl.DataFrame({"clip_id": ["a", "a_reverse"], "order_of": [None, "a"]})
    >>> captions = pl.DataFrame({"caption_id": ["0"], "clip_id": ["a"], "text": ["a door opens"]})
    >>> order_twins(make_corpus(clips, captions))
    {'a': ['a_reverse']}
    """
    if ORDER_OF not in corpus.clips.columns:
        return {}
    said = corpus.clips.select("clip_id", as_ids(corpus.clips[ORDER_OF])).filter(pl.col(ORDER_OF) != "")
    shot = dict(said.iter_rows())
    found: dict[str, list[str]] = {}
    for twin, clip in shot.items():
        if clip in shot:
            what = "itself" if clip == twin else f"{clip!r}, which is a twin too"
            raise CorpusError(
                f"The clip {twin!r} is said to be {what}, in another order (column {ORDER_OF!r}); name the clip as it "
                "was shot, and nothing for that one."
            )
        found.setdefault(clip, []).append(twin)
    return found
