"""The result of reading a benchmark's official files, and the draft of a corpus that is filled while they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from evenreel.corpus.tables import CAPTION_COLUMNS, CLIP_COLUMNS, make_corpus
from evenreel.errors import CorpusError
from evenreel.types import Corpus, Shown

Columns = Mapping[str, Any]
"""Values of one row by column: standard columns, and a benchmark's own."""


@dataclass(frozen=True)
class Notice:
    """One sentence for the user on what was found while a corpus was read or changed.

    Attributes:
        sentence: says what, how many, where, and why.
        left_out: whether the corpus lacks something that the official release has.
        split: the split that the notice is about; None for all.
    """

    sentence: str
    left_out: bool = False
    split: str | None = None


@dataclass(frozen=True, eq=False)
class Imported(Shown):
    """A corpus made from a benchmark's files, with notices about them.

    Attributes:
        corpus: clips and captions, checked.
        notices: what is missing, what was left out and why, what was put in another form.
        texts: table of words on screen where the benchmark has them; see `evenreel.corpus.on_screen`.
    """

    corpus: Corpus
    notices: tuple[Notice, ...] = ()
    texts: pl.DataFrame | None = None


@dataclass
class Draft:
    """A corpus while its files are read: rows of clips and captions, and notices; `finish` checks them.

    Attributes:
        benchmark: name that begins an error message.
    """

    benchmark: str
    notices: list[Notice] = field(default_factory=list)
    clips: dict[str, dict[str, Any]] = field(default_factory=dict)
    captions: list[dict[str, Any]] = field(default_factory=list)
    _named: dict[str, str] = field(default_factory=dict)
    _numbered: Counter[str] = field(default_factory=Counter)

    def clip(self, clip_id: str, columns: Columns, where: str) -> None:
        """Add a clip to the draft of a corpus."""
        if clip_id in self.clips:
            raise CorpusError(
                f"{where} names the clip {clip_id!r}, as {self._named[clip_id]} does; a clip belongs in a benchmark "
                "once, so take one of them out."
            )
        self.clips[clip_id] = {"clip_id": clip_id, **columns}
        self._named[clip_id] = where

    def caption(self, clip_id: str, text: str, columns: Columns | None = None) -> None:
        """Add a caption of a clip to the draft of a corpus.

        Args:
            clip_id: id of the clip.
            text: the caption.
            columns: its other columns, by name; without a `caption_id` its id is `CLIP#0`, `CLIP#1` and so on.
        """
        number = self._numbered[clip_id]
        self._numbered[clip_id] += 1
        row = {"caption_id": f"{clip_id}#{number}", "clip_id": clip_id, "text": text.strip()}
        self.captions.append(row | dict(columns or {}))

    def note(self, sentence: str, *, left_out: bool = False, split: str | None = None) -> None:
        """Add a notice about the files that are read, a sentence for the user."""
        self.notices.append(Notice(sentence, left_out, split))

    def leave_out(self, what: str, names: Sequence[str], split: str | None = None) -> None:
        """Add a notice that something was left out, with the number and the first few names."""
        if names:
            self.note(f"{len(names):,} {what} ({some(names)}).", left_out=True, split=split)

    def expect(self, official: Mapping[str, int]) -> None:
        """Add a notice for each split whose number of clips is not the official one."""
        there = Counter(row.get("split") for row in self.clips.values())
        for split, count in official.items():
            if not there[split]:
                self.note(f"The files given hold no clip of the split {split} (officially {count:,}).", split=split)
            elif there[split] < count:
                short = f"The split {split} has {there[split]:,} of its {count:,} official clips."
                self.note(short, left_out=True, split=split)

    def finish(self, texts: pl.DataFrame | None = None, *, all_captioned: bool = True) -> Imported:
        """Check the rows of the draft and return the corpus that they make, with all notices."""
        self.leave_out(
            "captions are left out because their clip is not listed",
            [row["caption_id"] for row in self.captions if row["clip_id"] not in self.clips],
        )
        known = [row for row in self.captions if row["clip_id"] in self.clips]
        self.leave_out("captions without a word are left out", [row["caption_id"] for row in known if not row["text"]])
        captions = [row for row in known if row["text"]]
        if all_captioned:
            self._name_the_silent({row["clip_id"] for row in captions})
        try:
            corpus = make_corpus(table(list(self.clips.values()), CLIP_COLUMNS), table(captions, dict(CAPTION_COLUMNS)))
        except CorpusError as error:
            raise CorpusError(f"The files of {self.benchmark} make no sound corpus:", *error.args) from error
        return Imported(corpus, (*self.notices, *repeated(corpus)), texts)

    def _name_the_silent(self, told: set[str]) -> None:
        """Say which clips of each split have no caption."""
        silent: dict[str | None, list[str]] = {}
        for name, row in self.clips.items():
            if name not in told:
                silent.setdefault(row.get("split"), []).append(name)
        for split, names in silent.items():
            self.leave_out(f"clips{_of(split)} have no caption", names, split)


def repeated(corpus: Corpus) -> list[Notice]:
    """Return a notice for each split in which a clip has the same caption more than once."""
    again = corpus.captions.filter(~pl.struct("clip_id", "text").is_first_distinct())
    counts = again.join(corpus.clips.select("clip_id", "split"), on="clip_id").group_by("split").len().sort("split")
    return [
        Notice(f"{count:,} captions{_of(split)} say the same as another of their clip; they are kept.", split=split)
        for split, count in counts.iter_rows()
    ]


def _of(split: str | None) -> str:
    return f" of {split}" if split else ""


def table(rows: Sequence[Columns], standard: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Make a table from rows whose columns may differ; missing values are null."""
    names = list(dict.fromkeys([*standard, *(name for row in rows for name in row)]))
    return pl.DataFrame(
        [pl.Series(name, [row.get(name) for row in rows], dtype=standard.get(name), strict=False) for name in names]
    )


def some(names: Sequence[str], limit: int = 3) -> str:
    """Join the first `limit` names for a message, with `...` where there are more.

    >>> some(["a", "b"]), some(["a", "b", "c", "d"])
    ('a, b', 'a, b, c, ...')
    """
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
