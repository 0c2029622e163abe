"""Readers of benchmarks of captioned clips: what the files of each release look like, and what is made of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from evenreel.corpus.array_files import load_array
from evenreel.corpus.counterparts import ORDER_OF
from evenreel.corpus.imported import (
    Draft,
    Imported,
    ReleaseFiles,
    csv_rows,
    json_field,
    json_lines,
    number,
    optional,
    read_json,
    read_lines,
    stem,
    tab_rows,
    texts,
    typed,
    whole,
)
from evenreel.corpus.on_screen import bounds, make_texts
from evenreel.corpus.relevance import OTHER_CLIPS
from evenreel.documents import brief
from evenreel.errors import CorpusError
from evenreel.wording import count

_CUT = re.compile(r".+_([0-9]{1,9})_([0-9]{1,9})$")
_MOVIE = re.compile(r".*_(\d\d)\.(\d\d)\.(\d\d)\.(\d{3})-(\d\d)\.(\d\d)\.(\d\d)\.(\d{3})$")


def cut_length_s(name: str) -> float | None:
    """Return the seconds between the two times in a clip name `ID_FROM_TO` (MSVD, VATEX); None for other names.

    >>> cut_length_s("-4wsuPCjDBc_5_15"), cut_length_s("Ptf_2VRj-V0_000122_000132"), cut_length_s("video7")
    (10.0, 10.0, None)
    """
    found = _CUT.fullmatch(name)
    length = int(found[2]) - int(found[1]) if found else 0
    return float(length) if length > 0 else None


def movie_length_s(name: str) -> float | None:
    """Return the seconds between the times in a name `MOVIE_HH.MM.SS.mmm-HH.MM.SS.mmm` (LSMDC); None for other names.

    >>> movie_length_s("1012_Unbreakable_00.05.16.065-00.05.21.941")
    5.876
    """
    found = _MOVIE.fullmatch(name)
    if not found:
        return None
    hours, minutes, seconds, thousandths = (int(found[place + 4]) - int(found[place]) for place in range(1, 5))
    length = hours * 3600 + minutes * 60 + seconds + thousandths / 1000
    return round(length, 3) if length > 0 else None


# MSR-VTT in its three protocols.
#
# `MSRVTT_data.json` (or the official `train_val_videodatainfo.json` and `test_videodatainfo.json`) has `sentences`
# [{`video_id`, `caption`}] and `videos` [{`video_id`, `category`, `split`, `url`, `start time`, `end time`}]; the form
# of `MSR_VTT.json` is `annotations` [{`image_id`, `caption`}]. The times are those in the YouTube video; the files
# `VIDEO.mp4` are cut already, so they give `duration_s` and not `start_s`. (Xu et al. 2016; the 1k-A test set is that
# of Yu et al. 2018.)

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
        for n, row in enumerate(json_field(value, rows, list, file), start=1):
            where = f"{file}, {rows} entry {n},"
            yield json_field(row, name, str, where), json_field(row, "caption", str, where)


def _videos(data: list[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    """Columns of every video that a `videos` list describes."""
    return {
        json_field(row, "video_id", str, f"{file}, videos entry {n},"): _described(row, f"{file}, videos entry {n},")
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


# MSVD: `captions_msvd.json` {clip: [caption]} and `train_list.txt`, `val_list.txt`, `test_list.txt`.
#
# A clip's name is its YouTube id with the seconds at which it was cut out; the files are `NAME.avi`. (Chen and Dolan
# 2011; the splits are those of Venugopalan et al. 2015.)

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
        for place, line in enumerate(read_lines(path) if path else [], start=1):
            name = stem(line)
            columns = {"path": f"{name}.avi", "split": split, "duration_s": cut_length_s(name)}
            draft.clip(name, columns, f"{path}, entry {place},")
    for name, of_clip in typed(read_json(captions), dict, str(captions)).items():
        for text in texts(of_clip, f"{captions.name}, {name},"):
            draft.caption(stem(name), text)
    draft.expect(OFFICIAL)
    draft.notices += given.unread()
    return draft.finish()


# LSMDC: tab-separated tables without a header, one row a sentence.
#
# Columns: clip, start and end as aligned, start and end as extracted, sentence (quotes are part of it). The files are
# `MOVIE/CLIP.avi`, cut already. (Rohrbach et al. 2017.)
#
# Codebases leave out different test clips, so their galleries differ; here every clip is kept and the column
# `left_out_by` says who leaves it out.

FILES = {
    "train": ("LSMDC16_annos_training.csv", "LSMDC16_annos_training_real.csv"),
    "val": ("LSMDC16_annos_val.csv",),
    "test": ("LSMDC16_challenge_1000_publictect.csv",),
}
LSMDC_OFFICIAL = {"val": 7408, "test": 1000}
COLUMNS = 6

LEFT_OUT_BY = {
    "1012_Unbreakable_00.05.16.065-00.05.21.941": "X-Pool, T-MASS",
    "0017_Pianist_00.23.28.872-00.23.34.843": "DiCoSA",
    "0017_Pianist_00.30.36.767-00.30.38.009": "DiCoSA",
    "3064_SPARKLE_2012_01.41.07.000-01.41.11.793": "DiCoSA",
}


def read_lsmdc(paths: Sequence[Path]) -> Imported:
    """Read LSMDC; a clip with several sentences has several captions."""
    given = ReleaseFiles("LSMDC", paths)
    draft = Draft("LSMDC")
    tables = {split: given.one(*names) for split, names in FILES.items()}
    if not any(tables.values()):
        raise CorpusError(given.lacks(" or ".join(names[0] for names in FILES.values())))
    for split, path in tables.items():
        for where, values in tab_rows(path, COLUMNS) if path else ():
            name = stem(values[0])
            if draft.clips.get(name, {}).get("split") != split:
                draft.clip(name, _columns(name, split), where)
            draft.caption(name, values[-1])
    _tell_of_galleries(draft)
    draft.expect({split: count for split, count in LSMDC_OFFICIAL.items() if tables[split]})
    draft.notices += given.unread()
    return draft.finish()


def _columns(name: str, split: str) -> dict[str, str | float | None]:
    movie = name.rpartition("_")[0]
    return {
        "path": f"{movie}/{name}.avi",
        "split": split,
        "duration_s": movie_length_s(name),
        "movie": movie,
        "left_out_by": LEFT_OUT_BY.get(name),
    }


def _tell_of_galleries(draft: Draft) -> None:
    if kept := [name for name in LEFT_OUT_BY if name in draft.clips]:
        by = sorted({who for name in kept for who in LEFT_OUT_BY[name].split(", ")})
        draft.note(
            f"{len(kept)} clips that {', '.join(by)} leave out are kept; the column left_out_by names them, to select "
            "the gallery of another codebase."
        )


# ActivityNet Captions for paragraph retrieval: a video's sentences, joined, are its one caption.
#
# `train.json`, `val_1.json`: {video: {`duration`, `timestamps`, `sentences`}}; `train_ids.json`, `val_ids.json`: the
# videos that count. The field tests on `val_1.json`. Names begin with `v_` here whether or not the files write it so;
# repositories differ. (Krishna et al. 2017.)

ACTIVITYNET_FILES = {"train": ("train.json",), "val": ("val_1.json", "val1.json")}
IDS = {"train": ("train_ids.json", "train_ids.txt"), "val": ("val_ids.json", "val_1_ids.json", "val_ids.txt")}
ACTIVITYNET_OFFICIAL = {"train": 10009, "val": 4917}


def read_activitynet(paths: Sequence[Path]) -> Imported:
    """Read ActivityNet Captions as a corpus for paragraph retrieval.

    The columns `timestamps` and `sentences` of the captions keep the single sentences and their times in seconds.
    """
    given = ReleaseFiles("ActivityNet", paths)
    draft = Draft("ActivityNet")
    files = {split: given.one(*names) for split, names in ACTIVITYNET_FILES.items()}
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
    draft.expect({split: count for split, count in ACTIVITYNET_OFFICIAL.items() if files[split]})
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
    sentences = [one.strip() for one in texts(json_field(entry, "sentences", list, where), where)]
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


# DiDeMo for paragraph retrieval: a video's descriptions, joined, are its one caption.
#
# Official: `SPLIT_data.json` [{`video`, `description`, `times`}], with `SPLIT_list.txt` where not every video counts.
# Table: `didemo_SPLIT_label.csv` with `success, video_path, starts, ends, text, formatted_data`, joined already.
# Annotators saw the first 30 seconds; the field reads the seconds 0 to 31, and so do the clips here. Names are without
# their extension, which repositories write differently. (Hendricks et al. 2017.)

DIDEMO_OFFICIAL = {"train": 8362, "val": 1062, "test": 1004}
WINDOW_S = (0.0, 31.0)


def read_didemo(paths: Sequence[Path]) -> Imported:
    """Read DiDeMo for paragraph retrieval, from its official files or from the tables `didemo_SPLIT_label.csv`."""
    given = ReleaseFiles("DiDeMo", paths)
    draft = Draft("DiDeMo")
    for split in DIDEMO_OFFICIAL:
        names = (f"{split}_data.json", f"*didemo_{split}*.csv", f"{split}_label.csv")
        listed = given.one(f"{split}_list.txt")
        if path := given.one(*names):
            if path.suffix == ".csv":
                _read_table(draft, split, path)
            else:
                _read_json(draft, split, path, listed)
    if not draft.clips:
        raise CorpusError(given.lacks("train_data.json or didemo_train_label.csv, or those of val or test,"))
    draft.expect(DIDEMO_OFFICIAL)
    draft.notices += given.unread()
    return draft.finish()


def _read_table(draft: Draft, split: str, path: Path) -> None:
    failed = []
    for where, row in csv_rows(path, ("video_path", "text")):
        name = stem(row["video_path"])
        if row.get("success", "True") != "True":
            failed.append(name)
            continue
        window = (_seconds(row.get("starts"), where, 0), _seconds(row.get("ends"), where, 1))
        draft.clip(name, _didemo_columns(row["video_path"], split, window), where)
        draft.caption(name, row["text"])
    draft.leave_out(f"videos of {path.name} are left out because the file says they could not be read", failed)


def _read_json(draft: Draft, split: str, path: Path, listed: Path | None) -> None:
    told: dict[str, list[str]] = {}
    written: dict[str, str] = {}
    for n, row in enumerate(typed(read_json(path), list, str(path)), start=1):
        where = f"{path.name}, entry {n},"
        video = json_field(row, "video", str, where)
        written.setdefault(stem(video), video)
        told.setdefault(stem(video), []).append(json_field(row, "description", str, where).strip())
    wanted = list(dict.fromkeys(map(stem, read_lines(listed)))) if listed else list(told)
    for name in wanted:
        if name in told:
            draft.clip(name, _didemo_columns(written[name], split, WINDOW_S), f"{path.name}, {name},")
            draft.caption(name, " ".join(told[name]))
    if listed:
        draft.leave_out(f"videos of {listed.name} have no description", [one for one in wanted if one not in told])
        draft.leave_out(f"videos of {path.name} are not in {listed.name}", sorted(set(told) - set(wanted)))


def _seconds(written: str | None, where: str, side: int) -> float:
    """The number in `tensor([[31]])`, or the field's window where the column is missing."""
    if written is None:
        return WINDOW_S[side]
    return number(re.sub(r"^tensor\(\[+(.*?)\]+\)$", r"\1", written.strip()), where)


