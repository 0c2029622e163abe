"""TGIF: `tgif-v1.0.tsv` with an address and a sentence a row, and `train.txt`, `val.txt`, `test.txt` of addresses.

A clip's name is that of the file in its address. Clips of the test split have three sentences, others one.
(Li et al. 2016.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from evenreel.corpus.given_files import ReleaseFiles, read_lines, stem, tab_rows
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

SPLITS = ("train", "val", "test")
OFFICIAL = {"val": 10708, "test": 11360}
SENTENCES = "tgif-v1.0.tsv"


def read_tgif(paths: Sequence[Path]) -> Imported:
    """Read TGIF; where no lists of splits are given, every GIF with a sentence is a clip."""
    given = ReleaseFiles("TGIF", paths)
    draft = Draft("TGIF")
    sentences = given.one("tgif-v1.0.tsv", "tgif*.tsv")
    lists = {split: given.one(f"{split}.txt") for split in SPLITS}
    if not sentences and not any(lists.values()):
        raise CorpusError(given.lacks(f"{SENTENCES}, train.txt, val.txt or test.txt"))
    for split, path in lists.items():
        for n, address in enumerate(read_lines(path) if path else [], start=1):
            _clip(draft, address, split, f"{path}, entry {n},")
    if sentences:
        _read_sentences(draft, sentences, listed=any(lists.values()))
    else:
        draft.note(f"{SENTENCES} was not given, and it has the captions.", left_out=True)
    draft.expect({split: count for split, count in OFFICIAL.items() if lists[split]})
    draft.notices += given.unread()
    return draft.finish(all_captioned=sentences is not None)


def _read_sentences(draft: Draft, path: Path, *, listed: bool) -> None:
    """Add the captions; those of splits that were not given are not counted as missing."""
    elsewhere = 0
    for where, (address, text) in tab_rows(path, 2):
        name = _name(address)
        if not listed and name not in draft.clips:
            _clip(draft, address, None, where)
        if name in draft.clips:
            draft.caption(name, text)
        else:
            elsewhere += 1
    if elsewhere:
        draft.note(f"{elsewhere:,} captions of {path.name} belong to splits that were not given.")


def _clip(draft: Draft, address: str, split: str | None, where: str) -> None:
    name = _name(address)
    draft.clip(name, {"path": f"{name}.gif", "split": split, "url": address}, where)


def _name(address: str) -> str:
    return stem(urlsplit(address).path)
