"""`evenreel corpus pair`, `prompts` and `mix`: real clips and the generated ones that mirror them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.corpus.command import CORPUS_FILES
from evenreel.cli.options import MOST, CorpusArgument, CorpusClips, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, list_aside, print_json, safe
from evenreel.config import MediaLimits, OptionForm
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenreel.corpus.pairing import FoundVideos
    from evenreel.edits.conditioning import PreparedRequests
    from evenreel.types import Corpus

MANY = 10

OutOption = Annotated[Path, typer.Option(help="Folder that the corpus is written to.")]


@dataclass(frozen=True)
class GeneratedVideos:
    """Generated videos that mirror the real clips of a corpus, and who made them.

    Attributes:
        generated: folder of videos called after the clips that they mirror, or a csv: clip_id, path.
        source: the generator; a csv may say it in a column source.
        setting: what the generator was given: text, image, video, or a word of your own.

    Raises:
        UsageError: nobody says who made the videos of a folder, or a setting stands without its generator.
    """

    generated: Path
    source: str | None = None
    setting: str | None = None

    def __post_init__(self) -> None:
        if self.source is None and self.generated.is_dir():
            raise UsageError(f"Say who made the videos in {self.generated}: --source NAME.")
        if self.source is None and self.setting is not None:
            raise UsageError("--setting goes with --source; give that too, or give the csv columns source and setting.")


@dataclass(frozen=True)
class PromptOptions:
    """What a video generator is given of each real clip, and how that is read.

    Attributes:
        setting: `text`: captions alone; `image`: and a keyframe; `video`: and the first half of the clip.
        captions: at most so many captions of a clip in its prompt; None for all.
        workers: reader processes; 0 means one for each core.
        limits: limits of one clip.
    """

    setting: str = "text"
    captions: Annotated[int | None, OptionForm(least=1, most=MOST)] = None
    workers: int = 0
    limits: MediaLimits = field(default_factory=MediaLimits)


@dataclass(frozen=True)
class Mixture:
    """The real clips of a corpus that give their place to a mirror.

    Attributes:
        share: share of the real clips, from 0 to 1, that give their place to a mirror.
        split: change this split alone; None for all of the corpus.
        group: generator and setting, such as 'sora text'; needed where there are several.
        seed: seed of the choice; shares of one seed are nested.
        paired_only: leave out real clips that have no mirror of the group.
    """

    share: float
    split: str | None = None
    group: str | None = None
    seed: int = 0
    paired_only: bool = False

    def made(self, corpus: Corpus) -> Corpus:
        """Replace real clips of a corpus by their mirrors, which take their captions.

        Raises:
            CorpusError: the corpus has no such split or group, or too few mirrors.
            UsageError: the share is not 0 to 1, or several groups are there and none is named.
        """
        from evenreel.corpus.counterparts import only_paired, with_generated

        taken = only_paired(corpus, self.group, split=self.split) if self.paired_only else corpus
        return with_generated(taken, self.share, self.seed, self.group, split=self.split)


def pair(
    out: OutOption,
    clips: CorpusClips = from_settings(CorpusClips, leave_out=("split",)),
    generated: GeneratedVideos = from_settings(GeneratedVideos),
    as_json: JsonOption = False,
) -> None:
    """Put generated videos beside the real clips that they mirror. Exit status 3 if some fit no clip."""
    from evenreel.corpus.pairing import Generator, find_generated, pair_clips

    corpus = clips.load()
    generator = None if generated.source is None else Generator(generated.source, generated.setting)
    found = find_generated(corpus, generated.generated, clips.place, generator)
    if not found.clips:
        raise UsageError(_nothing_found(generated.generated, found, corpus))
    paired = pair_clips(corpus, found.clips)
    replaced = _save(paired, clips.folder, out)
    if as_json:
        groups = {"groups": _coverage(paired, found), "strangers": found.strangers, "missing": found.missing}
        print_json({"corpus": out, "clips": paired.clips.height, "generated": len(found.clips)} | groups)
    else:
        _show_written(out, paired, replaced)
        _show_pairs(paired, found)
        if clips.place.resolve() != out.resolve():
            console().print(f"  note: the paths of the clips begin in {safe(clips.place)}; name it with --videos")
    if found.strangers or found.missing:
        raise typer.Exit(EXIT_SET_ASIDE)


def prompts(
    out: Annotated[Path, typer.Option(help="Folder for prompts.csv, keyframes and first halves.")],
    clips: CorpusClips = from_settings(CorpusClips),
    options: PromptOptions = from_settings(PromptOptions),
    as_json: JsonOption = False,
) -> None:
    """Write what a video generator needs to mirror each real clip. Exit status 3 if clips were skipped."""
    from evenreel.corpus import load_corpus
    from evenreel.corpus.prompts import join_captions, setting_of
    from evenreel.edits.conditioning import Conditioning, prepare_requests

    given = Conditioning(
        setting=setting_of(options.setting),
        videos=clips.place,
        split=clips.split,
        fuse=partial(join_captions, most=options.captions),
        workers=options.workers,
        limits=options.limits,
    )
    corpus = load_corpus(clips.folder)
    with share_bar("preparing clips") as progress:
        prepared = prepare_requests(corpus, out, given, progress)
    _show_prompts(prepared, options.setting, as_json)
    if prepared.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def mix(
    folder: CorpusArgument,
    out: OutOption,
    mixture: Mixture = from_settings(Mixture),
    as_json: JsonOption = False,
) -> None:
    """Replace a share of the real clips by their mirrors, which take their captions."""
    from evenreel.corpus import load_corpus, select
    from evenreel.corpus.counterparts import groups_of

    if out.resolve() == folder.resolve():
        raise UsageError("--out is the corpus itself, whose other clips would be lost; name another folder.")
    split = mixture.split
    mixed = mixture.made(load_corpus(folder))
    replaced = _save(mixed, folder, out)
    part = mixed if split is None else select(mixed, split=split)
    groups = list(groups_of(part).values())
    counts = {group: groups.count(group) for group in dict.fromkeys(groups)}
    if as_json:
        asked = {"corpus": out, "share": mixture.share, "seed": mixture.seed, "split": split}
        print_json(asked | {"clips": part.clips.height, "generated": counts})
        return
    _show_written(out, mixed, replaced)
    held = ", ".join(f"{number:,} of {safe(group)}" for group, number in counts.items()) or "none generated"
    console().print(f"  {safe(split or 'all splits')}: {count(part.clips.height, 'clip')}, {held}")
    console().print(
        f"  note: the paths of the clips begin where those of {safe(folder)} do; name that folder with --videos"
    )


def _save(corpus: Corpus, origin: Path, out: Path) -> list[str]:
    """Write a corpus with the words on screen and the names of classes of the one that it was made of.

    Returns:
        Files of an earlier corpus that it takes the place of.
    """
    from evenreel.corpus import load_texts, save_corpus, save_texts
    from evenreel.corpus.annotation import copy_class_names

    elsewhere = out.resolve() != origin.resolve()
    replaced = sorted(name for name in CORPUS_FILES if elsewhere and (out / name).is_file())
    texts = load_texts(origin)
    save_corpus(corpus, out)
    save_texts(None if texts is None else texts.filter(texts["clip_id"].is_in(corpus.clips["clip_id"].implode())), out)
    if elsewhere:
        copy_class_names(origin, out)
    return replaced


def _nothing_found(place: Path, found: FoundVideos, corpus: Corpus) -> str:
    others = (*found.strangers, *found.missing)
    seen = f"no video, for example {others[0]}, that mirrors a real clip" if others else "no video"
    return (
        f"{place} has {seen}; a video is called after its clip, such as {corpus.clips['clip_id'][0]}.mp4, or named in "
        "a csv with clip_id and path."
    )


def _show_pairs(paired: Corpus, found: FoundVideos) -> None:
    for group, splits in _coverage(paired, found).items():
        for split, counts in splits.items():
            have = f"{counts['paired']:,} of {count(counts['real'], 'real clip')}"
            console().print(f"  {safe(group)}, {safe(split)}: {have} mirrored")
            _show_some("    has no counterpart", counts["without"])
    _show_some("  fits no real clip", found.strangers)
    _show_some("  is not there", found.missing)


def _coverage(paired: Corpus, found: FoundVideos) -> dict[str, dict[str, Any]]:
    """For each new group and each split that it is in: how many real clips there are, and which lack a mirror."""
    import polars as pl

    from evenreel.corpus.counterparts import is_generated
    from evenreel.corpus.summary import UNASSIGNED

    real = paired.clips.filter(~is_generated()).select("clip_id", pl.col("split").fill_null(UNASSIGNED))
    coverage: dict[str, dict[str, Any]] = {}
    for group in dict.fromkeys(one.generator.group for one in found.clips):
        mirrored = [one.clip_id for one in found.clips if one.generator.group == group]
        table = real.with_columns(pl.col("clip_id").is_in(mirrored).alias("mirrored"))
        for (split,), rows in table.group_by(["split"], maintain_order=True):
            if rows["mirrored"].any():
                without = rows.filter(~pl.col("mirrored"))["clip_id"].to_list()
                counts = {"real": rows.height, "paired": rows.height - len(without), "without": without}
                coverage.setdefault(group, {})[str(split)] = counts
    return coverage


def _show_some(what: str, names: Sequence[str]) -> None:
    for name in names[:MANY]:
        console().print(f"[yellow]{what}:[/] {safe(name)}")
    if len(names) > MANY:
        console().print(f"{what}: {len(names) - MANY:,} more (--json lists them all)")


def _show_written(out: Path, corpus: Corpus, replaced: Sequence[str]) -> None:
    held = f"{count(corpus.clips.height, 'clip')}, {count(corpus.captions.height, 'caption')}"
    console().print(f"Wrote {safe(out)}: {held}")
    if replaced:
        console().print(f"  note: what was in {safe(out)} is replaced: {', '.join(replaced)}")


def _show_prompts(prepared: PreparedRequests, setting: str, as_json: bool) -> None:
    if as_json:
        data = {"prompts": prepared.path, "setting": setting, "requests": len(prepared.requests)}
        print_json(data | {"set_aside": prepared.set_aside})
        return
    beside = {"image": ", each with a keyframe", "video": ", each with a first half"}.get(setting, "")
    console().print(f"Wrote {safe(prepared.path)}: {count(len(prepared.requests), 'prompt')}{beside}")
    list_aside(prepared.set_aside)