def _didemo_columns(video: str, split: str, window: tuple[float, float]) -> dict[str, Any]:
    start, end = window
    file = video.strip().replace("\\", "/").rpartition("/")[2]
    return {"path": file, "start_s": start, "end_s": end, "split": split}


# VATEX, English captions.
#
# Official: `vatex_training_v1.0.json`, `vatex_validation_v1.0.json`, `vatex_public_test_english_v1.1.json`, each
# [{`videoID`, `enCap`, `chCap`}]. Retrieval codebases: `ref_captions.json` {video: [caption]} and `train_list.txt`,
# `val_list.txt`, `test_list.txt`. A name is the YouTube id with the seconds at which it was cut out. (Wang et al.
# 2019.)

VATEX_FILES = {
    "train": ("vatex_training_v1*.json", "vatex_train_english*.json"),
    "val": ("vatex_validation_v1*.json", "vatex_val_english*.json"),
    "test": ("vatex_public_test_english*.json",),
}
VATEX_OFFICIAL = {"train": 25991, "val": 3000, "test": 6000}


def read_vatex(paths: Sequence[Path]) -> Imported:
    """Read VATEX, its English captions, from the official files or from `ref_captions.json` and lists of splits."""
    given = ReleaseFiles("VATEX", paths)
    draft = Draft("VATEX")
    official = {split: given.one(*names) for split, names in VATEX_FILES.items()}
    references = None if any(official.values()) else given.one("ref_captions.json")
    if references:
        _read_lists(given, draft, references)
    elif any(official.values()):
        for split, path in official.items():
            if path:
                _read_official(draft, split, path)
        draft.expect(VATEX_OFFICIAL)
        beside = next(path.name for path in official.values() if path)
        given.not_needed(beside, "ref_captions.json", *(f"{split}_list.txt" for split in VATEX_OFFICIAL))
    else:
        raise CorpusError(given.lacks("vatex_training_v1.0.json (or that of another split) or ref_captions.json"))
    draft.notices += given.unread()
    return draft.finish()


