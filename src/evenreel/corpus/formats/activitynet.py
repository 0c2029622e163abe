"""ActivityNet Captions for paragraph retrieval: a video's sentences, joined, are its one caption.

`train.json`, `val_1.json`: {video: {`duration`, `timestamps`, `sentences`}}; `train_ids.json`, `val_ids.json`: the
videos that count. The field tests on `val_1.json`. Names begin with `v_` here whether or not the files write it so;
repositories differ. (Krishna et al. 2017.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, field, optional, read_json, read_lines, stem, texts, typed
from evenreel.corpus.imported import Draft, Imported
from evenreel.errors import CorpusError

FILES = {"train": ("train.json",), "val": ("val_1.json", "val1.json")}
IDS = {"train": ("train_ids.json", "train_ids.txt"), "val": ("val_ids.json", "val_1_ids.json", "val_ids.txt")}
OFFICIAL = {"train": 10009, "val": 4917}


def read_activitynet(paths: Sequence[Path]) -> Imported:
    """Read ActivityNet Captions as a corpus for paragraph retrieval.

    The columns `timestamps` and `sentences` of the captions keep the single sentences and their times in seconds.
    """
    given = ReleaseFiles("ActivityNet", paths)
    draft = Draft("ActivityNet")
    files = {split: given.one(*names) for split, names in FILES.items()}
    if not any(files.values()):
        raise CorpusError(given.lacks("train.json or val_1.json"))
    renamed = 0
    for split, path in files.items():
        ids = given.one(*IDS[split])
        if path:
            renamed += _read_split(draft, split, path, ids)
    if renamed:
        draft.note(f"{renamed:,} names were given the official 'v_' in front.")
    if given.all("val_2.json", "val2.json"):
        draft.note(
            "val_2.json, a second set of paragraphs for the same videos, is not read: the field uses val_1.json."
        )
    draft.expect({split: count for split, count in OFFICIAL.items() if files[split]})
    draft.notices += given.unread()
    return draft.finish()


def _read_split(draft: Draft, split: str, path: Path, ids: Path | None) -> int:
    """Add the videos of a split; how many were named without `v_`."""
    written = typed(read_json(path), dict, str(path))
    entries: dict[str, tuple[str, Any]] = {}
    for name, value in written.items():
        first, _ = entries.setdefault(_official(name), (name, value))
        if first != name:
            raise CorpusError(
                f"{path.name} names the video {_official(name)} twice, as {first!r} and as {name!r}; take one out."
            )
    wanted = [_official(name) for name in _listed(ids)] if ids else list(entries)
    draft.leave_out(f"videos of {ids.name if ids else path.name} have no annotation in {path.name}",
                    [name for name in wanted if name not in entries])  # fmt: skip
    for name in dict.fromkeys(wanted):
        if name in entries:
            _add(draft, split, name, entries[name][1], f"{path.name}, {entries[name][0]},")
    draft.leave_out(f"videos of {path.name} are not in {ids.name if ids else path.name}",
                    [name for name in entries if name not in set(wanted)])  # fmt: skip
    return sum(not name.startswith("v_") for name in written)


def _add(draft: Draft, split: str, name: str, entry: Any, where: str) -> None:
    sentences = [one.strip() for one in texts(field(entry, "sentences", list, where), where)]
    columns = {"path": f"{name}.mp4", "split": split, "duration_s": optional(entry, "duration", float, where)}
    draft.clip(name, columns, where)
    times = _times(optional(entry, "timestamps", list, where) or [], where)
    draft.caption(name, " ".join(sentences), {"sentences": sentences, "timestamps": times})


def _times(times: list[Any], where: str) -> list[list[float]]:
    return [
        [typed(one, float, f"{where} timestamps entry {n},") for one in typed(pair, list, f"{where} timestamps")]
        for n, pair in enumerate(times, start=1)
    ]


def _listed(path: Path) -> list[str]:
    return read_lines(path) if path.suffix == ".txt" else texts(read_json(path), path.name)


def _official(name: str) -> str:
    """A name with `v_` in front and no extension."""
    bare = stem(name)
    return bare if bare.startswith("v_") else f"v_{bare}"
