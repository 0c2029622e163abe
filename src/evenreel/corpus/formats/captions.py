"""Readers of benchmarks of captioned clips: what the files of each release look like, and what is made of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import polars as pl

from evenreel.corpus.array_files import load_array
from evenreel.corpus.counterparts import ORDER_OF
from evenreel.corpus.imported import (
    Draft,
    Imported,
    csv_rows,
    entries,
    json_field,
    json_lines,
    listed,
    number,
    optional,
    pair,
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
LISTS = {split: f"{split}_list.txt" for split in ("train", "val", "test")}
"""Lists of the names of a split, of MSVD, DiDeMo and VATEX."""


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

FULL = {"train": 6513, "val": 497, "test": 2990}

CATEGORIES = (
    "music", "people", "gaming", "sports", "news", "education", "tv shows", "movie", "animation", "vehicles", "howto",
    "travel", "science", "animals", "kids", "documentary", "food", "cooking", "beauty", "advertisement",
)  # fmt: skip
"""Names of the categories 0 to 19, the first word or two of the official ones."""

_NUMBERED = re.compile(r"video([0-9]{1,4})")


def read_msrvtt(paths: Sequence[Path]) -> Imported:
    """Read MSR-VTT in its official split: 6,513 videos to train on, 497 to validate, 2,990 to test, of 20 captions."""
    draft = Draft("MSR-VTT", paths)
    videos, sentences = _msrvtt_data(draft)
    for name in dict.fromkeys([*videos, *(name for name, _ in sentences)]):
        columns = videos.get(name, {})
        split = columns.get("split") or _official_split(name)
        draft.clip(name, {"path": f"{name}.mp4", **columns, "split": split}, "The data")
    for name, text in sentences:
        draft.caption(name, text)
    return draft.finish(FULL, needs=" or ".join(name for form in FORMS for name in form))


def read_msrvtt_1ka(paths: Sequence[Path]) -> Imported:
    """Read MSR-VTT in the split 1k-A: 9,000 videos to train on, 1,000 to test with one caption each."""
    return _read_1k(Draft("MSR-VTT 1k-A", paths), "MSRVTT_train.9k.csv", 9000)


def read_msrvtt_7k(paths: Sequence[Path]) -> Imported:
    """Read MSR-VTT in the older form of split 1k-A: the same 1,000 test videos, 7,010 videos to train on."""
    return _read_1k(Draft("MSR-VTT 7k", paths), "MSRVTT_train.7k.csv", 7010)


def _read_1k(draft: Draft, train_list: str, train_count: int) -> Imported:
    names = {"test": "MSRVTT_JSFUSION_test.csv", "train": train_list}
    lists = draft.by_split(names, f"{train_list} and {names['test']}")
    videos, sentences = _msrvtt_data(draft)
    trained = set()
    for split, path in lists.items():
        for where, row in csv_rows(path, ("video_id", "sentence") if split == "test" else ("video_id",)):
            name = row["video_id"]
            draft.clip(name, {"path": f"{name}.mp4", **videos.get(name, {}), "split": split}, where)
            if split == "test":
                draft.caption(name, row["sentence"])
            else:
                trained.add(name)
    for name, text in sentences:
        if name in trained:
            draft.caption(name, text)
    if not sentences and trained:
        lacking = f"Neither {FORMS[0][0]} nor another form of it was given, and it has the captions to train on."
        draft.note(lacking, left_out=True, split="train")
    return draft.finish({"train": train_count, "test": 1000}, all_captioned=bool(sentences))


def _msrvtt_data(draft: Draft) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str]]]:
    """Columns of every video that a list `videos` describes; video and caption of every sentence, in file order."""
    forms = [found for form in FORMS if (found := [path for name in form if (path := draft.one(name))])]
    if len(forms) > 1:
        raise CorpusError(draft.ambiguous("form of the data", [path for form in forms for path in form]))
    videos: dict[str, dict[str, Any]] = {}
    sentences = []
    for path in (path for form in forms for path in form):
        file, value = path.name, read_json(path)
        for n, row in enumerate(optional(value, "videos", list, file) or [], start=1):
            where = f"{file}, videos entry {n},"
            start, end = (optional(row, name, float, where) for name in ("start time", "end time"))
            category = optional(row, "category", int, where)
            split = optional(row, "split", str, where)
            videos[json_field(row, "video_id", str, where)] = {
                "domain": CATEGORIES[category] if category is not None and 0 <= category < len(CATEGORIES) else None,
                "split": "val" if split == "validate" else split,
                "duration_s": end - start if start is not None and end is not None else None,
            }
        frozen = isinstance(value, dict) and "sentences" not in value and "annotations" in value
        rows, name = ("annotations", "image_id") if frozen else ("sentences", "video_id")
        for n, row in enumerate(json_field(value, rows, list, file), start=1):
            where = f"{file}, {rows} entry {n},"
            sentences.append((json_field(row, name, str, where), json_field(row, "caption", str, where)))
    return videos, sentences


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


def read_msvd(paths: Sequence[Path]) -> Imported:
    """Read MSVD as a corpus, from its captions and the lists of its splits."""
    draft = Draft("MSVD", paths)
    captions = draft.need("captions_msvd.json", "raw-captions.json")
    for split, path in draft.by_split(LISTS, LISTS["train"]).items():
        for where, line in listed(path):
            name = stem(line)
            draft.clip(name, {"path": f"{name}.avi", "split": split, "duration_s": cut_length_s(name)}, where)
    draft.captions_of(captions)
    return draft.finish({"train": 1200, "val": 100, "test": 670})


# LSMDC: tab-separated tables without a header, one row a sentence.
#
# Columns: clip, start and end as aligned, start and end as extracted, sentence (quotes are part of it). The files are
# `MOVIE/CLIP.avi`, cut already. (Rohrbach et al. 2017.)
#
# Codebases leave out different test clips, so their galleries differ; here every clip is kept and the column
# `left_out_by` says who leaves it out.

LSMDC_FILES = {
    "train": ("LSMDC16_annos_training.csv", "LSMDC16_annos_training_real.csv"),
    "val": ("LSMDC16_annos_val.csv",),
    "test": ("LSMDC16_challenge_1000_publictect.csv",),
}
LSMDC_OFFICIAL = {"val": 7408, "test": 1000}

LEFT_OUT_BY = {
    "1012_Unbreakable_00.05.16.065-00.05.21.941": "X-Pool, T-MASS",
    "0017_Pianist_00.23.28.872-00.23.34.843": "DiCoSA",
    "0017_Pianist_00.30.36.767-00.30.38.009": "DiCoSA",
    "3064_SPARKLE_2012_01.41.07.000-01.41.11.793": "DiCoSA",
}


def read_lsmdc(paths: Sequence[Path]) -> Imported:
    """Read LSMDC; a clip with several sentences has several captions."""
    draft = Draft("LSMDC", paths)
    tables = draft.by_split(LSMDC_FILES, " or ".join(names[0] for names in LSMDC_FILES.values()))
    for split, path in tables.items():
        for where, values in tab_rows(path, 6):
            name = stem(values[0])
            movie = name.rpartition("_")[0]
            if draft.clips.get(name, {}).get("split") != split:
                columns = {"path": f"{movie}/{name}.avi", "split": split, "duration_s": movie_length_s(name)}
                draft.clip(name, columns | {"movie": movie, "left_out_by": LEFT_OUT_BY.get(name)}, where)
            draft.caption(name, values[-1])
    if kept := [name for name in LEFT_OUT_BY if name in draft.clips]:
        by = sorted({who for name in kept for who in LEFT_OUT_BY[name].split(", ")})
        draft.note(
            f"{len(kept)} clips that {', '.join(by)} leave out are kept; the column left_out_by names them, to select "
            "the gallery of another codebase."
        )
    return draft.finish({split: official for split, official in LSMDC_OFFICIAL.items() if split in tables})


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
    draft = Draft("ActivityNet", paths)
    files, ids = draft.by_split(ACTIVITYNET_FILES, "train.json or val_1.json"), draft.by_split(IDS)
    renamed = sum(_read_paragraphs(draft, split, path, ids.get(split)) for split, path in files.items())
    if renamed:
        draft.note(f"{renamed:,} names were given the official 'v_' in front.")
    if draft.all("val_2.json", "val2.json"):
        draft.note(
            "val_2.json, a second set of paragraphs for the same videos, is not read: the field uses val_1.json."
        )
    return draft.finish({split: official for split, official in ACTIVITYNET_OFFICIAL.items() if split in files})


def _read_paragraphs(draft: Draft, split: str, path: Path, ids: Path | None) -> int:
    """Add the videos of a split; how many were named without `v_`."""
    written = typed(read_json(path), dict, str(path))
    entries: dict[str, tuple[str, Any]] = {}
    for name, value in written.items():
        first, _ = entries.setdefault(_official(name), (name, value))
        if first != name:
            raise CorpusError(
                f"{path.name} names the video {_official(name)} twice, as {first!r} and as {name!r}; take one out."
            )
    wanted = list(dict.fromkeys(map(_official, _names(ids)))) if ids else list(entries)
    of = (ids or path).name
    without = [name for name in wanted if name not in entries]
    draft.leave_out(f"videos of {of} have no annotation in {path.name}", without)
    for name in wanted:
        if name in entries:
            first, entry = entries[name]
            where = f"{path.name}, {first},"
            sentences = [one.strip() for one in texts(json_field(entry, "sentences", list, where), where)]
            length_s = optional(entry, "duration", float, where)
            draft.clip(name, {"path": f"{name}.mp4", "split": split, "duration_s": length_s}, where)
            times = [
                [
                    typed(one, float, f"{where} timestamps entry {n},")
                    for one in typed(part, list, f"{where} timestamps")
                ]
                for n, part in enumerate(optional(entry, "timestamps", list, where) or [], start=1)
            ]
            draft.caption(name, " ".join(sentences), {"sentences": sentences, "timestamps": times})
    draft.leave_out(f"videos of {path.name} are not in {of}", [name for name in entries if name not in set(wanted)])
    return sum(not name.startswith("v_") for name in written)


def _official(name: str) -> str:
    """A name with `v_` in front and no extension."""
    bare = stem(name)
    return bare if bare.startswith("v_") else f"v_{bare}"


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
    draft = Draft("DiDeMo", paths)
    names = {split: (f"{split}_data.json", f"*didemo_{split}*.csv", f"{split}_label.csv") for split in DIDEMO_OFFICIAL}
    lists = draft.by_split(LISTS)
    for split, path in draft.by_split(names).items():
        if path.suffix == ".csv":
            _read_table(draft, split, path)
        else:
            _read_descriptions(draft, split, path, lists.get(split))
    needs = "train_data.json or didemo_train_label.csv, or those of val or test,"
    return draft.finish(DIDEMO_OFFICIAL, needs=needs)


def _read_table(draft: Draft, split: str, path: Path) -> None:
    failed = []
    for where, row in csv_rows(path, ("video_path", "text")):
        name = stem(row["video_path"])
        if row.get("success", "True") != "True":
            failed.append(name)
            continue
        start, end = (_seconds(row.get(name), where, side) for side, name in enumerate(("starts", "ends")))
        draft.clip(name, _of_window(row["video_path"], split, start, end), where)
        draft.caption(name, row["text"])
    draft.leave_out(f"videos of {path.name} are left out because the file says they could not be read", failed)


def _seconds(written: str | None, where: str, side: int) -> float:
    """The number in `tensor([[31]])`, or the field's window where the column is missing."""
    if written is None:
        return WINDOW_S[side]
    return number(re.sub(r"^tensor\(\[+(.*?)\]+\)$", r"\1", written.strip()), where)