def _read_official(draft: Draft, split: str, path: Path) -> None:
    chinese = 0
    for n, row in enumerate(typed(read_json(path), list, str(path)), start=1):
        where = f"{path.name}, entry {n},"
        name = stem(json_field(row, "videoID", str, where))
        _clip(draft, name, split, where)
        for text in texts(json_field(row, "enCap", list, where), f"{where} enCap"):
            draft.caption(name, text)
        chinese += len(optional(row, "chCap", list, where) or ())
    if chinese:
        draft.note(f"{chinese:,} Chinese captions of {path.name} are not read.")


def _read_lists(given: ReleaseFiles, draft: Draft, references: Path) -> None:
    lists = {split: given.one(f"{split}_list.txt") for split in VATEX_OFFICIAL}
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


# YouCook2: a clip is a segment of a cooking video, with one sentence.
#
# Official: `youcookii_annotations_trainval.json`, `database` {video: {`subset`, `recipe_type`, `annotations`:
# [{`id`, `segment`, `sentence`}]}}. Table: `validation_youcook.csv` with `end, start, task, text, video_id`. The files
# are `SUBSET/RECIPE/VIDEO.mp4` in both. (Zhou et al. 2018; the table is that of MIL-NCE, Miech et al. 2020.)

SPLITS = {"training": "train", "validation": "val", "testing": "test"}
TABLE_CLIPS = 3350


