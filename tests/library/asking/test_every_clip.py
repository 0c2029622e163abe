"""What is found in order is what a slow look at every clip finds, though most clips are never looked into."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evenreel
from evenreel.library import Then
from evenreel.library.search import asking
from evenreel.library.search.searcher import NOTHING
from evenreel.library.search.seen import high_stretches
from evenreel.library.search.snapshot import Snapshot
from tests.library.fakes import SUBJECTS, WordsEncoder, encode, finish, on_disk

WITHIN_S = 3.0
CLIPS = 60


def state_of(share: float) -> int:
    return 0 if share >= 0.95 else 1 if share >= 0.9 else 2


def slowly(s: Snapshot, first: str, second: str) -> list[tuple[int, float]]:
    """The best pair of frames of every clip, frame by frame: its state and its sum, the best clip first."""
    assert s.vectors is not None
    found = []
    for clip in s.seen.tolist():
        frames = s.vectors.read(int(s.first_rows[clip]), int(s.counts[clip])).astype(np.float32)
        spans = np.array([[at + 0.5, at, at + 1] for at in range(len(frames))], float)
        told = []
        for text in (first, second):
            scores = frames @ encode(text)
            z = (scores.astype(float) - s.means[clip]) / s.deviations[clip]
            best = np.round(scores, 5).max()
            best_z = (best - s.means[clip]) / s.deviations[clip]
            share = np.searchsorted(s.null_best, best_z, "left") / max(1, len(s.null_best))
            stretches = high_stretches(scores, spans)
            within = [any(one.start_s <= time_s <= one.end_s for one in stretches) for time_s in spans[:, 0]]
            told.append(
                [(value, state_of(float(share)) if inside else 2) for value, inside in zip(z, within, strict=True)]
            )
        pairs = [
            (max(told[0][i][1], told[1][j][1]), -(told[0][i][0] + told[1][j][0]))
            for i in range(len(frames))
            for j in range(i + 1, len(frames))
            if j - i <= WITHIN_S
        ]
        found += [min(pairs)] if pairs else []
    return sorted(found)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_clips_are_those_of_a_slow_look_at_all(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    made = on_disk(tmp_path)
    for number in range(CLIPS):
        words = [SUBJECTS[int(at)] for at in rng.integers(len(SUBJECTS), size=rng.integers(1, 9))]
        made.add_clip(str(number), words)
        made.add_file(f"/v/{number}.mp4", str(number))
    finish(made)
    made.connection.close()
    looked: list[int] = []
    look = asking.best_pair
    monkeypatch.setattr(asking, "best_pair", lambda *given: looked.append(1) or look(*given))
    with evenreel.open_library(tmp_path, encoder=WordsEncoder()) as library:
        found = library.search(Then("red bus", "dog beach", WITHIN_S), k=5)
        with library.snapshot() as s:
            expected = slowly(s, "red bus", "dog beach")[:5]
    assert [hit.weaker for hit in found.hits] == [state == NOTHING for state, _ in expected]
    np.testing.assert_allclose([hit.score for hit in found.hits], [-value for _, value in expected], atol=1e-3)
    assert len(looked) < CLIPS
