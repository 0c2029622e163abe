"""Pictures of clips are the frames that features are of, found by their times."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from evenreel.config import MediaLimits
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, MediaError
from evenreel.features.load import ClipPictures
from evenreel.media import open_video, parse_rule
from evenreel.media.sampling import Part
from evenreel.planted import write_clip

PARTS = {"whole": Part(), "part": Part(0.9, 2.6)}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> ClipPictures:
    folder = tmp_path_factory.mktemp("pictures")
    shades = [np.full((16, 24, 3), 12 * number, np.uint8) for number in range(20)]
    write_clip(folder / "clip.mp4", shades, fps=6)
    (folder / "broken.mp4").write_bytes(b"this is no video")
    clips = pl.DataFrame(
        {
            "clip_id": [*PARTS, "nowhere", "broken"],
            "path": ["clip.mp4", "clip.mp4", None, "broken.mp4"],
            "start_s": [*(part.start_s for part in PARTS.values()), None, None],
            "end_s": [*(part.end_s for part in PARTS.values()), None, None],
            "split": "test",
        }
    )
    captions = pl.DataFrame({"caption_id": ["c"], "clip_id": ["whole"], "text": ["grey"]})
    return ClipPictures(make_corpus(clips, captions), folder, MediaLimits())


@pytest.mark.parametrize("rule", ["4 midpoints", "every 0.7 s", "clip4clip 3"])
@pytest.mark.parametrize("name", PARTS)
def test_frames_are_found_by_the_times_that_features_have(pictures: ClipPictures, name: str, rule: str) -> None:
    part = PARTS[name]
    with open_video(pictures.videos / "clip.mp4") as video:
        sampled = list(video.frames(part.rule(parse_rule(rule))))
    times_s = [max(0.0, frame.time_s - (part.start_s or 0.0)) for frame in sampled]
    found = pictures.frames(name, times_s)
    assert len(found) == len(sampled) > 1
    for one, frame in zip(found, sampled, strict=True):
        assert np.array_equal(one, frame.pixels)


def test_what_cannot_be_shown_is_said(pictures: ClipPictures) -> None:
    with pytest.raises(CorpusError, match="'nobody' cannot be shown: the corpus has no such clip"):
        pictures.frames("nobody", [0.0])
    with pytest.raises(CorpusError, match="'nowhere' cannot be shown: the corpus names no video"):
        pictures.frames("nowhere", [0.0])
    with pytest.raises(MediaError, match=r"'broken' \(broken.mp4\) cannot be shown: "):
        pictures.frames("broken", [0.0])
    with pytest.raises(MediaError, match="other frames than its features are of"):
        pictures.frames("whole", [0.5, 60.0])