def read_youcook2(paths: Sequence[Path]) -> Imported:
    """Read YouCook2 from its official annotations or from `validation_youcook.csv`.

    A clip is called `VIDEO_N`: the Nth annotated segment of a video, from 0.
    """
    given = ReleaseFiles("YouCook2", paths)
    draft = Draft("YouCook2")
    path = given.need("youcook*_annotations_trainval*.json", "validation_youcook.csv", "training_youcook.csv")
    for segments in given.all("youcook*_annotations_test*.json"):
        draft.note(f"{segments.name} has no sentences and is not read.", split="test")
    if path.suffix == ".csv":
        subset = path.name.lower().partition("_")[0]
        _youcook2_read_table(draft, subset, path)
        draft.expect({"val": TABLE_CLIPS} if subset == "validation" else {})
    else:
        for video, entry in json_field(read_json(path), "database", dict, str(path)).items():
            _read_video(draft, video, entry, f"{path.name}, {video},")
    draft.notices += given.unread()
    return draft.finish()


def _youcook2_read_table(draft: Draft, subset: str, path: Path) -> None:
    seen: Counter[str] = Counter()
    for where, row in csv_rows(path, ("end", "start", "task", "text", "video_id")):
        video = row["video_id"]
        times = number(row["start"], where), number(row["end"], where)
        name = f"{video}_{seen[video]}"
        seen[video] += 1
        draft.clip(name, _youcook2_columns(subset, row["task"], video, times), where)
        draft.caption(name, row["text"])


def _read_video(draft: Draft, video: str, entry: Any, where: str) -> None:
    subset = json_field(entry, "subset", str, where)
    if subset not in SPLITS:
        raise CorpusError(f"{where} field subset, is {subset!r}; it must be one of {', '.join(SPLITS)}.")
    recipe = optional(entry, "recipe_type", str, where) or ""
    for n, segment in enumerate(optional(entry, "annotations", list, where) or []):
        place = f"{where} segment {n},"
        times = [typed(one, float, place) for one in json_field(segment, "segment", list, place)]
        if len(times) != 2:
            raise CorpusError(f"{place} has {len(times)} times; a segment has a start and an end.")
        draft.clip(f"{video}_{n}", _youcook2_columns(subset, recipe, video, (times[0], times[1])), place)
        draft.caption(f"{video}_{n}", json_field(segment, "sentence", str, place))


def _youcook2_columns(subset: str, recipe: str, video: str, times: tuple[float, float]) -> dict[str, Any]:
    return {
        "path": "/".join(part for part in (subset, recipe, f"{video}.mp4") if part),
        "start_s": times[0],
        "end_s": times[1],
        "split": SPLITS[subset],
        "recipe": recipe or None,
    }


# TGIF: `tgif-v1.0.tsv` with an address and a sentence a row, and `train.txt`, `val.txt`, `test.txt` of addresses.
#
# A clip's name is that of the file in its address. Clips of the test split have three sentences, others one.
# (Li et al. 2016.)

TGIF_SPLITS = ("train", "val", "test")
TGIF_OFFICIAL = {"val": 10708, "test": 11360}
SENTENCES = "tgif-v1.0.tsv"