def _read_descriptions(draft: Draft, split: str, path: Path, names: Path | None) -> None:
    told: dict[str, list[str]] = {}
    written: dict[str, str] = {}
    for where, row in entries(path):
        video = json_field(row, "video", str, where)
        written.setdefault(stem(video), video)
        told.setdefault(stem(video), []).append(json_field(row, "description", str, where).strip())
    wanted = list(dict.fromkeys(map(stem, read_lines(names)))) if names else list(told)
    for name in wanted:
        if name in told:
            draft.clip(name, _of_window(written[name], split, *WINDOW_S), f"{path.name}, {name},")
            draft.caption(name, " ".join(told[name]))
    if names:
        draft.leave_out(f"videos of {names.name} have no description", [one for one in wanted if one not in told])
        draft.leave_out(f"videos of {path.name} are not in {names.name}", sorted(set(told) - set(wanted)))


def _of_window(video: str, split: str, start_s: float, end_s: float) -> dict[str, Any]:
    file = video.strip().replace("\\", "/").rpartition("/")[2]
    return {"path": file, "start_s": start_s, "end_s": end_s, "split": split}


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
    draft = Draft("VATEX", paths)
    official = draft.by_split(VATEX_FILES)
    references = None if official else draft.one("ref_captions.json")
    if references:
        needs = "train_list.txt, val_list.txt or test_list.txt beside ref_captions.json"
        for split, path in draft.by_split(LISTS, needs).items():
            for where, line in listed(path):
                _vatex_clip(draft, stem(line), split, where)
        draft.captions_of(references)
        return draft.finish()
    for split, path in official.items():
        chinese = 0
        for where, row in entries(path):
            name = stem(json_field(row, "videoID", str, where))
            _vatex_clip(draft, name, split, where)
            for text in texts(json_field(row, "enCap", list, where), f"{where} enCap"):
                draft.caption(name, text)
            chinese += len(optional(row, "chCap", list, where) or ())
        if chinese:
            draft.note(f"{chinese:,} Chinese captions of {path.name} are not read.")
    for path in [*official.values()][:1]:
        draft.not_needed(path.name, "ref_captions.json", *LISTS.values())
    needs = "vatex_training_v1.0.json (or that of another split) or ref_captions.json"
    return draft.finish(VATEX_OFFICIAL, needs=needs)


