"""`evenreel corpus domains`: two corpora as one, to learn from the first and to be tested on the second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.corpus.command import show_notices, written_over
from evenreel.cli.options import JsonOption, from_settings
from evenreel.cli.show_library import console, print_json, safe
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenreel.corpus import Notice
    from evenreel.corpus.domain_counts import DomainCounts
    from evenreel.corpus.domains import DomainPair


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
    from evenreel.corpus.domain_counts import domain_counts
    from evenreel.corpus.domains import PUBLISHED, beside_published, load_source, load_target, pair_domains, save_pair

    if name is not None and name not in PUBLISHED:
        raise UsageError(f"No pair of domains is published as {name!r}; there are: {', '.join(PUBLISHED)}.")
    if out.resolve() in (source.source.resolve(), target.target.resolve()):
        raise UsageError(f"--out {out} is one of the two corpora; name another folder, so that both stay.")
    pair = pair_domains(
        load_source(source.source, source.source_split, source.source_videos),
        load_target(target.target, target.target_split, target.target_val, target.target_videos),
    )
    beside = () if name is None else tuple(beside_published(name, pair.corpus))
    notices = (*pair.notices, *beside, *written_over(out))
    save_pair(pair, out)
    _show(pair, domain_counts(pair.corpus), notices, out, as_json)
    if any(notice.left_out for notice in notices):
        raise typer.Exit(EXIT_SET_ASIDE)


def _show(pair: DomainPair, counts: DomainCounts, notices: Sequence[Notice], out: Path, as_json: bool) -> None:
    from evenreel.corpus.summary import split_counts

    splits = split_counts(pair.corpus)
    if as_json:
        print_json({"corpus": out, "splits": splits} | counts.to_json() | {"notices": notices})
        return
    held = f"{count(pair.corpus.clips.height, 'clip')}, {count(pair.corpus.captions.height, 'caption')}"
    console().print(f"Wrote {safe(out)}: {held}")
    of = dict(pair.corpus.clips.select("split", "domain").unique().iter_rows())
    for split, rows in splits.items():
        console().print(
            f"  {safe(split)}: {count(rows.clips, 'clip')}, {count(rows.captions, 'caption')} ({of[split]})"
        )
    console().print(f"  {_in_common(counts)}")
    show_notices(notices)


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