def read_tgif(paths: Sequence[Path]) -> Imported:
    """Read TGIF; where no lists of splits are given, every GIF with a sentence is a clip."""
    given = ReleaseFiles("TGIF", paths)
    draft = Draft("TGIF")
    sentences = given.one("tgif-v1.0.tsv", "tgif*.tsv")
    lists = {split: given.one(f"{split}.txt") for split in TGIF_SPLITS}
    if not sentences and not any(lists.values()):
        raise CorpusError(given.lacks(f"{SENTENCES}, train.txt, val.txt or test.txt"))
    for split, path in lists.items():
        for n, address in enumerate(read_lines(path) if path else [], start=1):
            _tgif_clip(draft, address, split, f"{path}, entry {n},")
    if sentences:
        _read_sentences(draft, sentences, listed=any(lists.values()))
    else:
        draft.note(f"{SENTENCES} was not given, and it has the captions.", left_out=True)
    draft.expect({split: count for split, count in TGIF_OFFICIAL.items() if lists[split]})
    draft.notices += given.unread()
    return draft.finish(all_captioned=sentences is not None)


def _read_sentences(draft: Draft, path: Path, *, listed: bool) -> None:
    """Add the captions; those of splits that were not given are not counted as missing."""
    elsewhere = 0
    for where, (address, text) in tab_rows(path, 2):
        name = _name(address)
        if not listed and name not in draft.clips:
            _tgif_clip(draft, address, None, where)
        if name in draft.clips:
            draft.caption(name, text)
        else:
            elsewhere += 1
    if elsewhere:
        draft.note(f"{elsewhere:,} captions of {path.name} belong to splits that were not given.")


def _tgif_clip(draft: Draft, address: str, split: str | None, where: str) -> None:
    name = _name(address)
    draft.clip(name, {"path": f"{name}.gif", "split": split, "url": address}, where)


def _name(address: str) -> str:
    return stem(urlsplit(address).path)


# Reversed in Time: videos and the same played backwards, each with captions that are wrong for the other.
#
# `test.json`, `train.json`, `val.json`: {video: {`forward_captions`, `reverse_captions`, `forward_rewrites`,
# `reverse_rewrites`, `temporal`, `reverse`}}. (Du et al. 2024.)

RTIME_SPLITS = ("train", "val", "test")
REVERSED = "_reverse"
"""Behind the name of a video that is played backwards."""


def read_rtime(paths: Sequence[Path]) -> Imported:
    """Read RTime (Reversed in Time), videos and the same videos played backwards.

    The ids of clips played backwards end in `_reverse`, their column `backwards` is true, and `order_of` names the clip
    that they are played backwards of, for the audit `order`.
    """
    given = ReleaseFiles("RTime", paths)
    draft = Draft("RTime")
    for split in RTIME_SPLITS:
        if path := given.one(f"{split}.json"):
            for name, entry in typed(read_json(path), dict, str(path)).items():
                _rtime_add(draft, split, name, typed(entry, dict, f"{path.name}, {name},"), f"{path.name}, {name},")
    if not draft.clips:
        raise CorpusError(given.lacks("train.json, val.json or test.json"))
    draft.note("Rewritten captions are not read: they say what the first ones say, in other words.")
    draft.notices += given.unread()
    return draft.finish()


def _rtime_add(draft: Draft, split: str, name: str, entry: Mapping[str, Any], where: str) -> None:
    for way, ending in (("forward", ""), ("reverse", REVERSED)):
        captions = optional(entry, f"{way}_captions", list, where)
        if captions is None:
            continue
        clip = f"{name}{ending}"
        shot = name if ending and entry.get("forward_captions") is not None else None
        columns = {
            "path": f"{clip}.mp4", "split": split, "backwards": bool(ending), "same_scene": name, ORDER_OF: shot,
        }  # fmt: skip
        draft.clip(clip, columns, where)
        for text in texts(json_field(entry, f"{way}_captions", list, where), where):
            draft.caption(clip, text)


# MultiVENT 2.0: queries about events, each with the videos that were judged relevant, of a collection.
#
# `multivent_2_q.csv`: `Query_id, query`; `multivent_2_j.jsonl`: `query_id, doc_id, relevance` a line;
# `multivent_2_ids.csv`: `id`, all videos that are searched. (Kriz et al. 2025.)

QUERIES, JUDGEMENTS, MULTIVENT_IDS = "multivent_2_q.csv", "multivent_2_j.jsonl", "multivent_2_ids.csv"


