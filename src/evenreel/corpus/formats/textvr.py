"""TextVR: videos whose captions mention words on screen, with the words that an OCR service read.

`TextVR_train.json`, `TextVR_test.json`: [{`path`, `captions_info`: [{`caption`, `caption_info`: {`duration`}}],
`videos_info`: {`source`, `split`, `Kwai_OCR`}}]. `Kwai_OCR` names a file in the folder `Kwai_VideoOCR`: {sign:
{`text`, `score`, `tracks`: {frame: 8 corners and 2 more}}}. The domain is the first folder of `path`. The captions of
`TextVR_test_rand.json` are shuffled, so it is not read. (Wu et al. 2025.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evenreel.corpus.given_files import ReleaseFiles, field, number, optional, read_json, typed, whole
from evenreel.corpus.imported import Draft, Imported
from evenreel.corpus.on_screen import bounds, make_texts
from evenreel.errors import CorpusError

FILES = {"train": "TextVR_train.json", "test": "TextVR_test.json"}
OFFICIAL = {"test": 2727}
CORNERS = 8


def read_textvr(paths: Sequence[Path]) -> Imported:
    """Read TextVR, and the words on screen where their files are given."""
    given = ReleaseFiles("TextVR", paths)
    draft = Draft("TextVR")
    files = [path for name in FILES.values() if (path := given.one(name))]
    if not files:
        raise CorpusError(given.lacks(" or ".join(FILES.values())))
    read_by: dict[str, str] = {}
    for path in files:
        for n, row in enumerate(typed(read_json(path), list, str(path)), start=1):
            read_by |= _read_row(draft, row, f"{path.name}, entry {n},")
    texts = _read_words(given, draft, read_by)
    draft.expect(OFFICIAL)
    draft.notices += given.unread()
    return draft.finish(texts)


def _read_row(draft: Draft, row: object, where: str) -> dict[str, str]:
    """Add a video and its captions; the video with the file of its words."""
    path = field(row, "path", str, where)
    info = field(row, "videos_info", dict, where)
    captions = field(row, "captions_info", list, where)
    name = path.rpartition(".")[0] or path
    columns: dict[str, Any] = {"path": path, "split": field(info, "split", str, where)}
    columns["domain"] = path.partition("/")[0] if "/" in path else None
    lengths = [_length_s(caption, where) for caption in captions]
    columns["duration_s"] = next((length for length in lengths if length), None)
    draft.clip(name, columns, where)
    for caption in captions:
        draft.caption(name, field(caption, "caption", str, where))
    words = optional(info, "Kwai_OCR", str, where)
    return {name: words} if words else {}


def _length_s(caption: object, where: str) -> float | None:
    """Seconds of a caption's video; 0 in the files means unknown."""
    info = optional(caption, "caption_info", dict, where)
    return optional(info, "duration", float, where) if info else None


def _read_words(given: ReleaseFiles, draft: Draft, read_by: dict[str, str]) -> Any:
    """Words of all clips; None, with a notice, where no file of words is given."""
    files = {"/".join(path.parts[-2:]): path for path in given.all("*.json") if path.name not in FILES.values()}
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
            for frame, points in field(sign, "tracks", dict, where).items()
        }
        text = field(sign, "text", str, where).strip()
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
