"""Maps of where models look: which captions and clips are shown, what the heat is of, and what frames attend to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import make_corpus, select
from evenreel.encoders import load_encoder
from evenreel.encoders.towers import TowerEncoder
from evenreel.errors import UsageError
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import video_batch
from evenreel.matchers.bima import Bima
from evenreel.papers import CorpusPart, Model, StudySettings, Workspace, part_of, run_study, study_recipe
from evenreel.papers.bima.figures import (
    SCORE,
    ElementLook,
    Heat,
    attention_of,
    direction,
    displayed,
    heat_strip,
    look,
    patches_as_clips,
)
from evenreel.papers.workspace import Looking
from evenreel.report.page import audit_page, render
from evenreel.types import Pixels, TextFeatures, VideoFeatures
from tests.tiny_checkpoints import WORDS
from tests.training.conftest import clip_folder

__all__ = ["clip_folder"]

CLIPS, FRAMES = 8, 5
ENTITIES, ACTIVITIES = ("a ball", "the dog", "the <b>park</b>"), ("runs", "rolls over", "on the train")
SETTINGS = StudySettings(recipe=study_recipe())
BIMA = {"entities": ENTITIES, "activities": ACTIVITIES, "kappa": 3, "captioning": False, "disentangle": False}


@pytest.fixture(scope="module")
def encoder(clip_folder: Path) -> TowerEncoder:
    return load_encoder(str(clip_folder), device="cpu")


@pytest.fixture(scope="module")
def videos() -> dict[str, Pixels]:
    """(T, H, W, 3) of each clip, wider than high."""
    random = np.random.default_rng(0)
    return {f"clip {row}": random.integers(0, 256, (FRAMES, 24, 40, 3), dtype=np.uint8) for row in range(CLIPS)}


@pytest.fixture(scope="module")
def looking(encoder: TowerEncoder, videos: dict[str, Pixels]) -> Looking:
    return Looking(encoder, lambda clip, times_s: [videos[clip][round(time_s)] for time_s in times_s])


@pytest.fixture(scope="module")
def part(encoder: TowerEncoder, videos: dict[str, Pixels]) -> CorpusPart:
    """Two captions a clip, to features its mean frame; the second clip has three frames only."""
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(WORDS, 3)) for _ in range(2 * CLIPS)]
    ids = [f"caption {row}" for row in range(2 * CLIPS)]
    clips = pl.DataFrame({"clip_id": list(videos), "split": "test"})
    captions = pl.DataFrame({"caption_id": ids, "clip_id": np.repeat(list(videos), 2), "text": texts})
    frames = np.stack([encoder.encode_windows(one.transpose(0, 3, 1, 2)[:, None]) for one in videos.values()])
    mask = np.ones((CLIPS, FRAMES), np.bool_)
    mask[1, 3:] = False
    times_s = np.tile(np.arange(float(FRAMES)), (CLIPS, 1))
    frames[~mask] = times_s[~mask] = 0.0
    means = frames.sum(axis=1).repeat(2, axis=0)
    sentences = means / np.linalg.norm(means, axis=1, keepdims=True)
    features = TextFeatures(tuple(ids), sentences[:, None], np.ones((2 * CLIPS, 1), np.bool_), sentences)
    return part_of(make_corpus(clips, captions), features, VideoFeatures(tuple(videos), frames, mask, times_s))


@pytest.fixture(scope="module")
def material(part: CorpusPart, looking: Looking) -> Workspace:
    """A `bima` beside a mean of frames that takes the captions for each other."""
    matcher = build_matcher("bima", part.texts.sentence.shape[1], BIMA)
    turned = replace(part.texts, sentence=np.roll(part.texts.sentence, 2, axis=0))
    other = Model("turned", build_matcher("mean_pool", part.texts.sentence.shape[1]), replace(part, texts=turned))
    return Workspace(test=part.corpus, models=(Model("bima", matcher, part), other), looking=looking)


def test_the_heat_of_a_caption_is_its_score_with_each_patch_alone(part: CorpusPart, looking: Looking) -> None:
    """For the mean of frames that is the cosine of both."""
    model = Model("mean", build_matcher("mean_pool", part.texts.sentence.shape[1]), part)
    found = look(model, 3, 1, looking)
    assert [heat.label for heat in found.heats] == [SCORE] and found.attention is None
    assert found.times_s == (0.0, 1.0, 2.0)
    frames = np.stack(looking.frames("clip 1", found.times_s)).transpose(0, 3, 1, 2)
    patches = looking.encoder.encode_patches(frames)
    np.testing.assert_allclose(found.heats[0].maps, patches @ part.texts.sentence[3], atol=1e-6)


def test_a_patch_alone_meets_the_elements_of_its_clip(material: Workspace, part: CorpusPart, looking: Looking) -> None:
    bima = material.models[0].matcher
    assert isinstance(bima, Bima)
    patches = looking.encoder.encode_patches(np.stack(looking.frames("clip 1", [0.0])).transpose(0, 3, 1, 2))
    alone = video_batch(patches_as_clips(patches, part, 1))
    whole = bima.attention(video_batch(part.videos, slice(1, 2)))
    found = bima.attention(alone)
    assert len(alone.ids) == patches.shape[1] * patches.shape[2]
    for places, of_clip in ((found.entity_places, whole.entity_places), (found.activity_places, whole.activity_places)):
        assert (places == of_clip).all()


def test_what_frames_attend_to(material: Workspace, part: CorpusPart, looking: Looking) -> None:
    """Elements in the order of their weights, with the phrases of the dictionary, and without frames that are none."""
    bima = material.models[0].matcher
    video = video_batch(part.videos, slice(1, 2))
    found = attention_of(bima, video, part.videos.times_s[1])
    assert found is not None and found.times_s.tolist() == [0.0, 1.0, 2.0]
    assert found.weights.sum(axis=1) == pytest.approx(np.ones(3))
    shares = [element.share for element in found.elements]
    assert shares == sorted(shares, reverse=True) and shares == pytest.approx(found.weights.mean(axis=0).tolist())
    assert isinstance(bima, Bima)
    weights = bima.attention(video)
    best = int(weights.weights[0, :3].mean(0).argmax())
    expected = ACTIVITIES[int(weights.activity_places[0, best])], ENTITIES[int(weights.entity_places[0, best])]
    assert found.elements[0].phrases == expected
    behind = Adapted(bima, part.texts.sentence.shape[1], AdapterSettings())
    again = attention_of(behind, video, part.videos.times_s[1])
    assert again is not None and again.elements == found.elements
    vectors = looking.encoder.encode_text(expected).sentence
    assert direction(found.elements[0], looking.encoder) @ vectors.sum(axis=0) == pytest.approx(
        np.linalg.norm(vectors.sum(axis=0))
    )


def test_by_itself_it_shows_what_one_system_answers_and_the_other_does_not(material: Workspace) -> None:
    found = run_study("bima/maps", material, SETTINGS)
    captions = material.models[0].part.corpus.captions
    ranks = {}
    for model in material.models:
        values = model.part.scores(model.matcher).block(slice(0, captions.height), slice(0, CLIPS))
        own = values[np.arange(captions.height), np.arange(captions.height) // 2]
        ranks[model.name] = 1 + (values > own[:, None]).sum(axis=1)
    chosen = np.flatnonzero((ranks["bima"] == 1) & (ranks["turned"] > 1))[:4]
    assert len(chosen)
    rows = found.tables[0].rows
    assert [row[1] for row in rows[::2]] == [captions["text"][row] for row in chosen.tolist()]
    assert {row[5] for row in rows[::2]} == {1} and rows[0][3] == "right" and rows[1][3] == "wrong"
    assert (found.effect.value, found.effect.is_significant) == (-1.0, False)
    assert [row[4] is None for row in rows] == [False, True] * len(chosen)
    assert len(found.figures) == 3 * len(chosen)


def test_what_the_user_names_is_shown(material: Workspace) -> None:
    asked = replace(SETTINGS, queries=("caption 9",))
    assert [row[0] for row in run_study("bima/maps", material, asked).tables[0].rows] == ["bima", "turned"]
    rows = run_study("bima/maps", material, replace(SETTINGS, clips=("clip 2", "clip 1"))).tables[0].rows
    assert [row[2:4] for row in rows[::2]] == [("clip 2", "right"), ("clip 1", "right")]
    both = run_study("bima/maps", material, replace(asked, clips=("clip 2",))).tables[0].rows
    assert both[0][2:4] == ("clip 2", "wrong")
    with pytest.raises(UsageError, match="no caption 'nobody'; --query"):
        run_study("bima/maps", material, replace(SETTINGS, queries=("nobody",)))
    with pytest.raises(UsageError, match="no clip 'nobody' .*; --clip"):
        run_study("bima/maps", material, replace(SETTINGS, clips=("nobody",)))
    with pytest.raises(UsageError, match="shows frames of clips; give it "):
        run_study("bima/maps", replace(material, looking=None), SETTINGS)


def without(part: CorpusPart, clip: str) -> CorpusPart:
    """As a part is loaded one of whose clips was set aside: its captions still have features."""
    rows = [row for row, one in enumerate(part.videos.ids) if one != clip]
    kept = part.only(select(part.corpus, where=pl.col("clip_id") != clip)).videos
    assert len(kept.ids) == len(rows)
    return part_of(part.corpus, part.texts, kept)


def test_captions_keep_their_names_where_clips_were_set_aside(part: CorpusPart, looking: Looking) -> None:
    """One system lacks a clip that the other has; both are looked at on those that both have."""
    plain = build_matcher("mean_pool", part.texts.sentence.shape[1])
    models = (Model("few", plain, without(part, "clip 0")), Model("fewer", plain, without(part, "clip 2")))
    material = Workspace(test=part.corpus, models=models, looking=looking)
    found = run_study("bima/maps", material, replace(SETTINGS, queries=("caption 9",)))
    scores = {
        clip: float(frames[mask].mean(axis=0) @ part.texts.sentence[9] / np.linalg.norm(frames[mask].mean(axis=0)))
        for clip, frames, mask in zip(part.videos.ids, part.videos.frames, part.videos.frame_mask, strict=True)
        if clip not in ("clip 0", "clip 2")
    }
    text = part.corpus.captions["text"][9]
    first = max(scores, key=lambda clip: scores[clip])
    rank = 1 + sum(value > scores["clip 4"] for value in scores.values())
    right = "right" if first == "clip 4" else "wrong"
    assert found.tables[0].rows == tuple((name, text, first, right, None, rank) for name in ("few", "fewer"))


def test_the_page_holds_the_pictures_and_no_markup_from_outside(material: Workspace) -> None:
    page = render(audit_page([run_study("bima/maps", material, replace(SETTINGS, clips=("clip 1",)))]))
    assert "data:image\\u002fjpeg;base64," in page  # Plotly writes every slash so
    assert "<b>park</b>" not in page and "\\u003cb\\u003epark" not in page


def test_a_strip_lays_each_patch_over_its_part_of_the_frame() -> None:
    pictures = (np.zeros((20, 40, 3), np.uint8), np.full((20, 40, 3), 255, np.uint8))
    maps = np.arange(12.0).reshape(2, 2, 3)
    figure = heat_strip(ElementLook(pictures, (0.5, 1.5), (Heat("heat", maps),), None), right=False)
    assert len(figure.layout.images) == 4 and len(figure.layout.shapes) == 2
    heat = figure.data[1]
    assert list(heat.x[:4]) == pytest.approx([0, 1 / 3, 2 / 3, 1]) and list(heat.x[4:]) == pytest.approx(
        [1.04, 1.04 + 1 / 3, 1.04 + 2 / 3, 2.04]
    )
    assert list(heat.y) == pytest.approx([0, 0.25, 0.5])
    assert np.array_equal(heat.customdata[:, :3], maps[0]) and np.array_equal(heat.customdata[:, 4:], maps[1])
    assert np.isnan(heat.customdata[:, 3]).all()
    assert heat.z[1, 6] == 1.0 and heat.z[0, 0] == 0.0
    assert figure.layout.xaxis2.ticktext == ("0.5 s", "1.5 s")
    for flat in (np.full((2, 2, 2), 3.0), -np.ones((1, 1, 1))):
        assert not displayed(flat).any(), "a map without a difference is cold"
    assert "the clip (wrong)" in figure.layout.annotations[0].text