def read_multivent(paths: Sequence[Path]) -> Imported:
    """Read MultiVENT 2.0; a query becomes a caption of its first relevant video.

    The column `other_clips` of the captions lists the other relevant videos.
    """
    given = ReleaseFiles("MultiVENT 2.0", paths)
    draft = Draft("MultiVENT 2.0")
    queries = {row["Query_id"]: row["query"] for _, row in csv_rows(given.need(QUERIES), ("Query_id", "query"))}
    relevant, below = _relevant(given.need(JUDGEMENTS), queries)
    ids = given.one(MULTIVENT_IDS)
    listed = [row["id"] for _, row in csv_rows(ids, ("id",))] if ids else []
    for name in dict.fromkeys((*listed, *(name for names in relevant.values() for name in names))):
        draft.clip(name, {"split": "test"}, f"{name},")
    for query, names in relevant.items():
        columns = {"caption_id": query, OTHER_CLIPS: names[1:]}
        draft.caption(names[0], queries[query], columns)
    if below:
        draft.note(f"{count(below, 'judgement')} of a grade below 0, as of spam, counted as not relevant.")
    draft.leave_out("queries have no relevant video", [query for query in queries if query not in relevant])
    if ids is None:
        draft.note(f"{MULTIVENT_IDS} was not given: the corpus has the judged videos alone.", left_out=True)
    draft.notices += given.unread()
    return draft.finish(all_captioned=False)


def _relevant(path: Path, queries: Mapping[str, str]) -> tuple[dict[str, list[str]], int]:
    """Videos that answer each query, in the order of the file; and how many grades are below 0."""
    found: dict[str, list[str]] = {}
    below = 0
    for where, entry in json_lines(path):
        query, name = json_field(entry, "query_id", str, where), json_field(entry, "doc_id", str, where)
        if query not in queries:
            raise CorpusError(f"{where} judges the query {query!r}, which {QUERIES} does not have.")
        grade = json_field(entry, "relevance", int, where)
        below += grade < 0
        if grade > 0:
            found.setdefault(query, []).append(name)
    return found, below


# TextVR: videos whose captions mention words on screen, with the words that an OCR service read.
#
# `TextVR_train.json`, `TextVR_test.json`: [{`path`, `captions_info`: [{`caption`, `caption_info`: {`duration`}}],
# `videos_info`: {`source`, `split`, `Kwai_OCR`}}]. `Kwai_OCR` names a file in the folder `Kwai_VideoOCR`: {sign:
# {`text`, `score`, `tracks`: {frame: 8 corners and 2 more}}}. The domain is the first folder of `path`. The captions of
# `TextVR_test_rand.json` are shuffled, so it is not read. (Wu et al. 2025.)

TEXTVR_FILES = {"train": "TextVR_train.json", "test": "TextVR_test.json"}
TEXTVR_OFFICIAL = {"test": 2727}
CORNERS = 8


def read_textvr(paths: Sequence[Path]) -> Imported:
    """Read TextVR, and the words on screen where their files are given."""
    given = ReleaseFiles("TextVR", paths)
    draft = Draft("TextVR")
    files = [path for name in TEXTVR_FILES.values() if (path := given.one(name))]
    if not files:
        raise CorpusError(given.lacks(" or ".join(TEXTVR_FILES.values())))
    read_by: dict[str, str] = {}
    for path in files:
        for n, row in enumerate(typed(read_json(path), list, str(path)), start=1):
            read_by |= _read_row(draft, row, f"{path.name}, entry {n},")
    texts = _read_words(given, draft, read_by)
    draft.expect(TEXTVR_OFFICIAL)
    draft.notices += given.unread()
    return draft.finish(texts)


def _read_row(draft: Draft, row: object, where: str) -> dict[str, str]:
    """Add a video and its captions; the video with the file of its words."""
    path = json_field(row, "path", str, where)
    info = json_field(row, "videos_info", dict, where)
    captions = json_field(row, "captions_info", list, where)
    name = path.rpartition(".")[0] or path
    columns: dict[str, Any] = {"path": path, "split": json_field(info, "split", str, where)}
    columns["domain"] = path.partition("/")[0] if "/" in path else None
    lengths = [_length_s(caption, where) for caption in captions]
    columns["duration_s"] = next((length for length in lengths if length), None)
    draft.clip(name, columns, where)
    for caption in captions:
        draft.caption(name, json_field(caption, "caption", str, where))
    words = optional(info, "Kwai_OCR", str, where)
    return {name: words} if words else {}


def _length_s(caption: object, where: str) -> float | None:
    """Seconds of a caption's video; 0 in the files means unknown."""
    info = optional(caption, "caption_info", dict, where)
    return optional(info, "duration", float, where) if info else None


def _read_words(given: ReleaseFiles, draft: Draft, read_by: dict[str, str]) -> Any:
    """Words of all clips; None, with a notice, where no file of words is given."""
    files = {"/".join(path.parts[-2:]): path for path in given.all("*.json") if path.name not in TEXTVR_FILES.values()}
    found = {name: files[file] for name, file in read_by.items() if file in files}
    if not found:
        draft.note("No file of Kwai_VideoOCR was given: the corpus has no words on screen.")
        return None
    draft.leave_out("clips have no file of words on screen", [name for name in read_by if name not in found])
    return make_texts([sign for name, path in found.items() for sign in _signs(name, path)])


