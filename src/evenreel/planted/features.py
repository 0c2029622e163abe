"""Features of a planned corpus without files: frames are drawn, encoded, dropped again; signs are read with errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.features.windows import TEMPLATE
from evenreel.features.word_changes import WordChanges, changed_track
from evenreel.media.sampling import TimeRule, parse_rule
from evenreel.planted.draw import Renderer
from evenreel.planted.plan import PlantedClip
from evenreel.planted.scenes import Scene, SignBoard
from evenreel.progress import Progress
from evenreel.types import Encoder, OnScreen, Pixels, TextFeatures, TextTrack, VideoFeatures

STRETCHES = 12
"""Equal parts of a clip's time in which a sign is read anew: the windows of the paper of TCD."""


def stretch_of(scene: Scene, time_s: float) -> int:
    """Return which stretch of a clip (one of `STRETCHES` equal parts, from 0) a time in seconds is in."""
    return min(int(STRETCHES * time_s / scene.duration_s), STRETCHES - 1)


def reading(clip: PlantedClip, sign: SignBoard, stretch: int) -> str:
    """Return the text that is read on a sign in one stretch of a clip, with errors; it may be empty.

    A share `SignBoard.misread` of the characters is read as another one, as none or as two, independently for each
    stretch, sign and clip.
    """
    if not sign.misread:
        return sign.text
    whole = TextTrack(sign.text, 1.0, 0.0, clip.scene.duration_s, (0.0, 0.0, 0.0, 0.0))
    changes = WordChanges(char_errors=sign.misread, seed=clip.scene.seed)
    read = changed_track(whole, clip.clip_id, stretch, changes)
    return read.text if read else ""


def words_read(clip: PlantedClip, time_s: float) -> tuple[str, ...]:
    """Return the texts that are read, with errors, on the signs that are shown at a time in seconds."""
    stretch = stretch_of(clip.scene, time_s)
    return tuple(text for sign in clip.scene.signs if sign.is_up(time_s) if (text := reading(clip, sign, stretch)))


Item = TypeVar("Item")

BATCH_FRAMES = 128

BATCH_CAPTIONS = 256


def video_features(
    clips: Sequence[PlantedClip], encoder: Encoder, rule: str = "12 midpoints", progress: Progress | None = None
) -> VideoFeatures:
    """Render and encode the frames of planned clips, uncompressed, and the words that are read on their signs.

    Args:
        clips: clips of one picture size.
        encoder: encoder of frames and texts.
        rule: sampling rule, see `evenreel.media.parse_rule`; `every 0.25 s` gives a longer clip more frames.
        progress: called repeatedly with the share that is done, 0 to 1.

    Returns:
        Features in float16; where a clip has a sign, with an on-screen window for each frame.

    Raises:
        UsageError: there is no clip, or the rule is none.
    """
    _check_some(clips)
    times = [frame_times(clip.scene, rule) for clip in clips]
    lengths = np.array([len(each) for each in times])
    mask = np.arange(lengths.max()) < lengths[:, None]
    frames = np.zeros((*mask.shape, encoder.dimension), dtype=np.float16)
    rows = np.argwhere(mask)
    done = 0
    for batch in _runs(_pictures(clips, times), BATCH_FRAMES):
        encoded = encoder.encode_windows(np.stack(batch).transpose(0, 3, 1, 2)[:, None])
        at = rows[done : done + len(encoded)]
        frames[at[:, 0], at[:, 1]] = encoded
        done += len(encoded)
        if progress:
            progress(done / len(rows))
    padded = np.zeros(mask.shape)
    padded[mask] = np.concatenate(times)
    ids = tuple(clip.clip_id for clip in clips)
    return VideoFeatures(ids, frames, mask, padded, on_screen_features(clips, padded, mask, encoder))


def text_features(clips: Sequence[PlantedClip], encoder: Encoder) -> TextFeatures:
    """Encode all captions of planned clips, in the clips' order; each distinct text is encoded once.

    Raises:
        UsageError: there is no clip.
    """
    _check_some(clips)
    ids = tuple(name for clip in clips for name in clip.caption_ids)
    texts = [caption.text for clip in clips for caption in clip.shot.captions]
    distinct = list(dict.fromkeys(texts))
    parts = [encoder.encode_text(list(some)) for some in _runs(distinct, BATCH_CAPTIONS)]
    longest = max(part.words.shape[1] for part in parts)
    place = {text: row for row, text in enumerate(distinct)}
    at = np.array([place[text] for text in texts])
    return TextFeatures(
        ids=ids,
        words=np.concatenate([_pad(part.words, longest) for part in parts])[at].astype(np.float16),
        word_mask=np.concatenate([_pad(part.word_mask, longest) for part in parts])[at],
        sentence=np.concatenate([part.sentence for part in parts])[at],
    )


def frame_times(scene: Scene, rule: str) -> NDArray[np.float64]:
    """Return the times in seconds of the frames that a sampling rule takes of a clip, as if it were read from a file.

    Where a moment falls on the edge of two frames, reading a file may give the other one.
    """
    chosen, end_s = parse_rule(rule), scene.frame_count / scene.fps
    if isinstance(chosen, TimeRule):
        moments = takewhile(lambda moment: moment < end_s, chosen.times(0.0, end_s))
        taken = [int(moment * scene.fps + 1e-6) for moment in moments]
    else:
        taken = chosen.indices(scene.frame_count, float(scene.fps))
    return np.array(list(dict.fromkeys(taken))) / scene.fps


def _pictures(clips: Sequence[PlantedClip], times: Sequence[NDArray[np.float64]]) -> Iterator[Pixels]:
    for clip, own in zip(clips, times, strict=True):
        renderer = Renderer(clip.scene)
        yield from (renderer.frame(float(time_s)) for time_s in own)


def on_screen_features(
    clips: Sequence[PlantedClip], times: NDArray[np.float64], mask: NDArray[np.bool_], encoder: Encoder
) -> OnScreen[NDArray[Any]] | None:
    """Encode the words read on the signs of V clips, a window for each frame; None where no clip has a sign.

    `times` (V, T) are those of the frames in their clips, in seconds; `mask` (V, T) is True for real frames.
    """
    if not any(clip.scene.signs for clip in clips):
        return None
    said = {
        (v, t): TEMPLATE.format(words=" ".join(words))
        for v, t in np.argwhere(mask)
        if (words := words_read(clips[v], times[v, t]))
    }
    vectors = {
        text: vector
        for some in _runs(dict.fromkeys(said.values()), BATCH_CAPTIONS)
        for text, vector in zip(some, encoder.encode_text(some).sentence, strict=True)
    }
    windows = np.zeros((*mask.shape, encoder.dimension), dtype=np.float16)
    shown = np.zeros(mask.shape, dtype=bool)
    for (v, t), text in said.items():
        windows[v, t], shown[v, t] = vectors[text], True
    return OnScreen(windows, shown, shown.astype(np.float32))


def _check_some(clips: Sequence[PlantedClip]) -> None:
    if not clips:
        raise UsageError("There are no clips to compute features of; give at least one.")


def _pad(values: NDArray[Any], length: int) -> NDArray[Any]:
    """The second dimension filled up with zeros."""
    room = [(0, 0), (0, length - values.shape[1]), *[(0, 0)] * (values.ndim - 2)]
    return np.pad(values, room)


def _runs(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    rest = iter(items)
    while run := list(islice(rest, size)):
        yield run
