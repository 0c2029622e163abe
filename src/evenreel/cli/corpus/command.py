"""Commands of `evenreel corpus`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import MOST, CorpusArgument, CorpusClips, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import AGAIN, console, list_aside, print_json, safe
from evenreel.config import DEFAULT_MODEL, MediaLimits, OptionForm
from evenreel.edits.settings import ClipEditSettings, CorruptionSettings, RemovalSettings
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars import DataFrame

    from evenreel.corpus.counterparts import FoundVideos
    from evenreel.corpus.domains import DomainCounts
    from evenreel.corpus.imported import Imported, Notice
    from evenreel.corpus.summary import SplitCounts
    from evenreel.edits.clips import ClipEdit
    from evenreel.edits.overlay import WordSettings
    from evenreel.edits.settings import EqualiseSettings, Removed
    from evenreel.language import Tagged, Tagger, VerbNounClasses
    from evenreel.language.taggers import TaggerName
    from evenreel.types import Corpus


# `evenreel corpus classes`: find the verbs and nouns of captions, so that relevance has degrees.

_AT_ONCE = 2000
_SHOWN = 12
_MANY_UNKNOWN = 0.2


@dataclass(frozen=True)
class ClassOptions:
    """How the verb and noun classes of captions and clips are found.

    Attributes:
        tagger: `auto`, `pattern` or `spacy`; `auto` is spaCy where a model is installed.
        synonyms: groups of your own, lines such as 'noun: sofa, couch', besides those inside.
        min_captions: drop a class that fewer captions have.
        share: a clip has the classes of this share of its captions.
    """

    tagger: str = "auto"
    synonyms: Path | None = None
    min_captions: Annotated[int, OptionForm(least=1, most=MOST)] = 1
    share: float = 0.25

    def __post_init__(self) -> None:
        from evenreel.language import check_share

        check_share(self.share)


def find_classes(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the corpus; it is changed.")],
    options: ClassOptions = from_settings(ClassOptions),
    replace: Annotated[bool, typer.Option("--replace", help="Replace classes that are there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fill the verb and noun classes of captions and clips, for `evenreel evaluate --relevance classes`."""
    from evenreel.corpus import load_corpus, save_corpus
    from evenreel.corpus.tables import has_classes, save_class_names, with_classes
    from evenreel.language import ClassRules, caption_synonyms, classes_of, clip_classes, load_tagger, read_synonyms

    groups = caption_synonyms()
    own = groups if options.synonyms is None else groups.updated(read_synonyms(options.synonyms))
    rules = ClassRules(own, min_captions=options.min_captions)
    corpus = load_corpus(folder)
    if not replace and has_classes(corpus):
        raise UsageError(f"The corpus in {folder} has classes already; --replace finds new ones.")
    chosen = load_tagger(cast("TaggerName", options.tagger))  # it says which there are, of a word it does not know
    tagged = _tagged(corpus, chosen)
    found = classes_of(tagged, rules)
    clips = clip_classes(found, corpus.captions["clip_id"].to_list(), options.share)
    of_clip = dict(zip(clips.clip_ids, zip(clips.verbs, clips.nouns, strict=True), strict=True))
    save_corpus(with_classes(corpus, (found.verbs, found.nouns), of_clip), folder)
    save_class_names(folder, found.verb_names, found.noun_names, chosen.name)
    _show_classes(found, tagged, chosen, as_json)


def _tagged(corpus: Corpus, tagger: Tagger) -> list[Tagged]:
    texts = corpus.captions["text"].to_list()
    tagged: list[Tagged] = []
    with share_bar("finding verbs and nouns") as progress:
        for start in range(0, len(texts), _AT_ONCE):
            tagged += tagger.tag(texts[start : start + _AT_ONCE])
            progress(len(tagged) / len(texts))
    return tagged


