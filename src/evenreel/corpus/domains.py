"""Domains of clips: where their texts and videos are from, and how many there are of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from evenreel.corpus.folder import load_corpus, save_corpus
from evenreel.corpus.formats.captions import FULL, TGIF_OFFICIAL
from evenreel.corpus.imported import Notice, some
from evenreel.corpus.on_screen import load_texts, save_texts
from evenreel.corpus.summary import SplitCounts, split_counts
from evenreel.corpus.tables import CLASS_NAMES, CLASSES, copy_class_names, drop_class_names, has_classes, make_corpus
from evenreel.errors import CorpusError
from evenreel.parquet_files import read_table
from evenreel.types import Corpus

# Two corpora joined to one: a source domain to train on, and a target domain to adapt to and test on.
#
# Clips of the source keep their splits, those of the target are the split `test`: a recipe trains on the source alone,
# and `--split test` is the target. Paths stay as they are, so that the features of each corpus are found in its own
# folder.

SOURCE, TARGET = "source", "target"
"""Values of the column `domain`."""

TEST, SOURCE_TEST, TARGET_VAL = "test", "source_test", "target_val"
"""Splits: the target; test clips of the source, which show what adapting forgets; clips of the target to choose by."""

WITHIN = "subdomain"
"""Column that keeps what `domain` was in each corpus."""

PUBLISHED: Mapping[str, Mapping[str, int]] = {
    "video2gif": {
        "train": FULL["train"],
        "val": FULL["val"],
        TEST: TGIF_OFFICIAL["test"],
        TARGET_VAL: TGIF_OFFICIAL["val"],
    }
}
"""Official clips of each split of pairs that papers report on (TITAN, MM 2023: MSR-VTT to TGIF)."""

_CLASS_COLUMNS = ("verb_classes", "noun_classes")


@dataclass(frozen=True, eq=False)
class DomainSide:
    """One of the two corpora of a pair of domains, the source or the target, and which of its splits to take."""

    domain: str  # `source` or `target`
    corpus: Corpus  # the corpus with all its splits
    splits: Mapping[str, str]  # splits to take, as {name in this corpus: name in the pair}
    videos: Path | None = None  # folder to prepend to the clips' paths; None leaves the paths as they are
    texts: pl.DataFrame | None = None  # table of words on screen; None without any
    # table of the names of its verb and noun classes; None where they are not known
    class_names: pl.DataFrame | None = None
    folder: Path | None = None  # folder that the corpus was loaded from


@dataclass(frozen=True, eq=False)
class DomainPair:
    """A source and a target corpus joined to one."""

    corpus: Corpus  # clips of the source, then those of the target
    notices: tuple[Notice, ...]  # sentences on what was renamed or left out
    texts: pl.DataFrame | None = None  # table of words on screen; None where neither corpus has one
    # folder of the corpus whose names of verb and noun classes hold for the pair; None for no names
    classes_of: Path | None = None


def load_source(folder: Path, splits: Sequence[str] = (), videos: Path | None = None) -> DomainSide:
    """Load a corpus as the source of a pair of domains, the one to train on."""
    corpus = load_corpus(folder)
    there = set(corpus.clips["split"])
    asked = splits or [name for name in ("train", "val") if name == "train" or name in there]
    names = {name: SOURCE_TEST if name == TEST else name for name in asked}
    return _load(SOURCE, corpus, names, folder, videos)


def load_target(
    folder: Path, split: str = TEST, validation: str | None = None, videos: Path | None = None
) -> DomainSide:
    """Load a corpus as the target of a pair of domains, the one to adapt to and test on."""
    if split == validation:
        raise CorpusError(f"The split {split!r} of the target cannot be tested on and chosen by; name two splits.")
    names = {split: TEST} if validation is None else {split: TEST, validation: TARGET_VAL}
    return _load(TARGET, load_corpus(folder), names, folder, videos)


def pair_domains(source: DomainSide, target: DomainSide) -> DomainPair:
    """Join a source and a target corpus to one.

    A clip or caption of the source whose id the target has too is renamed to `source/ID`. A column `domain` that a
    corpus had before becomes `subdomain`. Verb and noun classes are kept only where they mean the same in both.
    """
    _refuse_overlap(source, target)
    notices = []
    for side in filter(_is_unsplit, (source, target)):
        if len(side.splits) > 1:
            raise CorpusError(f"The {side.domain} has no splits, so no {' and '.join(side.splits)} can be taken of it.")
        notices.append(Notice(f"The {side.domain} has no splits, so all of it is the split {_whole(side)}."))
    first, second = _part(source), _part(target)
    first, renamed = _apart(first, second)
    notices += [*renamed, *_same_paths(first.corpus, second.corpus)]
    kept, named_in, of_classes = _classes_of(first, second)
    notices += of_classes
    if not kept:
        first, second = _without_classes(first), _without_classes(second)
    clips = _stacked([first.corpus.clips, second.corpus.clips], "clips")
    captions = _stacked([first.corpus.captions, second.corpus.captions], "captions")
    texts = [side.texts for side in (first, second) if side.texts is not None]
    return DomainPair(make_corpus(clips, captions), tuple(notices), pl.concat(texts) if texts else None, named_in)


def save_pair(pair: DomainPair, out: Path) -> None:
    """Write a joined corpus to a folder, with its words on screen and the names of its classes."""
    save_corpus(pair.corpus, out)
    save_texts(pair.texts, out)
    if pair.classes_of is None:
        drop_class_names(out)
    else:
        copy_class_names(pair.classes_of, out)


def beside_published(name: str, corpus: Corpus) -> Iterator[Notice]:
    """Iterate over notices of splits whose number of clips differs from a published pair of domains."""
    if name not in PUBLISHED:
        raise CorpusError(f"No pair of domains is published as {name!r}; there are: {', '.join(PUBLISHED)}.")
    there = split_counts(corpus)
    for split, official in PUBLISHED[name].items():
        if split in there and (clips := there[split].clips) != official:
            sentence = f"The split {split} has {clips:,} clips, that of {name} has {official:,}."
            yield Notice(sentence, left_out=clips < official, split=split)


def _load(domain: str, corpus: Corpus, splits: Mapping[str, str], folder: Path, videos: Path | None) -> DomainSide:
    names = folder / CLASS_NAMES
    try:
        classes = read_table(names) if names.is_file() else None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"{names} cannot be read ({error}); run `evenreel corpus classes` again.") from error
    return DomainSide(domain, corpus, splits, videos, load_texts(folder), classes, folder)


def _refuse_overlap(source: DomainSide, target: DomainSide) -> None:
    """Refuse to learn from what is met afterwards."""
    same = (
        source.folder is not None and target.folder is not None and source.folder.resolve() == target.folder.resolve()
    )
    both = sorted(source.splits.keys() & target.splits.keys())
    if same and (both or _is_unsplit(source)):
        part = f"the split {both[0]!r}" if both else "all"
        raise CorpusError(
            f"Source and target are both {part} of {source.folder}; a model would be tested on what it learned from. "
            "Name two splits, or two corpora."
        )
    if mixed := sorted(set(source.splits.values()) & set(target.splits.values())):
        raise CorpusError(
            f"In the pair both clips of the source and of the target would be the split {mixed[0]!r}; take another "
            "split of the source (--source-split)."
        )


def _is_unsplit(side: DomainSide) -> bool:
    return bool(side.corpus.clips["split"].is_null().all())


def _whole(side: DomainSide) -> str:
    """What a corpus without splits becomes."""
    return next(iter(side.splits.values()))


def _part(side: DomainSide) -> DomainSide:
    """What is taken of a side, in the splits and with the domain of the pair."""
    clips = side.corpus.clips
    if _is_unsplit(side):
        clips = clips.with_columns(split=pl.lit(_whole(side)))
    else:
        there = clips["split"].drop_nulls().unique(maintain_order=True).to_list()
        if missing := [name for name in side.splits if name not in there]:
            option = "--target-val" if side.splits[missing[0]] == TARGET_VAL else f"--{side.domain}-split"
            raise CorpusError(
                f"The {side.domain} has no split {missing[0]!r}; it has: {', '.join(there)}. Name one with {option}."
            )
        kept = clips.filter(pl.col("split").is_in(list(side.splits)))
        clips = kept.with_columns(pl.col("split").replace_strict(dict(side.splits), return_dtype=pl.String))
    if WITHIN not in clips.columns and clips["domain"].is_not_null().any():
        clips = clips.with_columns(pl.col("domain").alias(WITHIN))
    clips = clips.with_columns(domain=pl.lit(side.domain))
    if side.videos is not None:
        begin = side.videos.absolute()
        paths = [path and str(begin / path) for path in clips["path"]]
        clips = clips.with_columns(pl.Series("path", paths, dtype=pl.String))
    own = pl.col("clip_id").is_in(clips["clip_id"].implode())
    texts = None if side.texts is None else side.texts.filter(own)
    return replace(side, corpus=Corpus(clips, side.corpus.captions.filter(own)), texts=texts)


def _apart(source: DomainSide, target: DomainSide) -> tuple[DomainSide, list[Notice]]:
    """The source with other ids where the target has the same."""
    clips, captions = source.corpus.clips, source.corpus.captions
    called = set(target.corpus.clips["clip_id"]) | set(target.corpus.clips["pair_id"].drop_nulls())
    told = set(target.corpus.captions["caption_id"])
    same_clips = [name for name in clips["clip_id"] if name in called]
    same_captions = [name for name in captions["caption_id"] if name in told]
    corpus = Corpus(
        clips.with_columns(_renamed("clip_id", called), _renamed("pair_id", called)),
        captions.with_columns(_renamed("caption_id", told), _renamed("clip_id", called)),
    )
    texts = None if source.texts is None else source.texts.with_columns(_renamed("clip_id", called))
    notices = []
    if same_clips or same_captions:
        notices.append(
            Notice(
                f"{len(same_clips):,} clips and {len(same_captions):,} captions of the source are called as some of "
                f"the target, and {SOURCE}/ID here ({some([*same_clips, *same_captions])}). If they are the same "
                "videos, the target is not new to a model that learns from the source."
            )
        )
    return replace(source, corpus=corpus, texts=texts), notices


def _renamed(column: str, taken: Collection[str]) -> pl.Expr:
    own = pl.col(column)
    return pl.when(own.is_in(list(taken))).then(pl.lit(f"{SOURCE}/") + own).otherwise(own).alias(column)


def _same_paths(source: Corpus, target: Corpus) -> Iterator[Notice]:
    there = set(target.clips["path"].drop_nulls())
    if same := [path for path in source.clips["path"].drop_nulls().unique(maintain_order=True) if path in there]:
        yield Notice(
            f"{len(same):,} paths are those of a source clip and of a target clip ({some(same)}), so no folder of "
            "videos has both: take the features of each corpus from its own folder, or say where their videos are "
            "(--source-videos, --target-videos)."
        )


def _classes_of(source: DomainSide, target: DomainSide) -> tuple[bool, Path | None, list[Notice]]:
    """Whether the classes of both are kept, in whose folder their names are, and what is to be said of them."""
    classed = [side for side in (source, target) if has_classes(side.corpus)]
    if len(classed) < 2:
        return True, next((side.folder for side in classed if side.class_names is not None), None), []
    first, second = source.class_names, target.class_names
    if first is None and second is None:
        said = "The classes of both are taken to be of one list, since neither corpus says what they mean."
        return True, None, [Notice(said)]
    if first is not None and second is not None and _numbers(first) == _numbers(second):
        return True, source.folder, []
    said = "The classes of both are left out: they number different things. `evenreel corpus classes` finds new ones."
    return False, None, [Notice(said, left_out=True)]


def _numbers(names: pl.DataFrame) -> set[tuple[Any, ...]]:
    return set(names.select("kind", "number", "name").iter_rows())


def _without_classes(side: DomainSide) -> DomainSide:
    empty = [pl.lit(None, dtype=CLASSES).alias(column) for column in _CLASS_COLUMNS]
    return replace(side, corpus=Corpus(side.corpus.clips.with_columns(empty), side.corpus.captions.with_columns(empty)))


def _stacked(tables: Sequence[pl.DataFrame], name: str) -> pl.DataFrame:
    try:
        return pl.concat(tables, how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        first, second = (table.schema for table in tables)
        differing = [column for column in first if column in second and first[column] != second[column]]
        raise CorpusError(
            f"The tables {name} of both have columns of one name that hold different things ({some(differing)}); "
            "rename or drop them in one of the two."
        ) from error


# Counts of the captions and words that the source and the target domain of a corpus have in common.

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class DomainCounts:
    """Counts of a source and a target domain, and of what they have in common.

    Attributes:
        source, target: numbers of clips and captions of each domain.
        shared_captions: captions of the target that the source has too, but for case and spaces.
        source_words, target_words, shared_words: numbers of different words, in small letters.
        known_percent: percent of the target's different words that the source has too; None without captions.
        known_in_text_percent: the same percentage with each word counted as often as it occurs.
    """

    source: SplitCounts
    target: SplitCounts
    shared_captions: int
    source_words: int
    target_words: int
    shared_words: int
    known_percent: float | None
    known_in_text_percent: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a dictionary that JSON can hold."""
        return asdict(self)


