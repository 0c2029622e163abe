"""MSR-VTT in its three protocols.

`MSRVTT_data.json` (or the official `train_val_videodatainfo.json` and `test_videodatainfo.json`) has `sentences`
[{`video_id`, `caption`}] and `videos` [{`video_id`, `category`, `split`, `url`, `start time`, `end time`}]; the form
of `MSR_VTT.json` is `annotations` [{`image_id`, `caption`}]. The times are those in the YouTube video; the files
`VIDEO.mp4` are cut already, so they give `duration_s` and not `start_s`. (Xu et al. 2016; the 1k-A test set is that
of Yu et al. 2018.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, csv_rows, field, optional, read_json
from evenreel.corpus.imported import Draft, Imported
from evenreel.documents import brief
from evenreel.errors import CorpusError

FORMS = (("MSRVTT_data.json",), ("train_val_videodatainfo.json", "test_videodatainfo.json"), ("MSR_VTT.json",))
"""File names of each form; one form has all the captions."""

DATA = tuple(name for form in FORMS for name in form)
TEST_1K = "MSRVTT_JSFUSION_test.csv"

FULL = {"train": 6513, "val": 497, "test": 2990}

CATEGORIES = (
    "music", "people", "gaming", "sports", "news", "education", "tv shows", "movie", "animation", "vehicles", "howto",
    "travel", "science", "animals", "kids", "documentary", "food", "cooking", "beauty", "advertisement",
)  # fmt: skip
"""Names of the categories 0 to 19, the first word or two of the official ones."""

_NUMBERED = re.compile(r"video([0-9]{1,4})")


def read_msrvtt(paths: Sequence[Path]) -> Imported:
    """Read MSR-VTT in its official split: 6,513 videos to train on, 497 to validate, 2,990 to test, of 20 captions."""
    given = ReleaseFiles("MSR-VTT", paths)
    draft = Draft("MSR-VTT")
    data = _data(given)
    if not data:
        raise CorpusError(given.lacks(" or ".join(DATA)))
    videos = _videos(data)
    for name in dict.fromkeys([*videos, *(name for name, _ in _sentences(data))]):
        columns = videos.get(name, {})
        draft.clip(name, _file(name) | columns | {"split": columns.get("split") or _official_split(name)}, "The data")
    for name, text in _sentences(data):
        draft.caption(name, text)
    draft.expect(FULL)
    draft.notices += given.unread()
    return draft.finish()


def read_msrvtt_1ka(paths: Sequence[Path]) -> Imported:
    """Read MSR-VTT in the split 1k-A: 9,000 videos to train on, 1,000 to test with one caption each."""
    return _read_1k(paths, "MSR-VTT 1k-A", "MSRVTT_train.9k.csv", 9000)


def read_msrvtt_7k(paths: Sequence[Path]) -> Imported:
    """Read MSR-VTT in the older form of split 1k-A: the same 1,000 test videos, 7,010 videos to train on."""
    return _read_1k(paths, "MSR-VTT 7k", "MSRVTT_train.7k.csv", 7010)


def _read_1k(paths: Sequence[Path], benchmark: str, train_list: str, train_count: int) -> Imported:
    given = ReleaseFiles(benchmark, paths)
    draft = Draft(benchmark)
    train, test = given.one(train_list), given.one(TEST_1K)
    if not train and not test:
        raise CorpusError(given.lacks(f"{train_list} and {TEST_1K}"))
    data = _data(given)
    videos = _videos(data)
    for where, row in csv_rows(test, ("video_id", "sentence")) if test else ():
        name = row["video_id"]
        draft.clip(name, _file(name) | videos.get(name, {}) | {"split": "test"}, where)
        draft.caption(name, row["sentence"])
    trained = _train(draft, train, videos)
    for name, text in _sentences(data):
        if name in trained:
            draft.caption(name, text)
    if not data and trained:
        lacking = f"Neither {DATA[0]} nor another form of it was given, and it has the captions to train on."
        draft.note(lacking, left_out=True, split="train")
    draft.expect({"train": train_count, "test": 1000})
    draft.notices += given.unread()
    return draft.finish(all_captioned=bool(data))


def _train(draft: Draft, path: Path | None, videos: dict[str, dict[str, Any]]) -> set[str]:
    names = []
    for where, row in csv_rows(path, ("video_id",)) if path else ():
        name = row["video_id"]
        draft.clip(name, _file(name) | videos.get(name, {}) | {"split": "train"}, where)
        names.append(name)
    return set(names)


def _data(given: ReleaseFiles) -> list[tuple[str, Any]]:
    forms = [found for form in FORMS if (found := [path for name in form if (path := given.one(name))])]
    if len(forms) > 1:
        raise CorpusError(given.ambiguous("form of the data", [path for form in forms for path in form]))
    return [(path.name, read_json(path)) for form in forms for path in form]


def _sentences(data: list[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Video and caption of every sentence, in file order."""
    for file, value in data:
        frozen = isinstance(value, dict) and "sentences" not in value and "annotations" in value
        rows, name = ("annotations", "image_id") if frozen else ("sentences", "video_id")
        for n, row in enumerate(field(value, rows, list, file), start=1):
            where = f"{file}, {rows} entry {n},"
            yield field(row, name, str, where), field(row, "caption", str, where)


def _videos(data: list[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    """Columns of every video that a `videos` list describes."""
    return {
        field(row, "video_id", str, f"{file}, videos entry {n},"): _described(row, f"{file}, videos entry {n},")
        for file, value in data
        for n, row in enumerate(optional(value, "videos", list, file) or [], start=1)
    }


def _described(row: object, where: str) -> dict[str, Any]:
    start, end = (optional(row, name, float, where) for name in ("start time", "end time"))
    category = optional(row, "category", int, where)
    split = optional(row, "split", str, where)
    return {
        "domain": CATEGORIES[category] if category is not None and 0 <= category < len(CATEGORIES) else None,
        "split": "val" if split == "validate" else split,
        "duration_s": end - start if start is not None and end is not None else None,
    }


def _file(name: str) -> dict[str, Any]:
    return {"path": f"{name}.mp4"}


def _official_split(name: str) -> str:
    """The official split by the number in a name, for the release that does not say it."""
    numbered = _NUMBERED.fullmatch(name)
    if not numbered:
        raise CorpusError(
            f"The data of MSR-VTT gives {brief(name)} no split; only video0 to video9999 have one by number."
        )
    number = int(numbered[1])
    return "train" if number < 6513 else "val" if number < 7010 else "test"