def _show_classes(found: VerbNounClasses, tagged: list[Tagged], tagger: Tagger, as_json: bool) -> None:
    from evenreel.language import unknown_share

    unknown = unknown_share(tagged)
    without = sum(not verbs and not nouns for verbs, nouns in zip(found.verbs, found.nouns, strict=True))
    if as_json:
        figures = {"tagger": tagger.name, "captions": len(found.verbs), "without": without, "unknown_share": unknown}
        print_json(figures | {"verbs": list(found.verb_names), "nouns": list(found.noun_names)})
        return
    console().print(f"{count(len(found.verbs), 'caption')}, read by {safe(tagger.name)}")
    for what, names in (("verbs", found.verb_names), ("nouns", found.noun_names)):
        more = ", ..." if len(names) > _SHOWN else ""
        console().print(f"  {len(names):,} classes of {what}: {safe(', '.join(names[:_SHOWN]))}{more}")
    if without:
        console().print(f"  {count(without, 'caption')} without any")
    if unknown > _MANY_UNKNOWN:
        console().print(
            f"  note: the dictionary does not know {unknown:.0%} of the nouns, verbs, adjectives and adverbs; it is of "
            "English alone, and classes of other words are each word by itself"
        )


MANY_GROUPS = 12
CORPUS_FILES = ("clips.parquet", "captions.parquet", "texts.parquet", "classes.parquet")