def _vatex_clip(draft: Draft, name: str, split: str, where: str) -> None:
    draft.clip(name, {"path": f"{name}.mp4", "split": split, "duration_s": cut_length_s(name)}, where)


# YouCook2: a clip is a segment of a cooking video, with one sentence.
#
# Official: `youcookii_annotations_trainval.json`, `database` {video: {`subset`, `recipe_type`, `annotations`:
# [{`id`, `segment`, `sentence`}]}}. Table: `validation_youcook.csv` with `end, start, task, text, video_id`. The files
# are `SUBSET/RECIPE/VIDEO.mp4` in both. (Zhou et al. 2018; the table is that of MIL-NCE, Miech et al. 2020.)

YOUCOOK2_SPLITS = {"training": "train", "validation": "val", "testing": "test"}


def read_youcook2(paths: Sequence[Path]) -> Imported:
    """Read YouCook2 from its official annotations or from `validation_youcook.csv`.

    A clip is called `VIDEO_N`: the Nth annotated segment of a video, from 0.
    """
    draft = Draft("YouCook2", paths)
    path = draft.need("youcook*_annotations_trainval*.json", "validation_youcook.csv", "training_youcook.csv")
    for segments in draft.all("youcook*_annotations_test*.json"):
        draft.note(f"{segments.name} has no sentences and is not read.", split="test")
    numbers: Counter[str] = Counter()

    def add(subset: str, recipe: str, video: str, start_s: float, end_s: float, where: str) -> str:
        name = f"{video}_{numbers[video]}"
        numbers[video] += 1
        file = "/".join(part for part in (subset, recipe, f"{video}.mp4") if part)
        times = {"path": file, "start_s": start_s, "end_s": end_s}
        draft.clip(name, times | {"split": YOUCOOK2_SPLITS[subset], "recipe": recipe or None}, where)
        return name

    if path.suffix == ".csv":
        subset = path.name.lower().partition("_")[0]
        for where, row in csv_rows(path, ("end", "start", "task", "text", "video_id")):
            times = number(row["start"], where), number(row["end"], where)
            draft.caption(add(subset, row["task"], row["video_id"], *times, where), row["text"])
        return draft.finish({"val": 3350} if subset == "validation" else {})
    for video, entry in json_field(read_json(path), "database", dict, str(path)).items():
        where = f"{path.name}, {video},"
        subset = json_field(entry, "subset", str, where)
        if subset not in YOUCOOK2_SPLITS:
            splits = ", ".join(YOUCOOK2_SPLITS)
            raise CorpusError(f"{where} field subset, is {subset!r}; it must be one of {splits}.")
        recipe = optional(entry, "recipe_type", str, where) or ""
        for n, segment in enumerate(optional(entry, "annotations", list, where) or []):
            place = f"{where} segment {n},"
            times = pair(json_field(segment, "segment", list, place), float, place)
            draft.caption(add(subset, recipe, video, *times, place), json_field(segment, "sentence", str, place))
    return draft.finish()


