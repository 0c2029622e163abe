"""Actions of clips and their lengths, by hand, and on the annotations that the frame-length paper measures."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import Imported, make_corpus
from evenreel.corpus.actions import NO_NOUN, action_names, actions_of, clip_lengths
from evenreel.errors import CorpusError
from evenreel.types import Corpus

CLIPS = {
    "clip_id": ["a", "b", "c", "d"],
    "frame_count": [100, 40, 90, 7],
    "verb_classes": [[1], [1, 2], [1], None],
    "noun_classes": [[5, 6], [5], [], [5]],
}
CAPTIONS = {
    "caption_id": ["0", "1", "2"],
    "clip_id": ["a", "a", "b"],
    "text": ["cut bread", "cut the bread", "cut the bread"],
}


def corpus(**columns: object) -> Corpus:
    return make_corpus(pl.DataFrame(CLIPS | columns), pl.DataFrame(CAPTIONS))


def test_a_clip_of_one_verb_is_one_action_and_several_share_its_length() -> None:
    found = actions_of(corpus())
    said = [
        (row, found.pairs[number], length)
        for row, number, length in zip(found.clips, found.classes, found.lengths, strict=True)
    ]
    assert said == [(0, (1, 5), 100.0), (1, (1, 5), 20.0), (1, (2, 5), 20.0), (2, (1, NO_NOUN), 90.0)]
    assert [part.tolist() for part in found.of(np.array([False, True, True, True]))] == [[0, 1, 2], [20.0, 20.0, 90.0]]


def test_a_class_is_called_what_most_of_its_captions_say() -> None:
    made = corpus()
    assert list(action_names(made, actions_of(made)).values()) == ["cut the bread", "cut the bread", "verb 1, noun -1"]


def test_frames_are_brought_back_to_the_rate_of_the_annotation() -> None:
    lengths, unit = clip_lengths(corpus(fps=[30.0, 30.0, 60.0, None], annotated_fps=[60.0, 50.0, 60.0, 60.0]))
    assert (lengths.tolist(), unit) == ([200.0, pytest.approx(200 / 3), 90.0, 7.0], "frames")


def test_seconds_stand_in_where_a_clip_has_no_frame_count() -> None:
    times = {"start_s": [0.0, 1.0, None, None], "end_s": [2.0, 4.0, None, None], "duration_s": [9.0, 9.0, 5.0, None]}
    lengths, unit = clip_lengths(corpus(frame_count=[100, 40, 90, None], **times))
    np.testing.assert_array_equal(lengths, [2.0, 3.0, 5.0, np.nan])
    assert unit == "seconds"


def test_a_corpus_without_verbs_has_no_actions() -> None:
    with pytest.raises(CorpusError, match="No clip has a verb class"):
        actions_of(corpus(verb_classes=[None] * 4))


def test_retimed_training_clips_have_the_lengths_that_the_paper_gives(epic_kitchens: Imported) -> None:
    """Take + rubbish: 95 training clips of 177.11 frames in the paper, 4 test clips of 305.5."""
    made = epic_kitchens.corpus
    lengths, unit = clip_lengths(made)
    assert unit == "frames"
    class_ = (pl.col("verb_classes").list.first() == 0) & (pl.col("noun_classes").list.first() == 54)
    for split, clips, mean in (("train", 95, pytest.approx(177.11, abs=0.05)), ("test", 4, 305.5)):
        own = lengths[made.clips.select(class_ & (pl.col("split") == split)).to_series().to_numpy()]
        assert (len(own), own.mean()) == (clips, mean)
