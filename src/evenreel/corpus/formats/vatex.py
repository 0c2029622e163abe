"""VATEX, English captions.

Official: `vatex_training_v1.0.json`, `vatex_validation_v1.0.json`, `vatex_public_test_english_v1.1.json`, each
[{`videoID`, `enCap`, `chCap`}]. Retrieval codebases: `ref_captions.json` {video: [caption]} and `train_list.txt`,
`val_list.txt`, `test_list.txt`. A name is the YouTube id with the seconds at which it was cut out. (Wang et al. 2019.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenreel.corpus.formats.names import cut_length_s
from evenreel.corpus.given_files import ReleaseFiles, field, optional, read_json, read_lines, stem, texts, typed
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

FILES = {
    "train": ("vatex_training_v1*.json", "vatex_train_english*.json"),
    "val": ("vatex_validation_v1*.json", "vatex_val_english*.json"),
    "test": ("vatex_public_test_english*.json",),
}
OFFICIAL = {"train": 25991, "val": 3000, "test": 6000}


def read_vatex(paths: Sequence[Path]) -> Imported:
    """Read VATEX, its English captions, from the official files or from `ref_captions.json` and lists of splits."""
    given = ReleaseFiles("VATEX", paths)
    draft = Draft("VATEX")
    official = {split: given.one(*names) for split, names in FILES.items()}
    references = None if any(official.values()) else given.one("ref_captions.json")
    if references:
        _read_lists(given, draft, references)
    elif any(official.values()):
        for split, path in official.items():
            if path:
                _read_official(draft, split, path)
        draft.expect(OFFICIAL)
        beside = next(path.name for path in official.values() if path)
        given.not_needed(beside, "ref_captions.json", *(f"{split}_list.txt" for split in OFFICIAL))
    else:
        raise CorpusError(given.lacks("vatex_training_v1.0.json (or that of another split) or ref_captions.json"))
    draft.notices += given.unread()
    return draft.finish()


def _read_official(draft: Draft, split: str, path: Path) -> None:
    chinese = 0
    for n, row in enumerate(typed(read_json(path), list, str(path)), start=1):
        where = f"{path.name}, entry {n},"
        name = stem(field(row, "videoID", str, where))
        _clip(draft, name, split, where)
        for text in texts(field(row, "enCap", list, where), f"{where} enCap"):
            draft.caption(name, text)
        chinese += len(optional(row, "chCap", list, where) or ())
    if chinese:
        draft.note(f"{chinese:,} Chinese captions of {path.name} are not read.")


def _read_lists(given: ReleaseFiles, draft: Draft, references: Path) -> None:
    lists = {split: given.one(f"{split}_list.txt") for split in OFFICIAL}
    if not any(lists.values()):
        raise CorpusError(given.lacks("train_list.txt, val_list.txt or test_list.txt beside ref_captions.json"))
    for split, path in lists.items():
        for n, line in enumerate(read_lines(path) if path else [], start=1):
            _clip(draft, stem(line), split, f"{path}, entry {n},")
    for name, captions in typed(read_json(references), dict, str(references)).items():
        for text in texts(captions, f"{references.name}, {name},"):
            draft.caption(stem(name), text)


def _clip(draft: Draft, name: str, split: str, where: str) -> None:
    draft.clip(name, {"path": f"{name}.mp4", "split": split, "duration_s": cut_length_s(name)}, where)
