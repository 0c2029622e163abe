"""M4-ViteVQA: questions and answers about videos with words on screen, as captions.

`ViteVQA_0.0.2_TASK.json`, `data` [{`question_id`, `question`, `answers`, `video_id`, `video_width`, `video_height`}]
where TASK is `t1s1train`, `t1s1val` and so on: two splits of one task, and a second task. Words on screen:
`video_ocr/VIDEO.json` {frame: [{`points`, `ocr`}]}. (Zhao et al. 2022.)

The set was made for answering questions, and those who retrieve with it do not say what their captions are. Here a
caption is the question followed by its first answer; the columns `question` and `answers` allow another choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, field, optional, read_json, texts, typed, whole
from evenreel.corpus.imported import Draft, Imported
from evenreel.corpus.on_screen import bounds, make_texts
from evenreel.errors import CorpusError

SPLITS = ("train", "val", "test", "extra")

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
    for split in SPLITS:
        for path, found in files.items():
            if found[2].lower() == split:
                _read_questions(draft, split, path)
    draft.note("A caption is a question followed by its first answer; the columns question and answers have both.")
    words = _read_words(given, draft)
    draft.notices += given.unread()
    return draft.finish(words)


def _read_questions(draft: Draft, split: str, path: Path) -> None:
    for n, row in enumerate(field(read_json(path), "data", list, str(path)), start=1):
        where = f"{path.name}, entry {n},"
        video = field(row, "video_id", str, where)
        if draft.clips.get(video, {}).get("split") != split:
            sizes = {name: optional(row, f"video_{name}", int, where) for name in ("width", "height")}
            draft.clip(video, {"path": f"{video}.mp4", "split": split} | sizes, where)
        question = field(row, "question", str, where)
        answers = texts(optional(row, "answers", list, where) or [], where)
        columns = {"caption_id": str(field(row, "question_id", int, where)), "question": question, "answers": answers}
        draft.caption(video, " ".join([question, *answers[:1]]), columns)


def _read_words(given: ReleaseFiles, draft: Draft) -> Any:
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
            text = field(word, "ocr", str, where).strip()
            points = [typed(one, float, where) for one in field(word, "points", list, where)]
            if len(points) < 4 or len(points) % 2:
                raise CorpusError(f"{where} has {len(points)} numbers for a box; corners are pairs.")
            if text:
                row = {"clip_id": name, "text": text, "box": bounds(points)}
                yield row | {"start_frame": number, "end_frame": number}