# TGIF: `tgif-v1.0.tsv` with an address and a sentence a row, and `train.txt`, `val.txt`, `test.txt` of addresses.
#
# A clip's name is that of the file in its address. Clips of the test split have three sentences, others one.
# (Li et al. 2016.)

TGIF_OFFICIAL = {"val": 10708, "test": 11360}
SENTENCES = "tgif-v1.0.tsv"


def read_tgif(paths: Sequence[Path]) -> Imported:
    """Read TGIF; where no lists of splits are given, every GIF with a sentence is a clip."""
    draft = Draft("TGIF", paths)
    sentences = draft.one(SENTENCES, "tgif*.tsv")
    needs = None if sentences else f"{SENTENCES}, train.txt, val.txt or test.txt"
    lists = draft.by_split({split: f"{split}.txt" for split in ("train", "val", "test")}, needs)
    for split, path in lists.items():
        for where, address in listed(path):
            _tgif_clip(draft, address, split, where)
    elsewhere = 0
    for where, (address, text) in tab_rows(sentences, 2) if sentences else ():
        name = _tgif_name(address)
        if not lists and name not in draft.clips:
            _tgif_clip(draft, address, None, where)
        if name in draft.clips:
            draft.caption(name, text)
        else:
            elsewhere += 1
    if sentences is None:
        draft.note(f"{SENTENCES} was not given, and it has the captions.", left_out=True)
    elif elsewhere:
        draft.note(f"{elsewhere:,} captions of {sentences.name} belong to splits that were not given.")
    official = {split: official for split, official in TGIF_OFFICIAL.items() if split in lists}
    return draft.finish(official, all_captioned=sentences is not None)


