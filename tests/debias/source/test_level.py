"""Levels of sources: right answers score alike, whatever made them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import sources_of
from evenreel.debias.source import MIN_CLIPS, levelled, recognised_sources, source_levels
from evenreel.errors import UsageError
from evenreel.types import Corpus, ScoreNotes, Scores


def collection(sources: list[str | None]) -> Corpus:
    """A caption for each clip."""
    ids = [f"clip {number}" for number in range(len(sources))]
    clips = pl.DataFrame({"clip_id": ids, "source": pl.Series(sources, dtype=pl.String)})
    return make_corpus(clips, pl.DataFrame({"caption_id": [f"of {one}" for one in ids], "clip_id": ids, "text": ids}))


def scored(corpus: Corpus, seed: int = 0, lead: float = 1.0) -> Scores:
    """Random scores, in which generated clips lead."""
    values = np.random.default_rng(seed).normal(size=(corpus.captions.height, corpus.clips.height)).astype(np.float32)
    values += np.float32(lead) * ~corpus.clips["source"].is_in(["camera"]).fill_null(value=True).to_numpy()
    return Scores(values, tuple(corpus.captions["caption_id"]), tuple(corpus.clips["clip_id"]), ScoreNotes(("words",)))


MIXED = collection(["camera", "sora", None, "wan", "sora"] * MIN_CLIPS)


def test_levels_are_differences_of_means_over_own_clips() -> None:
    scores, sources = scored(MIXED), sources_of(MIXED)
    own: dict[str, list[float]] = {}
    for row, clip in enumerate(scores.video_ids):
        own.setdefault(sources[clip], []).append(float(scores.values[row, row]))
    means = {name: sum(found) / len(found) for name, found in own.items()}
    levels = source_levels(scores, MIXED, sources)
    assert levels == {name: pytest.approx(means[name] - means["camera"]) for name in ("sora", "wan")}


def test_with_pairs_the_level_is_the_mean_lead_of_mirrors() -> None:
    clips = pl.DataFrame(
        {
            "clip_id": [f"{side} {number}" for side in ("real", "made") for number in range(MIN_CLIPS)],
            "source": ["camera"] * MIN_CLIPS + ["sora"] * MIN_CLIPS,
            "pair_id": [None] * MIN_CLIPS + [f"real {number}" for number in range(MIN_CLIPS)],
        }
    )
    half = MIN_CLIPS // 2  # of the captions half belong to real clips, half to mirrors
    own = [f"{'real' if number < half else 'made'} {number}" for number in range(MIN_CLIPS)]
    captions = pl.DataFrame({"caption_id": [f"of {one}" for one in own], "clip_id": own, "text": own})
    corpus = make_corpus(clips, captions)
    scores = scored(corpus)
    leads = [scores.values[number, MIN_CLIPS + number] - scores.values[number, number] for number in range(MIN_CLIPS)]
    assert source_levels(scores, corpus, sources_of(corpus)) == {"sora": pytest.approx(float(np.mean(leads)), abs=1e-6)}


def test_what_is_levelled_has_no_levels_left_and_real_clips_keep_their_scores() -> None:
    scores, sources = scored(MIXED), sources_of(MIXED)
    after = levelled(scores, source_levels(scores, MIXED, sources), sources)
    assert source_levels(after, MIXED, sources) == {name: pytest.approx(0, abs=1e-6) for name in ("sora", "wan")}
    whole = after.block(slice(0, 100), slice(0, 100))
    real = [column for column, clip in enumerate(after.video_ids) if sources[clip] == "camera"]
    assert np.array_equal(whole[:, real], scores.values[:, real])
    assert np.array_equal(after.block(slice(3, 9), slice(5, 40)), whole[3:9, 5:40])
    assert after.about.uses == ("words", "the source of clips, levelled on held-out captions")


def test_a_generator_whose_right_answers_are_behind_is_not_lifted() -> None:
    scores, sources = scored(MIXED, lead=-1.0), sources_of(MIXED)
    wan = np.array([sources[clip] == "wan" for clip in scores.video_ids])
    levels = source_levels(Scores(scores.values + 3 * wan, scores.caption_ids, scores.video_ids), MIXED, sources)
    assert levels["sora"] == 0 and levels["wan"] > 1
    everything = slice(0, 100), slice(0, 100)
    after = levelled(scores, source_levels(scores, MIXED, sources), sources)
    assert np.array_equal(after.block(*everything), scores.values)


def test_a_clip_of_an_unknown_source_keeps_its_scores() -> None:
    scores = scored(MIXED)
    after = levelled(scores, {"sora": 1.0}, {"clip 1": "sora", "clip 2": "veo"})
    moved = np.zeros(100, np.float32)
    moved[1] = 1
    assert np.array_equal(after.block(slice(0, 100), slice(0, 100)), scores.values - moved)


def test_too_few_captions_are_refused() -> None:
    few = collection(["camera"] * 30 + ["sora"] * (MIN_CLIPS - 1))
    with pytest.raises(UsageError, match=f"{MIN_CLIPS} of one generator; there are 30 of camera, 19 of sora"):
        source_levels(scored(few), few, sources_of(few))
    with pytest.raises(UsageError, match="there are none"):
        source_levels(scored(few), few, {})


def test_sources_are_recognised_by_what_a_generators_clips_share() -> None:
    rng = np.random.default_rng(0)
    frames, traces = rng.normal(size=(600, 20)), rng.normal(size=(3, 20)) * 3
    made = rng.choice(3, size=600, p=[0.05, 0.8, 0.15])
    names = np.array(["camera", "sora", "wan"])[made]
    frames = (frames + traces[made]).astype(np.float32)
    found = recognised_sources(frames[:400], names[:400].tolist(), frames[400:])
    assert np.mean(np.array(found) == names[400:]) > 0.95
    with pytest.raises(UsageError, match="two at least"):
        recognised_sources(frames[:5], ["camera"] * 5, frames)
    with pytest.raises(UsageError, match="1 of camera, 39 of sora"):
        recognised_sources(frames[:40], ["camera"] + ["sora"] * 39, frames)