def domain_counts(corpus: Corpus) -> DomainCounts:
    """Count the captions and words that the source and target domain of a corpus have in common.

    >>> from evenreel.corpus import make_corpus
    >>> clips = pl.DataFrame({"clip_id": ["a", "b"], "domain": ["source", "target"]})
    >>> captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["a red cat", "a cat naps"]})
    >>> counts = domain_counts(make_corpus(clips, captions))
    >>> counts.shared_words, counts.target_words, round(counts.known_percent, 1)
    (2, 3, 66.7)
    """
    clips = Counter(corpus.clips["domain"])
    source, target = (_captions(corpus, domain) for domain in (SOURCE, TARGET))
    first, second = (Counter(word for text in texts for word in _WORD.findall(text)) for texts in (source, target))
    shared, there = first.keys() & second.keys(), set(source)
    return DomainCounts(
        source=SplitCounts(clips[SOURCE], len(source)),
        target=SplitCounts(clips[TARGET], len(target)),
        shared_captions=sum(text in there for text in target),
        source_words=len(first),
        target_words=len(second),
        shared_words=len(shared),
        known_percent=100 * len(shared) / len(second) if second else None,
        known_in_text_percent=100 * sum(second[word] for word in shared) / second.total() if second else None,
    )


def _captions(corpus: Corpus, domain: str) -> list[str]:
    """Captions of the clips of a domain, in small letters with single spaces."""
    own = corpus.clips.filter(pl.col("domain") == domain)["clip_id"]
    texts = corpus.captions.filter(pl.col("clip_id").is_in(own.implode()))["text"]
    return [" ".join(text.lower().split()) for text in texts]