def _tgif_clip(draft: Draft, address: str, split: str | None, where: str) -> None:
    name = _tgif_name(address)
    draft.clip(name, {"path": f"{name}.gif", "split": split, "url": address}, where)


def _tgif_name(address: str) -> str:
    return stem(urlsplit(address).path)


# Reversed in Time: videos and the same played backwards, each with captions that are wrong for the other.
#
# `test.json`, `train.json`, `val.json`: {video: {`forward_captions`, `reverse_captions`, `forward_rewrites`,
# `reverse_rewrites`, `temporal`, `reverse`}}. (Du et al. 2024.)


def read_rtime(paths: Sequence[Path]) -> Imported:
    """Read RTime (Reversed in Time), videos and the same videos played backwards.

    The ids of clips played backwards end in `_reverse`, their column `backwards` is true, and `order_of` names the clip
    that they are played backwards of, for the audit `order`.
    """
    draft = Draft("RTime", paths)
    for split, path in draft.by_split({split: f"{split}.json" for split in ("train", "val", "test")}).items():
        for name, value in typed(read_json(path), dict, str(path)).items():
            where = f"{path.name}, {name},"
            entry = typed(value, dict, where)
            for way, ending in (("forward", ""), ("reverse", "_reverse")):
                captions = optional(entry, f"{way}_captions", list, where)
                if captions is None:
                    continue
                clip = f"{name}{ending}"
                shot = name if ending and entry.get("forward_captions") is not None else None
                columns = {"path": f"{clip}.mp4", "split": split, "backwards": bool(ending), "same_scene": name}
                draft.clip(clip, columns | {ORDER_OF: shot}, where)
                for text in texts(captions, where):
                    draft.caption(clip, text)
    draft.note("Rewritten captions are not read: they say what the first ones say, in other words.")
    return draft.finish(needs="train.json, val.json or test.json")


# MultiVENT 2.0: queries about events, each with the videos that were judged relevant, of a collection.
#
# `multivent_2_q.csv`: `Query_id, query`; `multivent_2_j.jsonl`: `query_id, doc_id, relevance` a line;
# `multivent_2_ids.csv`: `id`, all videos that are searched. (Kriz et al. 2025.)

QUERIES, JUDGEMENTS, MULTIVENT_IDS = "multivent_2_q.csv", "multivent_2_j.jsonl", "multivent_2_ids.csv"


