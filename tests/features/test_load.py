"""What is loaded beside features: role graphs of captions, and frames of clips."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from evenreel.config import MediaLimits
from evenreel.corpus import make_corpus
from evenreel.errors import CorpusError, FeaturesError, MediaError
from evenreel.features import load
from evenreel.features.load import ClipPictures, graphs_of, with_graphs
from evenreel.language import Tagged
from evenreel.language.role_graphs import role_graph
from evenreel.language.taggers import PatternTagger
from evenreel.media import open_video, parse_rule
from evenreel.media.sampling import Part
from evenreel.planted import write_clip
from evenreel.types import Corpus, RoleGraph, RoleNode, TextFeatures

TEXTS = ("cut tomato", "a man runs", "cut tomato", "A dog barks!", "...")
GIVEN = [
    {"ROOT": {"role": "ROOT", "words": ["a", "man", "runs"]}, "1": {"role": "V", "spans": [2], "words": ["runs"]}},
    [],
]


class CountingTagger(PatternTagger):
    """Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        self.asked += captions
        return super().tag(captions)


@pytest.fixture
def tagger(monkeypatch: pytest.MonkeyPatch) -> CountingTagger:
    made = CountingTagger()
    monkeypatch.setattr(load, "load_tagger", lambda name: made)
    return made


def corpus(**columns: Any) -> Corpus:
    ids = [f"c{row}" for row in range(len(TEXTS))]
    captions = pl.DataFrame({"caption_id": ids, "clip_id": ["a"] * len(TEXTS), "text": TEXTS, **columns})
    return make_corpus(pl.DataFrame({"clip_id": ["a"]}), captions)


def features(*ids: str) -> TextFeatures:
    """As beside features that others computed: no text tower has read them."""
    count = len(ids)
    return TextFeatures(ids, np.zeros((count, 1, 0)), np.ones((count, 1), np.bool_), np.zeros((count, 0)))


def by_rules(text: str) -> RoleGraph:
    [tokens] = PatternTagger().tag([text])
    return role_graph(tokens)


def test_each_caption_has_the_graph_of_its_text(tagger: CountingTagger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order of the rows; each text is read once."""
    monkeypatch.setattr(load, "_BATCH", 2)
    shares: list[float] = []
    given = features("c3", "c0", "c4", "c2")
    made = with_graphs(given, corpus(), shares.append)
    assert made.graphs == tuple(by_rules(TEXTS[row]) for row in (3, 0, 4, 2))
    assert (made.ids, made.words is given.words) == (given.ids, True)
    assert tagger.asked == ["A dog barks!", "cut tomato", "..."]
    assert shares == [pytest.approx(2 / 3), 1.0]


def test_the_graphs_of_the_corpus_come_first(tagger: CountingTagger) -> None:
    own = [None, json.dumps(GIVEN), None, None, json.dumps(GIVEN)]
    made = with_graphs(features("c0", "c1", "c4"), corpus(role_graph=own)).graphs
    verb = RoleGraph(("a", "man", "runs"), (RoleNode("V", (2,)),))
    assert made == (by_rules("cut tomato"), verb, verb)
    assert tagger.asked == ["cut tomato"]


def test_a_malformed_graph_is_told_with_its_caption() -> None:
    broken = corpus(role_graph=[None, "[]", None, None, None])
    with pytest.raises(CorpusError, match=r"Caption c1: The role graph '\[\]' is not in the form of HGR"):
        with_graphs(features("c1"), broken)
    with_graphs(features("c0"), broken)


def test_a_column_of_the_same_name_that_is_no_text() -> None:
    with pytest.raises(CorpusError, match="The column role_graph of the captions is Int64; it holds JSON as text"):
        with_graphs(features("c0"), corpus(role_graph=[1, 2, 3, 4, 5]))
    assert with_graphs(features("c0"), corpus(role_graph=[None] * 5)).graphs == (by_rules("cut tomato"),)


def test_features_of_another_corpus_are_refused() -> None:
    with pytest.raises(FeaturesError, match="The corpus has no caption other, of which there are features"):
        with_graphs(features("c0", "other"), corpus())


def test_no_captions() -> None:
    assert graphs_of([]) == []
    assert with_graphs(features(), corpus()).graphs == ()


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