def import_corpus(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="For example msrvtt-1ka, msvd, table; a wrong one lists them all.")
    ],
    paths: Annotated[list[Path], typer.Argument(help="Files of the benchmark, or folders that they are in.")],
    out: Annotated[Path, typer.Option(help="Folder that the corpus is written to.")],
    split: Annotated[list[str] | None, typer.Option(help="Keep this split alone; may be given again.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Read a benchmark's official files, and say what is missing or left out. Exit status 3 if anything is."""
    from evenreel.corpus import FORMATS, save_corpus, save_texts
    from evenreel.corpus.summary import split_counts
    from evenreel.corpus.tables import drop_class_names

    if format_name not in FORMATS:
        raise UsageError(f"There is no format {format_name!r}; there are: {', '.join(FORMATS)}.")
    done = FORMATS[format_name](paths)
    if split:
        done = _only(done, split)
    done = replace(done, notices=(*done.notices, *_written_over(out)))
    save_corpus(done.corpus, out)
    save_texts(done.texts, out)
    drop_class_names(out)
    texts = None if done.texts is None else done.texts.height
    if as_json:
        corpus = {"corpus": out, "clips": done.corpus.clips.height, "captions": done.corpus.captions.height}
        print_json(corpus | {"texts": texts, "splits": split_counts(done.corpus), "notices": done.notices})
    else:
        _show_written(out, done.corpus, texts)
        _show_splits(split_counts(done.corpus))
        _show_notices(done.notices)
    if any(notice.left_out for notice in done.notices):
        raise typer.Exit(EXIT_SET_ASIDE)


def info_corpus(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the corpus.")], as_json: JsonOption = False
) -> None:
    """Say what a corpus holds: clips and captions of each split, lengths, sources, domains, classes."""
    from evenreel.corpus import load_corpus, load_texts
    from evenreel.corpus.summary import summarise

    summary = summarise(load_corpus(folder), load_texts(folder))
    if as_json:
        print_json({"corpus": folder} | summary.to_json())
        return
    words = "" if summary.texts is None else f", {count(summary.texts, 'sign')} on screen"
    held = f"{count(summary.clips, 'clip')}, {count(summary.captions, 'caption')}"
    console().print(f"{safe(folder)}: {held}{words}")
    _show_splits(summary.splits)
    for name, spread in (
        ("captions a clip", summary.captions_a_clip),
        ("length in seconds", summary.length_s),
        ("frames", summary.frame_count),
    ):
        if spread:
            known = "" if spread.known == summary.clips else f" (known of {spread.known:,} of {summary.clips:,} clips)"
            least, greatest = f"{spread.least:,.6g}", f"{spread.greatest:,.6g}"
            console().print(f"  {name}: {least} to {greatest}, median {spread.median:,.6g}{known}")
    _show_groups("source", summary.sources)
    _show_groups("domain", summary.domains)
    console().print(f"  classes: {summary.verb_classes:,} of verbs, {summary.noun_classes:,} of nouns")
    for table, names in summary.own_columns.items():
        if names:
            console().print(f"  more columns of {table}: {safe(', '.join(names))}")


def _only(done: Imported, splits: Sequence[str]) -> Imported:
    """The import cut to some splits."""
    import polars as pl

    from evenreel.corpus import Imported, select

    for one in splits:  # each must be there; a misspelt one is an error, not an empty part
        select(done.corpus, split=one)
    corpus = select(done.corpus, where=pl.col("split").is_in(splits))
    kept = pl.col("clip_id").is_in(corpus.clips["clip_id"].implode())
    notices = tuple(notice for notice in done.notices if notice.split is None or notice.split in splits)
    return Imported(corpus, notices, None if done.texts is None else done.texts.filter(kept))


def _written_over(out: Path) -> tuple[Notice, ...]:
    """A notice that names the files of an earlier corpus in a folder, which a new one replaces; or none."""
    from evenreel.corpus import Notice

    there = sorted(name for name in CORPUS_FILES if (out / name).is_file())
    return (Notice(f"What was in {out} is replaced: {', '.join(there)}."),) if there else ()


def _show_notices(notices: Sequence[Notice]) -> None:
    for notice in notices:
        mark = "[yellow]left out:[/] " if notice.left_out else "note: "
        console().print(f"  {mark}{safe(notice.sentence)}")


def _show_written(out: Path, corpus: Corpus, texts: int | None = None) -> None:
    words = "" if texts is None else f", {count(texts, 'sign')} on screen"
    held = f"{count(corpus.clips.height, 'clip')}, {count(corpus.captions.height, 'caption')}"
    console().print(f"Wrote {safe(out)}: {held}{words}")


def _show_splits(splits: Mapping[str, SplitCounts], domains: Mapping[str, str] | None = None) -> None:
    for name, counts in splits.items():
        of = f" ({domains[name]})" if domains else ""
        console().print(f"  {safe(name)}: {count(counts.clips, 'clip')}, {count(counts.captions, 'caption')}{of}")


def _show_groups(name: str, groups: Mapping[str, int]) -> None:
    from evenreel.corpus.summary import UNASSIGNED

    if set(groups) == {UNASSIGNED}:
        return
    shown = ", ".join(f"{safe(group)} {clips:,}" for group, clips in list(groups.items())[:MANY_GROUPS])
    more = f", and {len(groups) - MANY_GROUPS:,} more" if len(groups) > MANY_GROUPS else ""
    console().print(f"  {name}: {shown}{more}")


# `evenreel corpus corrupt`: clips that got worse in known ways, for measuring what that costs a model.


def corrupt_corpus(
    out: Annotated[Path, typer.Option(help="Folder of the new corpora, each in a folder such as fog-3.")],
    clips: CorpusClips = from_settings(CorpusClips),
    settings: CorruptionSettings = from_settings(CorruptionSettings, leave_out=("videos",)),
    as_json: JsonOption = False,
) -> None:
    """Corrupt every clip in several ways, a corpus each; ids and captions stay. Exit status 3: some were skipped."""
    from evenreel.corpus.tables import copy_class_names
    from evenreel.edits.corruptions import corrupt_clips

    corpus = clips.load()
    with share_bar(f"corrupting {corpus.clips.height:,} clips") as progress:
        report = corrupt_clips(corpus, out, replace(settings, videos=clips.place), progress)
    for one in report.corpora:
        copy_class_names(clips.folder, Path(one.folder))
    if as_json:
        print_json(report)
    else:
        for one in report.corpora:
            there = f", {one.clips - one.written:,} there already" if one.written < one.clips else ""
            console().print(f"Wrote {safe(one.folder)}: {count(one.written, 'clip')}{there}.")
        console().print(f"  in {report.seconds:.1f} s")
        list_aside(report.set_aside, more=" (tried again the next time)")
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


# `evenreel corpus pair`, `prompts` and `mix`: real clips and the generated ones that mirror them.

MANY = 10

OutOption = Annotated[Path, typer.Option(help="Folder that the corpus is written to.")]


@dataclass(frozen=True)
class GeneratedVideos:
    """Generated videos that mirror the real clips of a corpus, and who made them.

    Attributes:
        generated: folder of videos called after the clips that they mirror, or a csv: clip_id, path.
        source: the generator; a csv may say it in a column source.
        setting: what the generator was given: text, image, video, or a word of your own.
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


def pair(
    out: OutOption,
    clips: CorpusClips = from_settings(CorpusClips, leave_out=("split",)),
    generated: GeneratedVideos = from_settings(GeneratedVideos),
    as_json: JsonOption = False,
) -> None:
    """Put generated videos beside the real clips that they mirror. Exit status 3 if some fit no clip."""
    from evenreel.corpus.counterparts import Generator, find_generated, pair_clips

    corpus = clips.load()
    generator = None if generated.source is None else Generator(generated.source, generated.setting)
    found = find_generated(corpus, generated.generated, clips.place, generator)
    if not found.clips:
        others = (*found.strangers, *found.missing)
        seen = f"no video, for example {others[0]}, that mirrors a real clip" if others else "no video"
        raise UsageError(
            f"{generated.generated} has {seen}; a video is called after its clip, such as "
            f"{corpus.clips['clip_id'][0]}.mp4, or named in a csv with clip_id and path."
        )
    paired = pair_clips(corpus, found.clips)
    replaced = _save(paired, clips.folder, out)
    if as_json:
        groups = {"groups": _coverage(paired, found), "strangers": found.strangers, "missing": found.missing}
        print_json({"corpus": out, "clips": paired.clips.height, "generated": len(found.clips)} | groups)
    else:
        _show_written(out, paired)
        _show_notices(replaced)
        for group, splits in _coverage(paired, found).items():
            for split, counts in splits.items():
                have = f"{counts['paired']:,} of {count(counts['real'], 'real clip')}"
                console().print(f"  {safe(group)}, {safe(split)}: {have} mirrored")
                _show_some("    has no counterpart", counts["without"])
        _show_some("  fits no real clip", found.strangers)
        _show_some("  is not there", found.missing)
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
    from evenreel.corpus.counterparts import join_captions, setting_of
    from evenreel.edits.equalise import Conditioning, prepare_requests

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
    if as_json:
        data = {"prompts": prepared.path, "setting": options.setting, "requests": len(prepared.requests)}
        print_json(data | {"set_aside": prepared.set_aside})
    else:
        beside = {"image": ", each with a keyframe", "video": ", each with a first half"}.get(options.setting, "")
        console().print(f"Wrote {safe(prepared.path)}: {count(len(prepared.requests), 'prompt')}{beside}")
        list_aside(prepared.set_aside)
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
    from evenreel.corpus.counterparts import groups_of, only_paired, with_generated

    if out.resolve() == folder.resolve():
        raise UsageError("--out is the corpus itself, whose other clips would be lost; name another folder.")
    corpus, group, split = load_corpus(folder), mixture.group, mixture.split
    taken = only_paired(corpus, group, split=split) if mixture.paired_only else corpus
    mixed = with_generated(taken, mixture.share, mixture.seed, group, split=split)
    replaced = _save(mixed, folder, out)
    part = mixed if split is None else select(mixed, split=split)
    groups = list(groups_of(part).values())
    counts = {group: groups.count(group) for group in dict.fromkeys(groups)}
    if as_json:
        asked = {"corpus": out, "share": mixture.share, "seed": mixture.seed, "split": split}
        print_json(asked | {"clips": part.clips.height, "generated": counts})
        return
    _show_written(out, mixed)
    _show_notices(replaced)
    held = ", ".join(f"{number:,} of {safe(group)}" for group, number in counts.items()) or "none generated"
    console().print(f"  {safe(split or 'all splits')}: {count(part.clips.height, 'clip')}, {held}")
    console().print(
        f"  note: the paths of the clips begin where those of {safe(folder)} do; name that folder with --videos"
    )


def _save(corpus: Corpus, origin: Path, out: Path) -> tuple[Notice, ...]:
    """Write a corpus with the words on screen and the names of classes of the one that it was made of."""
    from evenreel.corpus import load_texts, save_corpus, save_texts
    from evenreel.corpus.tables import copy_class_names

    elsewhere = out.resolve() != origin.resolve()
    replaced = _written_over(out) if elsewhere else ()
    texts = load_texts(origin)
    save_corpus(corpus, out)
    save_texts(None if texts is None else texts.filter(texts["clip_id"].is_in(corpus.clips["clip_id"].implode())), out)
    if elsewhere:
        copy_class_names(origin, out)
    return replaced


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


# `evenreel corpus domains`: two corpora as one, to learn from the first and to be tested on the second.


@dataclass(frozen=True)
class SourcePart:
    """The corpus to learn from, and what is taken of it.

    Attributes:
        source: folder of the corpus to learn from.
        source_split: split to take of the source; may be given again; empty for train, and val if there.
        source_videos: folder in which the source's paths begin, to be put before them; None for nothing.
    """

    source: Path
    source_split: tuple[str, ...] = ()
    source_videos: Path | None = None


@dataclass(frozen=True)
class TargetPart:
    """The corpus that is met afterwards, and what is taken of it.

    Attributes:
        target: folder of the corpus that is met afterwards.
        target_split: split of the target that becomes the split test.
        target_val: split of the target that becomes the split target_val; None for none.
        target_videos: folder in which the target's paths begin, to be put before them; None for nothing.
    """

    target: Path
    target_split: str = "test"
    target_val: str | None = None
    target_videos: Path | None = None


def domains(
    out: Annotated[Path, typer.Option(help="Folder that the corpus is written to.")],
    source: SourcePart = from_settings(SourcePart),
    target: TargetPart = from_settings(TargetPart),
    name: Annotated[
        str | None,
        typer.Option(help="A published pair that this one is to be, such as video2gif; counts are compared."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Put two corpora into one, to learn from the source and be tested on the target.

    Exit status 3 if anything is left out.
    """
    from evenreel.corpus.domains import (
        PUBLISHED,
        beside_published,
        domain_counts,
        load_source,
        load_target,
        pair_domains,
        save_pair,
    )
    from evenreel.corpus.summary import split_counts

    if name is not None and name not in PUBLISHED:
        raise UsageError(f"No pair of domains is published as {name!r}; there are: {', '.join(PUBLISHED)}.")
    if out.resolve() in (source.source.resolve(), target.target.resolve()):
        raise UsageError(f"--out {out} is one of the two corpora; name another folder, so that both stay.")
    pair = pair_domains(
        load_source(source.source, source.source_split, source.source_videos),
        load_target(target.target, target.target_split, target.target_val, target.target_videos),
    )
    beside = () if name is None else tuple(beside_published(name, pair.corpus))
    notices = (*pair.notices, *beside, *_written_over(out))
    save_pair(pair, out)
    counts, splits = domain_counts(pair.corpus), split_counts(pair.corpus)
    if as_json:
        print_json({"corpus": out, "splits": splits} | counts.to_json() | {"notices": notices})
    else:
        _show_written(out, pair.corpus)
        of = dict(pair.corpus.clips.select("split", "domain").unique().iter_rows())
        _show_splits(splits, of)
        console().print(f"  {_in_common(counts)}")
        _show_notices(notices)
    if any(notice.left_out for notice in notices):
        raise typer.Exit(EXIT_SET_ASIDE)


def _in_common(counts: DomainCounts) -> str:
    """One sentence on words."""
    if counts.known_percent is None or not counts.source_words:
        return "words: one of the two has no captions to compare"
    known, in_text = f"{counts.known_percent:.1f} %", f"{counts.known_in_text_percent:.1f} %"
    return (
        f"words: {counts.source_words:,} in the source, {counts.target_words:,} in the target; the source has {known} "
        f"of the target's words, {in_text} of its texts, and {counts.shared_captions:,} of its "
        f"{counts.target.captions:,} captions"
    )


# `evenreel corpus edit`: clips without their background, their thing or their motion, for `evenreel audit visual`.
#
# With `--edit`, clips with words of other clips written on them, or said over them, for `evenreel audit overlay`.

NO_TEXTS = (
    "Words on screen that come with the corpus are left out, for they may not be all that the new clips show, and are "
    "not timed as these are: have the frames read (--words ocr), of clips without the edit too."
)


@dataclass(frozen=True)
class ClipChange:
    """What `evenreel corpus edit` does to every clip: paint over one thing, write words on it, or say some over it.

    Attributes:
        remove: `background`, `entity` (what the clip's captions name) or `motion`.
        edit: instead of --remove: `overlay`, a banner with words of another clip; `voiceover`, a voice (espeak-ng)
            that says its caption; `overlay-control` and `voiceover-control`, as many letters or syllables.
        place: what backgrounds are, in words, such as 'grass field'; again for another. They stay where entities go.
        control: the control: as many patches elsewhere; of motion, the clip as it is.
        share: most of a clip's patches that go, those that show it best; None for 0.5.
        model: model (clip or siglip) that finds what goes: a hub id, a folder, or `builtin`; None for
            google/siglip2-base-patch16-224.
        tagger: `auto`, `pattern` or `spacy`: finds what captions name; None for auto.
        seed: seed of where the control paints, and of whose words go where.
        device: where the model runs: auto, cpu, cuda, cuda:1, mps; None for auto.
    """

    remove: str | None = None
    edit: str | None = None
    place: tuple[str, ...] = ()
    control: bool = False
    share: float | None = None
    model: str | None = None
    tagger: str | None = None
    seed: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        if (self.remove is None) == (self.edit is None):
            raise UsageError(
                "Say what becomes of the clips: --remove background, entity or motion, or --edit overlay, voiceover, "
                "overlay-control or voiceover-control, and not both."
            )
        for_removal = ("place", "control", "share", "model", "tagger", "device")
        given = [f"--{name}" for name in for_removal if getattr(self, name) not in (None, False, ())]
        if self.edit is not None and given:
            raise UsageError(
                f"With --edit, leave {' and '.join(given)} out: that is about what --remove takes away; the control of "
                "--edit overlay is overlay-control, that of voiceover voiceover-control."
            )
        self.settings()

    def settings(self) -> RemovalSettings | WordSettings:
        """Make the settings of the edit: of taking something away, or of writing or saying words."""
        if self.edit is not None:
            from evenreel.edits.overlay import WordSettings

            return WordSettings(self.edit, self.seed)  # type: ignore[arg-type]
        share = RemovalSettings.share if self.share is None else self.share
        return RemovalSettings(cast("Removed", self.remove), self.control, self.place, share, self.seed)


def edit_corpus(
    out: Annotated[Path, typer.Option(help="Folder of the corpus of edited clips.")],
    clips: CorpusClips = from_settings(CorpusClips),
    change: ClipChange = from_settings(ClipChange, device=Annotated[str | None, typer.Option()]),
    settings: ClipEditSettings = from_settings(ClipEditSettings, leave_out=("videos",)),
    as_json: JsonOption = False,
) -> None:
    """Paint, write or speak over every clip; ids and captions stay. Exit status 3: some were skipped."""
    from evenreel.corpus import load_texts, save_texts
    from evenreel.corpus.tables import copy_class_names
    from evenreel.edits.clips import edit_clips

    corpus, texts = clips.load(), load_texts(clips.folder)
    with share_bar(f"editing {corpus.clips.height:,} clips") as progress:
        corpus, edit, notices = _edit(change, corpus, texts)
        report = edit_clips(corpus, out, edit, replace(settings, videos=clips.place), progress)
    copy_class_names(clips.folder, out)
    report.notices += [*notices, *([NO_TEXTS] if texts is not None else [])]
    save_texts(None, out)
    if as_json:
        print_json(report)
    else:
        there = f", {report.unchanged:,} there already" if report.unchanged else ""
        done = f"{count(report.written, 'clip')} in {report.seconds:.1f} s"
        console().print(f"Wrote {safe(report.folder)}: {done}{there}.")
        list_aside(report.set_aside, more=" (tried again the next time)")
        for notice in report.notices:
            console().print(safe(notice))
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _edit(change: ClipChange, corpus: Corpus, texts: DataFrame | None) -> tuple[Corpus, ClipEdit, tuple[str, ...]]:
    """The corpus as the edit marks it, the edit itself, and what must be known of it."""
    what = change.settings()
    if not isinstance(what, RemovalSettings):
        from evenreel.corpus.counterparts import VOICEOVERS
        from evenreel.edits.overlay import Overlay, Voiceover, distractor_words, spoken_words

        spoken = what.edit in VOICEOVERS
        lent = spoken_words(corpus, what.seed) if spoken else distractor_words(corpus, texts, what.seed)
        return lent.mark(corpus, what.edit), (Voiceover if spoken else Overlay)(lent.words, what), lent.notices
    from evenreel.edits.removal import Removal, caption_entities
    from evenreel.encoders import load_encoder
    from evenreel.language import load_tagger

    tagger = load_tagger(cast("TaggerName", change.tagger or "auto"))
    finder = None
    if what.removed != "motion":
        finder = load_encoder(change.model or DEFAULT_MODEL, device=change.device or "auto")
    return corpus, Removal(finder, caption_entities(corpus, tagger), what), ()


# `evenreel corpus equalise`: every clip encoded anew in one form, so that form cannot tell a source.


def equalise_corpus(
    out: Annotated[Path, typer.Option(help="Folder of the new corpus and its clips.")],
    clips: CorpusClips = from_settings(CorpusClips, leave_out=("split",)),
    settings: EqualiseSettings = from_settings(
        "evenreel.edits.settings:EqualiseSettings", leave_out=("videos",), fit=Annotated[str, typer.Option()]
    ),
    as_json: JsonOption = False,
) -> None:
    """Give all clips one codec, rate, size and, within a pair, length. Exit status 3 if clips were skipped."""
    from evenreel.corpus.tables import copy_class_names
    from evenreel.edits.equalise import equalise

    corpus = clips.load()
    with share_bar(f"encoding {corpus.clips.height:,} clips") as progress:
        report = equalise(corpus, out, replace(settings, videos=clips.place), progress)
    copy_class_names(clips.folder, out)
    if as_json:
        print_json(report)
    else:
        form = report.form
        done = f"{count(report.encoded, 'clip')} encoded in {report.seconds:.1f} s"
        there = f", {report.unchanged:,} there already" if report.unchanged else ""
        console().print(f"Wrote {safe(report.folder)}: {done}{there}.")
        rate = f"{float(Fraction(form['fps'])):.4g} frames a second"
        console().print(f"  H.264, {rate}, {form['width']} x {form['height']} ({form['fit']})")
        for notice in report.notices:
            console().print(f"[yellow]{safe(notice)}[/]")
        list_aside(report.set_aside, more=AGAIN)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)