def read_multivent(paths: Sequence[Path]) -> Imported:
    """Read MultiVENT 2.0; a query becomes a caption of its first relevant video.

    The column `other_clips` of the captions lists the other relevant videos.
    """
    draft = Draft("MultiVENT 2.0", paths)
    queries = {row["Query_id"]: row["query"] for _, row in csv_rows(draft.need(QUERIES), ("Query_id", "query"))}
    relevant: dict[str, list[str]] = {}
    below = 0
    for where, entry in json_lines(draft.need(JUDGEMENTS)):
        query, name = json_field(entry, "query_id", str, where), json_field(entry, "doc_id", str, where)
        if query not in queries:
            raise CorpusError(f"{where} judges the query {query!r}, which {QUERIES} does not have.")
        grade = json_field(entry, "relevance", int, where)
        below += grade < 0
        if grade > 0:
            relevant.setdefault(query, []).append(name)
    ids = draft.one(MULTIVENT_IDS)
    searched = [row["id"] for _, row in csv_rows(ids, ("id",))] if ids else []
    for name in dict.fromkeys((*searched, *(name for names in relevant.values() for name in names))):
        draft.clip(name, {"split": "test"}, f"{name},")
    for query, names in relevant.items():
        draft.caption(names[0], queries[query], {"caption_id": query, OTHER_CLIPS: names[1:]})
    if below:
        draft.note(f"{count(below, 'judgement')} of a grade below 0, as of spam, counted as not relevant.")
    draft.leave_out("queries have no relevant video", [query for query in queries if query not in relevant])
    if ids is None:
        draft.note(f"{MULTIVENT_IDS} was not given: the corpus has the judged videos alone.", left_out=True)
    return draft.finish(all_captioned=False)


# TextVR: videos whose captions mention words on screen, with the words that an OCR service read.
#
# `TextVR_train.json`, `TextVR_test.json`: [{`path`, `captions_info`: [{`caption`, `caption_info`: {`duration`}}],
# `videos_info`: {`source`, `split`, `Kwai_OCR`}}]. `Kwai_OCR` names a file in the folder `Kwai_VideoOCR`: {sign:
# {`text`, `score`, `tracks`: {frame: 8 corners and 2 more}}}. The domain is the first folder of `path`. The captions of
# `TextVR_test_rand.json` are shuffled, so it is not read. (Wu et al. 2025.)

TEXTVR_FILES = {"train": "TextVR_train.json", "test": "TextVR_test.json"}
CORNERS = 8


def read_textvr(paths: Sequence[Path]) -> Imported:
    """Read TextVR, and the words on screen where their files are given."""
    draft = Draft("TextVR", paths)
    read_by: dict[str, str] = {}
    for path in draft.by_split(TEXTVR_FILES, " or ".join(TEXTVR_FILES.values())).values():
        for where, row in entries(path):
            file, info = json_field(row, "path", str, where), json_field(row, "videos_info", dict, where)
            captions = json_field(row, "captions_info", list, where)
            name = file.rpartition(".")[0] or file
            about = [optional(caption, "caption_info", dict, where) for caption in captions]
            lengths = [optional(one, "duration", float, where) if one else None for one in about]
            columns = {
                "path": file,
                "split": json_field(info, "split", str, where),
                "domain": file.partition("/")[0] if "/" in file else None,
                "duration_s": next((length for length in lengths if length), None),  # 0 in the files means unknown
            }
            draft.clip(name, columns, where)
            for caption in captions:
                draft.caption(name, json_field(caption, "caption", str, where))
            if words := optional(info, "Kwai_OCR", str, where):
                read_by[name] = words
    there = {"/".join(path.parts[-2:]): path for path in draft.all("*.json") if path.name not in TEXTVR_FILES.values()}
    found = {name: there[file] for name, file in read_by.items() if file in there}
    signs = _words_on_screen(draft, "Kwai_VideoOCR", read_by, found, _signs)
    return draft.finish({"test": 2727}, texts=signs)


def _words_on_screen(
    draft: Draft, folder: str, expected: Iterable[str], found: Mapping[str, Path], read: Any
) -> pl.DataFrame | None:
    """Words of all clips; None, with a notice, where no file of words is given."""
    if not found:
        draft.note(f"No file of {folder} was given: the corpus has no words on screen.")
        return None
    draft.leave_out("clips have no file of words on screen", [name for name in expected if name not in found])
    return make_texts([row for name, path in found.items() for row in read(name, path)])