def _signs(name: str, path: Path) -> Iterator[dict[str, Any]]:
    """Every sign of a clip, once, with the frames it was followed over."""
    value = read_json(path)
    for key, sign in typed(value, dict, str(path)).items() if value else ():
        where = f"{path.name}, sign {key},"
        tracks = {
            whole(frame, f"{where} tracks"): _corners(points, where)
            for frame, points in json_field(sign, "tracks", dict, where).items()
        }
        text = json_field(sign, "text", str, where).strip()
        if text and tracks:
            mean = [sum(column) / len(tracks) for column in zip(*tracks.values(), strict=True)]
            yield {
                "clip_id": name,
                "text": text,
                "confidence": number(str(sign["score"]), where) if sign.get("score") is not None else None,
                "start_frame": min(tracks),
                "end_frame": max(tracks),
                "box": bounds(mean),
            }


def _corners(points: object, where: str) -> list[float]:
    corners = [typed(one, float, f"{where} tracks") for one in typed(points, list, f"{where} tracks")[:CORNERS]]
    if len(corners) < CORNERS:
        raise CorpusError(f"{where} has {len(corners)} numbers for a box; its four corners are {CORNERS}.")
    return corners


# M4-ViteVQA: questions and answers about videos with words on screen, as captions.
#
# `ViteVQA_0.0.2_TASK.json`, `data` [{`question_id`, `question`, `answers`, `video_id`, `video_width`, `video_height`}]
# where TASK is `t1s1train`, `t1s1val` and so on: two splits of one task, and a second task. Words on screen:
# `video_ocr/VIDEO.json` {frame: [{`points`, `ocr`}]}. (Zhao et al. 2022.)
#
# The set was made for answering questions, and those who retrieve with it do not say what their captions are. Here a
# caption is the question followed by its first answer; the columns `question` and `answers` allow another choice.

VITEVQA_SPLITS = ("train", "val", "test", "extra")

_TASK = re.compile(r".*_(t1s1|t1s2|t2)(train|val|test|extra)\.json", re.IGNORECASE)


def read_vitevqa(paths: Sequence[Path]) -> Imported:
    """Read M4-ViteVQA, one task and split, and the words on screen where their files are given."""
    given = ReleaseFiles("M4-ViteVQA", paths)
    draft = Draft("M4-ViteVQA")
    files = {path: found for path in given.all("*vqa_*.json") if (found := _TASK.fullmatch(path.name))}
    if not files:
        raise CorpusError(given.lacks("ViteVQA_0.0.2_t1s1train.json (or another task and split)"))
    if len(tasks := {found[1].lower() for found in files.values()}) > 1:
        raise CorpusError(
            f"The files given are of {', '.join(sorted(tasks))}, whose splits share videos; give those of one."
        )
    for split in VITEVQA_SPLITS:
        for path, found in files.items():
            if found[2].lower() == split:
                _read_questions(draft, split, path)
    draft.note("A caption is a question followed by its first answer; the columns question and answers have both.")
    words = _vitevqa_read_words(given, draft)
    draft.notices += given.unread()
    return draft.finish(words)


def _read_questions(draft: Draft, split: str, path: Path) -> None:
    for n, row in enumerate(json_field(read_json(path), "data", list, str(path)), start=1):
        where = f"{path.name}, entry {n},"
        video = json_field(row, "video_id", str, where)
        if draft.clips.get(video, {}).get("split") != split:
            sizes = {name: optional(row, f"video_{name}", int, where) for name in ("width", "height")}
            draft.clip(video, {"path": f"{video}.mp4", "split": split} | sizes, where)
        question = json_field(row, "question", str, where)
        answers = texts(optional(row, "answers", list, where) or [], where)
        columns = {
            "caption_id": str(json_field(row, "question_id", int, where)),
            "question": question,
            "answers": answers,
        }
        draft.caption(video, " ".join([question, *answers[:1]]), columns)


def _vitevqa_read_words(given: ReleaseFiles, draft: Draft) -> Any:
    """Words of all clips; None, with a notice, where no file of words is given."""
    found: dict[str, Path] = {}
    for path in given.all("*.json", folder="video_ocr"):
        if path.stem in found:
            raise CorpusError(given.ambiguous(f"video_ocr/{path.name}", [found[path.stem], path]))
        if path.stem in draft.clips:
            found[path.stem] = path
    if not found:
        draft.note("No file of video_ocr was given: the corpus has no words on screen.")
        return None
    draft.leave_out("clips have no file of words on screen", [name for name in draft.clips if name not in found])
    return make_texts([word for name, path in found.items() for word in _words(name, path)])


