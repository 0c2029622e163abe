"""What every audit does with scores that leave something out, name a clip twice, or hide values behind a mask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from evenreel.audits import AUDITS, OF_EDITS, AuditInputs, AuditSettings, audit
from evenreel.corpus import make_corpus
from evenreel.corpus.distractors import OVERLAY_OF
from evenreel.errors import ScoresError
from evenreel.types import Corpus, Scores

PAIRS = 40
REAL, MADE = [f"r{one}" for one in range(PAIRS)], [f"s{one}" for one in range(PAIRS)]
CAPTIONS = [f"c{one}" for one in range(PAIRS)]


def corpus() -> Corpus:
    """All that any audit asks for."""
    clips = pl.DataFrame(
        {
            "clip_id": REAL + MADE,
            "source": ["camera"] * PAIRS + ["sora"] * PAIRS,
            "pair_id": [None] * PAIRS + REAL,
            "frame_count": [*range(30, 30 + 2 * PAIRS)],
            "fps": [24.0] * 2 * PAIRS,
            OVERLAY_OF: REAL[1:] + REAL[:1] + [None] * PAIRS,
        }
    )
    return make_corpus(clips, pl.DataFrame({"caption_id": CAPTIONS, "clip_id": REAL, "text": ["a ball rolls"] * PAIRS}))


def scores(seed: int = 0, captions: int = PAIRS, clips: int = 2 * PAIRS) -> Scores:
    values = np.random.default_rng(seed).normal(size=(captions, clips))
    return Scores(values, CAPTIONS[:captions], (REAL + MADE)[:clips])


def asked(name: str, given: Scores) -> Any:
    edited = {"edit": replace(given, values=given.values + 1)} if name in OF_EDITS else {}
    return audit(name, given, corpus(), AuditSettings(resamples=20), AuditInputs(edited=edited))[0]


@pytest.mark.parametrize("name", AUDITS)
def test_what_scores_leave_out_is_told(name: str) -> None:
    whole = asked(name, scores())
    assert not any("have no scores" in notice for notice in whole.notices)
    part = asked(name, scores(captions=PAIRS - 3, clips=2 * PAIRS - 5))
    told = [notice for notice in part.notices if "have no scores" in notice]
    assert told == [
        f"{what}; what is said here leaves them out, so name the split that was scored."
        for what in (
            "3 of 40 captions of the corpus have no scores, the first 'c37'",
            "5 of 80 clips of the corpus have no scores, the first 's35'",
        )
    ]


@pytest.mark.parametrize("name", AUDITS)
def test_a_clip_that_is_named_twice_is_refused(name: str) -> None:
    given = scores()
    with pytest.raises(ScoresError, match="name the clip 'r0' more than once; every clip has one place"):
        asked(name, Scores(given.values, given.caption_ids, [*given.video_ids[:-1], "r0"]))
    with pytest.raises(ScoresError, match="name the caption 'c0' more than once"):
        asked(name, Scores(given.values, [*given.caption_ids[:-1], "c0"], given.video_ids))


@pytest.mark.parametrize("name", AUDITS)
def test_masked_scores_are_refused(name: str) -> None:
    given = scores()
    masked = np.ma.MaskedArray(given.values, np.eye(PAIRS, 2 * PAIRS, dtype=bool))
    with pytest.raises(ScoresError, match="masked array with 40 of 3,200 values masked"):
        asked(name, replace(given, values=masked))
