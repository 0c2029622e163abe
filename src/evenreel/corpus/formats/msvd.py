"""MSVD: `captions_msvd.json` {clip: [caption]} and `train_list.txt`, `val_list.txt`, `test_list.txt`.

A clip's name is its YouTube id with the seconds at which it was cut out; the files are `NAME.avi`. (Chen and Dolan
2011; the splits are those of Venugopalan et al. 2015.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenreel.corpus.formats.names import cut_length_s
from evenreel.corpus.given_files import ReleaseFiles, read_json, read_lines, stem, texts, typed
from evenreel.corpus.imported import Draft, Imported

OFFICIAL = {"train": 1200, "val": 100, "test": 670}


def read_msvd(paths: Sequence[Path]) -> Imported:
    """Read MSVD as a corpus, from its captions and the lists of its splits."""
    given = ReleaseFiles("MSVD", paths)
    draft = Draft("MSVD")
    captions = given.need("captions_msvd.json", "raw-captions.json")
    lists = {split: given.one(f"{split}_list.txt") for split in OFFICIAL}
    if not any(lists.values()):
        given.need("train_list.txt")
    for split, path in lists.items():
        for number, line in enumerate(read_lines(path) if path else [], start=1):
            name = stem(line)
            columns = {"path": f"{name}.avi", "split": split, "duration_s": cut_length_s(name)}
            draft.clip(name, columns, f"{path}, entry {number},")
    for name, of_clip in typed(read_json(captions), dict, str(captions)).items():
        for text in texts(of_clip, f"{captions.name}, {name},"):
            draft.caption(stem(name), text)
    draft.expect(OFFICIAL)
    draft.notices += given.unread()
    return draft.finish()