def _words(name: str, path: Path) -> Iterator[dict[str, Any]]:
    for frame, words in typed(read_json(path), dict, str(path)).items():
        where = f"{path.name}, frame {frame},"
        number = whole(frame, where)
        for word in typed(words, list, where):
            text = json_field(word, "ocr", str, where).strip()
            points = [typed(one, float, where) for one in json_field(word, "points", list, where)]
            if len(points) < 4 or len(points) % 2:
                raise CorpusError(f"{where} has {len(points)} numbers for a box; corners are pairs.")
            if text:
                row = {"clip_id": name, "text": text, "box": bounds(points)}
                yield row | {"start_frame": number, "end_frame": number}


# The annotations of HGR: captions with their semantic role graphs, for MSR-VTT, TGIF, VATEX or MSVD.
#
# `ref_captions.json` {video: [sentence]}; `sent2rolegraph.augment.json` {sentence: [{node: {`role`, `words`, `spans`}},
# [[from, to, role]]]}; `trn_names.npy`, `val_names.npy`, `tst_names.npy`. A caption gets the phrases of its `V` nodes
# in the column `verbs`, those of the others in `nouns`, and the whole graph as JSON in `role_graph`. (Chen et al.
# 2020.)

ROLE_GRAPHS_SPLITS = {"train": "trn", "val": "val", "test": "tst"}
VERB, ROOT = "V", "ROOT"


def read_role_graphs(paths: Sequence[Path]) -> Imported:
    """Read the captions and role graphs that HGR annotated; lists of names may also be `.txt` or `.json`."""
    given = ReleaseFiles("HGR", paths)
    draft = Draft("HGR")
    captions = given.need("ref_captions.json")
    graphs = _graphs(given, draft)
    for split, short in ROLE_GRAPHS_SPLITS.items():
        listed = given.one(f"{short}_names.npy", f"{short}_names.txt", f"{short}_names.json")
        for n, name in enumerate(_names(listed) if listed else [], start=1):
            draft.clip(name, {"path": name, "split": split}, f"{listed}, entry {n},")
    if not draft.clips:
        raise CorpusError(given.lacks("trn_names.npy, val_names.npy or tst_names.npy"))
    without = []
    for name, sentences in typed(read_json(captions), dict, str(captions)).items():
        for text in texts(sentences, f"{captions.name}, {name},"):
            columns = _role_graphs_columns(graphs[text], text) if text in graphs else {}
            draft.caption(name, text, columns)
            if graphs and not columns:
                without.append(text)
    draft.leave_out("captions have no role graph", without)
    draft.notices += given.unread()
    return draft.finish()


def _graphs(given: ReleaseFiles, draft: Draft) -> dict[str, Any]:
    path = given.one("sent2rolegraph.augment.json", "sent2rolegraph*.json")
    if path is None:
        draft.note("sent2rolegraph.augment.json was not given: captions have no role graphs.", left_out=True)
        return {}
    return typed(read_json(path), dict, str(path))


def _role_graphs_columns(graph: object, sentence: str) -> dict[str, Any]:
    where = f"The role graph of {sentence[:40]!r}"
    parts = typed(graph, list, where)
    if len(parts) != 2:
        raise CorpusError(f"{where} has {len(parts)} parts; it must have nodes and edges.")
    phrases: dict[bool, list[str]] = {True: [], False: []}
    for key, node in typed(parts[0], dict, f"{where}, nodes,").items():
        role = json_field(node, "role", str, f"{where}, node {key},")
        if role != ROOT:
            phrases[role == VERB].append(" ".join(texts(json_field(node, "words", list, where), where)))
    return {"verbs": phrases[True], "nouns": phrases[False], "role_graph": json.dumps(graph, separators=(",", ":"))}


def _names(path: Path) -> list[str]:
    """Names of a list; an array of Python objects is a pickle and is refused."""
    if path.suffix == ".json":
        return texts(read_json(path), path.name)
    if path.suffix == ".txt":
        return read_lines(path)
    try:
        names = load_array(path)
    except (ValueError, EOFError, OSError) as error:
        raise CorpusError(
            f"{path} cannot be read as an array of text ({error}); an array of Python objects is a pickle, which can "
            f"run code when it is opened: give the names as {path.stem}.txt, one a line."
        ) from error
    if names.dtype.kind == "S":
        names = np.char.decode(names, "utf-8")
    if names.dtype.kind != "U" or names.ndim != 1:
        raise CorpusError(f"{path} holds {names.dtype} of shape {names.shape}; it must be a list of names.")
    return [str(name) for name in names]