def _signs(name: str, path: Path) -> Iterator[dict[str, Any]]:
    """Every sign of a clip, once, with the frames it was followed over."""
    value = read_json(path)
    for key, sign in typed(value, dict, str(path)).items() if value else ():
        where = f"{path.name}, sign {key},"
        tracks: dict[int, list[float]] = {}
        for frame, points in json_field(sign, "tracks", dict, where).items():
            place = f"{where} tracks"
            corners = [typed(one, float, place) for one in typed(points, list, place)[:CORNERS]]
            if len(corners) < CORNERS:
                raise CorpusError(f"{where} has {len(corners)} numbers for a box; its four corners are {CORNERS}.")
            tracks[whole(frame, place)] = corners
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
    draft = Draft("M4-ViteVQA", paths)
    files = {path: found for path in draft.all("*vqa_*.json") if (found := _TASK.fullmatch(path.name))}
    if not files:
        raise CorpusError(draft.lacks("ViteVQA_0.0.2_t1s1train.json (or another task and split)"))
    if len(tasks := {found[1].lower() for found in files.values()}) > 1:
        raise CorpusError(
            f"The files given are of {', '.join(sorted(tasks))}, whose splits share videos; give those of one."
        )
    for path, found in sorted(files.items(), key=lambda file: VITEVQA_SPLITS.index(file[1][2].lower())):
        split = found[2].lower()
        for n, row in enumerate(json_field(read_json(path), "data", list, str(path)), start=1):
            where = f"{path.name}, entry {n},"
            video = json_field(row, "video_id", str, where)
            if draft.clips.get(video, {}).get("split") != split:
                sizes = {name: optional(row, f"video_{name}", int, where) for name in ("width", "height")}
                draft.clip(video, {"path": f"{video}.mp4", "split": split} | sizes, where)
            question = json_field(row, "question", str, where)
            answers = texts(optional(row, "answers", list, where) or [], where)
            number = str(json_field(row, "question_id", int, where))
            columns = {"caption_id": number, "question": question, "answers": answers}
            draft.caption(video, " ".join([question, *answers[:1]]), columns)
    draft.note("A caption is a question followed by its first answer; the columns question and answers have both.")
    of_clip: dict[str, Path] = {}
    for path in draft.all("*.json", folder="video_ocr"):
        if path.stem in of_clip:
            raise CorpusError(draft.ambiguous(f"video_ocr/{path.name}", [of_clip[path.stem], path]))
        if path.stem in draft.clips:
            of_clip[path.stem] = path
    return draft.finish(texts=_words_on_screen(draft, "video_ocr", draft.clips, of_clip, _words))


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

GRAPHS = "sent2rolegraph.augment.json"


def read_role_graphs(paths: Sequence[Path]) -> Imported:
    """Read the captions and role graphs that HGR annotated; lists of names may also be `.txt` or `.json`."""
    draft = Draft("HGR", paths)
    captions, path = draft.need("ref_captions.json"), draft.one(GRAPHS, "sent2rolegraph*.json")
    if path is None:
        draft.note(f"{GRAPHS} was not given: captions have no role graphs.", left_out=True)
    graphs = typed(read_json(path), dict, str(path)) if path else {}
    names = {
        split: [f"{short}_names.{suffix}" for suffix in ("npy", "txt", "json")]
        for split, short in (("train", "trn"), ("val", "val"), ("test", "tst"))
    }
    for split, names_file in draft.by_split(names).items():
        for n, name in enumerate(_names(names_file), start=1):
            draft.clip(name, {"path": name, "split": split}, f"{names_file}, entry {n},")
    without = []
    for name, sentences in typed(read_json(captions), dict, str(captions)).items():
        for text in texts(sentences, f"{captions.name}, {name},"):
            draft.caption(name, text, _of_graph(graphs[text], text) if text in graphs else {})
            if graphs and text not in graphs:
                without.append(text)
    draft.leave_out("captions have no role graph", without)
    return draft.finish(needs="trn_names.npy, val_names.npy or tst_names.npy")


def _of_graph(graph: object, sentence: str) -> dict[str, Any]:
    where = f"The role graph of {sentence[:40]!r}"
    parts = typed(graph, list, where)
    if len(parts) != 2:
        raise CorpusError(f"{where} has {len(parts)} parts; it must have nodes and edges.")
    phrases: dict[bool, list[str]] = {True: [], False: []}
    for key, node in typed(parts[0], dict, f"{where}, nodes,").items():
        role = json_field(node, "role", str, f"{where}, node {key},")
        if role != "ROOT":
            phrases[role == "V"].append(" ".join(texts(json_field(node, "words", list, where), where)))
    return {"verbs": phrases[True], "nouns": phrases[False], "role_graph": json.dumps(graph, separators=(",", ":"))}
