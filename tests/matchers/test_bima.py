"""BiMa against `wti`, against loops over frames and elements, and each of its parts with its switch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import pvariance
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from evenreel.errors import FeaturesError, UsageError
from evenreel.features.scene_elements import EmbeddedDictionary, save_embedded
from evenreel.language import scene_elements
from evenreel.losses import info_nce
from evenreel.matchers import PairBatch, bima, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import to_device
from evenreel.matchers.bima import (
    BEGIN,
    END,
    LARGEST_LOG_VARIANCE,
    SPECIAL,
    UNKNOWN,
    BiasHead,
    Bima,
    BimaSettings,
    CaptionDecoder,
    CaptionWords,
    Gaussian,
    Reading,
    Reduction,
    Selected,
    WrittenCaptions,
    active_units,
    aggregate,
    balance,
    captions_read,
    gaussian_kl,
    mean_draw,
    overlap,
    select,
    token_nll,
    vocabulary_of,
    with_dictionary_and_words,
    words_in,
)
from evenreel.matchers.matcher import LearnedFrom
from tests.matchers.examples import DIMENSION, captions, disturb, pairs, scores_of, small, text_rows, trained, videos
from tests.matchers.test_every_matcher import longer

SWITCHES = ("use_entities", "use_activities", "captioning", "disentangle")
OFF = dict.fromkeys(SWITCHES, False)
TABLE_4 = ("0000", "1000", "0100", "1100", "1110", "0001", "1111")
"""Its rows: entities, activities, captioning, disentanglement."""

HASH = "0123456789abcdef0123"


def fresh(**settings: Any) -> Any:
    return small("bima", **settings)


def built(dtype: torch.dtype = torch.float64, **settings: Any) -> Any:
    return trained("bima", 0.3, dtype, **settings)


def row_of(table: str) -> dict[str, bool]:
    return {name: switch == "1" for name, switch in zip(SWITCHES, table, strict=True)}


def batch(dtype: torch.dtype = torch.float32) -> PairBatch:
    return pairs(captions(dtype=dtype), videos(dtype=dtype))


def terms_of(matcher: Any, pairs: PairBatch | None = None) -> dict[str, Tensor]:
    """With the same noise each time."""
    torch.manual_seed(3)
    terms: dict[str, Tensor] = matcher.loss(pairs or batch())
    return terms


# The whole


@pytest.mark.parametrize("settings", [{}, {"kind": "ti"}, {"temporal_layers": 1, "heads": 2}], ids=str)
def test_with_all_switches_off_it_is_wti(settings: dict[str, Any]) -> None:
    """Table 4's first row, to the last bit: weights, scores and loss."""
    matcher = fresh(**OFF, **settings)
    torch.manual_seed(0)
    plain: Any = build_matcher("wti", DIMENSION, settings)
    assert all(torch.equal(matcher.state_dict()[name], weight) for name, weight in plain.state_dict().items())
    assert matcher.state_dict().keys() == plain.state_dict().keys()
    for one in (matcher, plain):
        disturb(one)
    assert torch.equal(*(scores_of(one, captions(), videos()) for one in (matcher, plain)))
    assert terms_of(matcher) == {"nce": plain.loss(batch())["contrastive"]}


@pytest.mark.parametrize("table", TABLE_4)
def test_training_starts_at_wti(table: str) -> None:
    plain = build_matcher("wti", DIMENSION)
    torch.testing.assert_close(
        scores_of(fresh(**row_of(table)), captions(), videos()), scores_of(plain, captions(), videos())
    )


@pytest.mark.parametrize("table", TABLE_4)
def test_each_row_of_table_4_has_its_parts_and_its_terms(table: str) -> None:
    entities, activities, captioning, disentangle = (switch == "1" for switch in table)
    matcher = fresh(**row_of(table))
    assert (matcher.scene is not None) == (entities or activities) == matcher.limits.pretrained_mean
    if matcher.scene is not None:
        assert [len(matcher.scene.entities), len(matcher.scene.activities)] == [4 * entities, 5 * activities]
    expected = ["nce", *["cap"] * captioning, *["rec", "kl"] * disentangle]
    assert list(terms_of(matcher)) == expected


def test_what_weighs_nothing_is_not_calculated() -> None:
    for weight, term, part in (("lambda_cap", "cap", "captioner"), ("lambda_rec", "rec", "text_decoder")):
        matcher = fresh(**{weight: 0.0})
        assert getattr(matcher, part) is None
        assert terms_of(matcher).keys() == {"nce", "cap", "rec", "kl"} - {term}
    assert terms_of(fresh(lambda_kl=0)).keys() == {"nce", "cap", "rec"}
    assert terms_of(fresh(lambda_orth=0.5)).keys() == {"nce", "cap", "rec", "kl", "orth"}


def test_parts_for_which_there_is_nothing_are_left_out() -> None:
    bare = build_matcher("bima", DIMENSION)
    assert isinstance(bare, Bima)
    assert (bare.scene, bare.captioner, bare.text_decoder) == (None, None, None)


def test_without_the_parts_of_training_it_scores_the_same() -> None:
    matcher = built(torch.float32)
    before = scores_of(matcher, captions(), videos())
    own = {name.partition(".")[0] for name in matcher.state_dict()}
    assert set(matcher.training_only) < own
    for name in matcher.training_only:
        setattr(matcher, name, None)
    assert torch.equal(scores_of(matcher, captions(), videos()), before)


# Frames


def slow_frames(matcher: Any, row: int, frames: Tensor) -> list[Tensor]:
    """Section 3.1 and 3.2 for one video, (T, D) real unit frames."""
    scene, settings = matcher.scene, matcher.settings
    mean = frames.mean(0)
    near = [
        sorted(phrases, key=lambda phrase: -float(phrase @ mean / mean.norm()))[: settings.kappa]
        for phrases in (scene.entities, scene.activities)
    ]
    kappa = min(len(phrases) for phrases in near)
    entities, activities = (phrases[:kappa] for phrases in near)
    g = 1 - sum(max(float(one @ other / one.norm() / other.norm()) for other in entities) for one in activities) / kappa
    elements = [math.sqrt(DIMENSION) * (one + g * other) for one, other in zip(activities, entities, strict=True)]
    elements = [scene.element_norm(one) for one in elements]
    seen = []
    for frame in frames * math.sqrt(DIMENSION):
        query = scene.query(scene.frame_norm(frame))
        raised = [math.exp(float(query @ scene.key(one)) / math.sqrt(DIMENSION)) for one in elements]
        found = sum(weight / sum(raised) * scene.value(one) for weight, one in zip(raised, elements, strict=True))
        mixed = frame + found if settings.residual else found
        seen.append(mixed / mixed.norm())
    return seen


@pytest.mark.parametrize("residual", [True, False])
@torch.no_grad()
def test_frames_as_the_formulas_say(residual: bool) -> None:
    matcher, video = built(residual=residual), videos(dtype=torch.float64)
    found = matcher.encode_video(video).vectors
    for row, (frames, mask) in enumerate(zip(video.frames, video.frame_mask, strict=True)):
        expected = slow_frames(matcher, row, frames[mask])
        torch.testing.assert_close(found[row][mask], torch.stack(expected), atol=1e-12, rtol=0)
        assert not found[row][~mask].any()


@torch.no_grad()
def test_read_literally_frames_are_made_of_elements_alone() -> None:
    """Untrained, each is a mean of those of its video; nothing else of the frame is left."""
    matcher = fresh(residual=False).double()
    video = videos(dtype=torch.float64)
    elements = aggregate(matcher.scene.selected(video.frames.sum(1) / video.frame_mask.sum(1, keepdim=True)))
    weights = matcher.attention(video).weights
    torch.testing.assert_close(
        matcher.frames_of(video), F.normalize(weights @ elements, dim=-1) * video.frame_mask[..., None]
    )


@torch.no_grad()
def test_attention_says_what_frames_look_at() -> None:
    matcher, video = built(), videos(dtype=torch.float64)
    found = matcher.attention(video)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones_like(found.weights[..., 0]))
    selected = matcher.scene.selected(video.frames.sum(1) / video.frame_mask.sum(1, keepdim=True))
    assert torch.equal(found.entity_places, selected.entity_places)
    assert torch.equal(found.activity_places, selected.activity_places)
    elements = matcher.scene.element_norm(math.sqrt(DIMENSION) * aggregate(selected))
    mixed = math.sqrt(DIMENSION) * video.frames + found.weights @ matcher.scene.value(elements)
    expected = F.normalize(mixed, dim=-1).masked_fill(~video.frame_mask[..., None], 0.0)
    torch.testing.assert_close(matcher.frames_of(video), expected)
    alone = built(use_entities=False).attention(video)
    assert alone.entity_places.shape == (5, 0)
    assert alone.activity_places.shape == (5, 3)


@pytest.mark.parametrize(("g", "fixed"), [("none", 1.0), (0.0, 0.0), (0.7, 0.7)])
def test_the_weight_of_entities_can_be_fixed(g: Any, fixed: float) -> None:
    adaptive, other = built(), built(g=g)
    assert (adaptive.settings.fixed_g, other.settings.fixed_g) == (None, fixed)
    assert not torch.equal(*(one.frames_of(videos(dtype=torch.float64)) for one in (adaptive, other)))


def test_elements_are_those_that_a_frozen_tower_saw() -> None:
    """An adapter changes frames, and not what is selected."""
    matcher = fresh(residual=False)
    video, other = videos(), videos(seed=9)
    seen = other.frames.sum(1) / other.frame_mask.sum(1, keepdim=True)
    places = matcher.attention(replace(video, pretrained_mean=seen)).entity_places
    assert torch.equal(places, matcher.attention(other).entity_places)
    assert not torch.equal(places, matcher.attention(video).entity_places)
    adapted = disturb(Adapted(matcher, DIMENSION, AdapterSettings()), 0.5)
    mapped = adapted.adapt_video(video)
    assert not torch.allclose(mapped.frames, video.frames, atol=0.1)
    assert torch.equal(matcher.attention(mapped).entity_places, matcher.attention(video).entity_places)


# Captions


@torch.no_grad()
def test_content_is_a_residual_map_of_the_words() -> None:
    matcher, text = built(), captions(dtype=torch.float64)
    found = matcher.encode_text(text).vectors
    for row, mask in enumerate(text.word_mask):
        for place in range(int(mask.sum())):
            word = math.sqrt(DIMENSION) * text.words[row, place] / text.words[row, place].norm()
            content = word + matcher.content.change(word)
            torch.testing.assert_close(found[row, place], content / content.norm(), atol=1e-12, rtol=0)


@torch.no_grad()
def test_bias_can_stand_for_a_caption_or_be_added_to_it() -> None:
    matcher, text = built(), captions(dtype=torch.float64)
    content = matcher.encode_text(text).vectors
    mu = matcher.bias(math.sqrt(DIMENSION) * F.normalize(text.words, dim=-1)).mu
    real = text.word_mask[..., None]
    for reading, expected in (
        (Reading(), content),
        (Reading("bias"), F.normalize(mu, dim=-1) * real),
        (Reading(alpha=0.5), F.normalize(math.sqrt(DIMENSION) * content + 0.5 * mu, dim=-1) * real),
    ):
        state = matcher.text_state(text, reading)
        torch.testing.assert_close(state.vectors, expected, atol=1e-12, rtol=0)
        torch.testing.assert_close(state.weights.sum(1), torch.ones(5, dtype=torch.float64))
    drawn = matcher.text_state(text, Reading("bias", draws=2, seed=4))
    again = matcher.text_state(text_rows(text, [3, 1]), Reading("bias", draws=2, seed=4))
    torch.testing.assert_close(again.vectors, drawn.vectors[[3, 1]][:, : again.vectors.shape[1]])
    assert not torch.allclose(drawn.vectors, matcher.text_state(text, Reading("bias")).vectors)


def test_a_matcher_reads_captions_otherwise_for_a_while() -> None:
    matcher, text, video = built(torch.float32), captions(), videos()
    before = scores_of(matcher, text, video)
    expected = matcher.score(matcher.text_state(text, Reading("bias")), matcher.encode_video(video))
    nce = terms_of(matcher)["nce"]
    with captions_read(torch.nn.ModuleList([matcher]), Reading("bias")):
        assert torch.equal(scores_of(matcher, text, video), expected)
        assert torch.equal(terms_of(matcher)["nce"], nce)
    assert torch.equal(scores_of(matcher, text, video), before)
    with pytest.raises(RuntimeError, match="stop"), captions_read(matcher, Reading("bias")):
        raise RuntimeError("stop")
    assert matcher.reading == Reading()


# The loss


def test_the_terms_are_those_of_the_parts() -> None:
    matcher, one = built(torch.float32, samples=2, lambda_kl=0.2, lambda_orth=0.7, reduction="sum"), batch()
    found = terms_of(matcher)
    text, video, size = matcher.encode_text(one.text), matcher.encode_video(one.video), math.sqrt(DIMENSION)
    expected = info_nce(matcher.score(text, video), one.same, matcher.logit_scale.exp())
    torch.testing.assert_close(found["nce"], expected)
    written = matcher._caption_words.written(one.texts, 6)
    cost = matcher.captioner.nll(written, size * video.vectors, video.mask, "sum")
    torch.testing.assert_close(found["cap"], 0.3 * cost)
    bias = matcher.bias(size * F.normalize(one.text.words, dim=-1))
    torch.manual_seed(3)
    draws = [size * text.vectors + bias.mu + bias.sigma * torch.randn_like(bias.mu) for _ in range(2)]
    costs = [matcher.text_decoder.nll(written, draw, one.text.word_mask, "sum") for draw in draws]
    torch.testing.assert_close(found["rec"], 0.5 * (costs[0] + costs[1]) / 2)
    cost = gaussian_kl(bias.mu, bias.log_variance, one.text.word_mask, "sum")
    torch.testing.assert_close(found["kl"], 0.2 * cost)
    torch.testing.assert_close(found["orth"], 0.7 * overlap(size * text.vectors, bias.mu, one.text.word_mask))


@pytest.mark.parametrize("settings", [{"lambda_orth": 1.0}, {"reduction": "sum", "kl_on": "z", "samples": 2}], ids=str)
@torch.no_grad()
def test_padding_changes_no_term(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the noise, of which more padding takes more."""
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    matcher, one = built(**settings), batch(torch.float64)
    words, word_mask = longer(one.text.words, one.text.word_mask, 3)
    frames, frame_mask = longer(one.video.frames, one.video.frame_mask, 2)
    more = replace(
        one,
        text=replace(one.text, words=words, word_mask=word_mask),
        video=replace(one.video, frames=frames, frame_mask=frame_mask, times_s=torch.zeros(frame_mask.shape)),
    )
    found, expected = terms_of(matcher, more), terms_of(matcher, one)
    assert list(found) == ["nce", "cap", "rec", "kl", *(["orth"] if "lambda_orth" in settings else [])]
    for name, term in expected.items():
        torch.testing.assert_close(found[name], term, atol=1e-9, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@torch.no_grad()
def test_a_gpu_gives_the_same_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the noise, which is another there."""
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    matcher, one = built(torch.float32), batch()
    here, state = terms_of(matcher, one), matcher.text_state(one.text, Reading(alpha=0.5, draws=2))
    there = replace(one, text=to_device(one.text, "cuda"), video=to_device(one.video, "cuda"), same=one.same.cuda())
    for name, term in terms_of(matcher.cuda(), there).items():
        torch.testing.assert_close(term.cpu(), here[name], atol=1e-4, rtol=1e-4)
    drawn = matcher.text_state(there.text, Reading(alpha=0.5, draws=2))
    torch.testing.assert_close(drawn.vectors.cpu(), state.vectors, atol=1e-4, rtol=0)


def test_captions_of_any_words_can_be_written() -> None:
    """None, one, unknown ones alone, and more than are written."""
    matcher = built(torch.float32).train()
    terms = terms_of(matcher, replace(batch(), texts=("", "Dog", "zzz qqq", "a red ball " * 20, " ")))
    torch.stack(list(terms.values())).sum().backward()
    assert all(term.isfinite() for term in terms.values())
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in matcher.parameters())


def test_it_says_what_its_bias_holds() -> None:
    """At the start nothing; later the divergence without its weight, and the numbers that vary over words."""
    start = fresh()
    terms_of(start)
    assert {name: value.item() for name, value in start.figures.items()} == {
        "bias/kl": 0.0,
        "bias/active_units": 0.0,
        "bias/sigma": 1.0,
    }
    matcher, one = built(torch.float32, lambda_kl=0.2), batch()
    kl = terms_of(matcher, one)["kl"]
    torch.testing.assert_close(matcher.figures["bias/kl"], kl.detach() / 0.2)
    words = one.text.words[one.text.word_mask]
    own = matcher.bias(math.sqrt(DIMENSION) * F.normalize(words, dim=-1))
    moving = [np.var(column) > 0.01 for column in own.mu.T.tolist()]
    assert matcher.figures["bias/active_units"].item() == sum(moving) > 0
    still = fresh(disentangle=False)
    terms_of(still)
    assert still.figures == {}


def slopes(matcher: Any, term: str, part: str) -> bool:
    """Whether the term has a slope for any parameter of the part."""
    weights = list(getattr(matcher, part).parameters())
    found = torch.autograd.grad(terms_of(matcher)[term], weights, allow_unused=True)
    return any(slope is not None and bool(slope.any()) for slope in found)


def test_each_term_teaches_what_it_should() -> None:
    matcher = built(torch.float32, lambda_orth=1.0)
    taught = {
        "nce": {"scene", "content"},
        "cap": {"scene", "captioner"},
        "rec": {"content", "bias", "text_decoder"},
        "kl": {"bias"},
        "orth": {"bias"},
    }
    for term, expected in taught.items():
        found = {
            part for part in ("scene", "content", "bias", "captioner", "text_decoder") if slopes(matcher, term, part)
        }
        assert found == expected, term


def test_a_divergence_of_the_sum_reaches_the_content() -> None:
    """Equation 7 as it is printed."""
    assert slopes(built(torch.float32, kl_on="z"), "kl", "content")


def test_it_learns_to_write() -> None:
    matcher, one = fresh().train(), batch()
    optimiser = torch.optim.Adam(matcher.parameters(), lr=0.02)
    before = terms_of(matcher, one)
    for _ in range(12):
        optimiser.zero_grad()
        torch.stack(list(matcher.loss(one).values())).sum().backward()
        optimiser.step()
    after = terms_of(matcher, one)
    for name in ("nce", "cap", "rec"):
        assert after[name] < 0.6 * before[name], name


# What training finds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What `evenreel elements` writes: four entities and three activities."""
    place = tmp_path_factory.mktemp("elements")
    dictionary = scene_elements.given(["dog", "ball", "grass", "man"], ["run", "throw", "sleep"])
    rng = np.random.default_rng(0)
    entities, activities = (rng.standard_normal((count, DIMENSION)).astype(np.float32) for count in (4, 3))
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (entities, activities)]
    save_embedded(EmbeddedDictionary(dictionary, *unit, "an encoder", HASH), place)
    yield place


def learned(weights_hash: str | None = HASH) -> LearnedFrom:
    return LearnedFrom(texts=("A dog runs.", "a ball"), weights_hash=weights_hash)


def test_training_finds_phrases_their_vectors_and_words(folder: Path) -> None:
    found = with_dictionary_and_words({"elements": str(folder), "heads": 2}, learned())
    assert found["entities"] == ("dog", "ball", "grass", "man")
    assert found["activities"] == ("run", "throw", "sleep")
    assert found["vocabulary"] == ("a", ".", "ball", "dog", "runs")
    matcher: Any = build_matcher("bima", DIMENSION, found)
    matcher.read_start()
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.standard_normal((4, DIMENSION)).astype(np.float32))
    torch.testing.assert_close(matcher.scene.entities, F.normalize(rows, dim=-1))
    assert with_dictionary_and_words(found, LearnedFrom(texts=("other",), weights_hash="another")) == found


def test_only_what_is_used_is_taken(folder: Path) -> None:
    found = with_dictionary_and_words(
        {"elements": str(folder), "use_entities": False, **{"words_at_least": 2}}, learned()
    )
    assert (found["entities"], found["vocabulary"]) == ((), ("a",))
    matcher: Any = build_matcher("bima", DIMENSION, found)
    matcher.read_start()
    assert [len(matcher.scene.entities), len(matcher.scene.activities)] == [0, 3]
    assert with_dictionary_and_words(OFF, LearnedFrom()) == OFF


@pytest.mark.parametrize(
    ("settings", "use", "sentence"),
    [
        (OFF, lambda one: one.attention(videos()), "without scene elements, so its frames attend to none"),
        (OFF, lambda one: one.text_state(captions(), Reading("bias")), "disentangle=false, so its captions have no bi"),
        ({}, lambda one: one.loss(replace(batch(), texts=None)), "this batch has none"),
        ({}, lambda one: one.read_start(), "has scene elements without their vectors; give elements=DIR"),
        (
            {"use_entities": False, "use_activities": False, "vocabulary": ()},
            lambda one: one.read_start(),
            "no word of captions is there to be written; .* lower words_at_least",
        ),
        ({}, lambda _: fresh(heads=3), "length 16 cannot be split among 3 attention heads"),  # those of the decoders
        ({}, lambda _: Reading(alpha=math.nan), "The setting alpha of a reading is nan; it must be a number"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], use: Callable[[Any], object], sentence: str) -> None:
    matcher = fresh(**settings)
    with pytest.raises(UsageError, match=sentence):
        use(matcher)


def test_what_is_not_used_is_not_asked_for() -> None:
    terms = fresh(captioning=False, disentangle=False).loss(replace(batch(), texts=None))
    assert terms and all(torch.isfinite(term) for term in terms.values())
    fresh(**OFF).read_start()  # nothing is asked for


def test_without_an_encoder_there_are_phrases_and_no_vectors(folder: Path) -> None:
    """As where nothing is trained and the cost of a recipe is counted."""
    assert "embeddings" not in with_dictionary_and_words({"elements": str(folder)}, learned(None))


def test_a_folder_that_is_missing_or_of_another_encoder(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no folder of them; give elements=DIR.*use_entities=false"):
        with_dictionary_and_words({}, learned())
    with pytest.raises(FeaturesError, match="no embeddings by the encoder of these features.*evenreel elements"):
        with_dictionary_and_words({"elements": str(folder)}, learned("f" * 20))
    with pytest.raises(FeaturesError, match="There is no scene dictionary"):
        with_dictionary_and_words({"elements": str(tmp_path)}, learned())


def test_a_kind_that_is_looked_at_and_lacking_is_told(tmp_path: Path) -> None:
    """Else the row `activities` of a comparison would be `wti` under another name."""
    rows = np.eye(2, DIMENSION, dtype=np.float32)
    save_embedded(
        EmbeddedDictionary(scene_elements.given(["dog", "ball"], []), rows, rows[:0], "an encoder", HASH), tmp_path
    )
    for hashed in (HASH, None):
        with pytest.raises(UsageError, match="look at activities, and the dictionary in .* has none.*use_activities=f"):
            with_dictionary_and_words({"elements": str(tmp_path), "use_entities": False}, learned(hashed))
    found = with_dictionary_and_words({"elements": str(tmp_path), "use_activities": False}, learned())
    assert found["entities"] == ("dog", "ball")


def test_vectors_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    found = with_dictionary_and_words({"elements": str(folder), "heads": 2}, learned())
    other: Any = build_matcher("bima", DIMENSION, {**found, "entities": ("dog",)})
    with pytest.raises(UsageError, match="has no vectors of length 16 for the 1 entities"):
        other.read_start()
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"no file of vectors")
    for path in (broken, tmp_path / "missing"):
        matcher: Any = build_matcher("bima", DIMENSION, {**found, "embeddings": str(path)})
        with pytest.raises(UsageError, match=f"{path.name} cannot be read"):
            matcher.read_start()


# Selection, balance and aggregation of scene elements against loops, and the cases that can be worked by hand


def unit(*shape: int, seed: int = 0) -> Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double(), dim=-1)


def chosen(entities: Tensor, activities: Tensor) -> Selected:
    none = torch.zeros(entities.shape[:2], dtype=torch.int64)
    return Selected(entities, activities, none, none)


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))


def slow_nearest(seen: Tensor, phrases: Tensor, count: int) -> list[int]:
    scores = [(-cosine(seen, phrase), place) for place, phrase in enumerate(phrases)]
    return [place for _, place in sorted(scores)[:count]]


@given(
    videos=st.integers(1, 4),
    entities=st.integers(0, 6),
    activities=st.integers(1, 6),
    kappa=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_the_nearest_phrases_in_order(videos: int, entities: int, activities: int, kappa: int, seed: int) -> None:
    seen = 3 * unit(videos, 5, seed=seed)
    phrases = unit(entities, 5, seed=seed + 1), unit(activities, 5, seed=seed + 2)
    count = min([kappa, activities, *([entities] if entities else [])])
    found = select(seen, *phrases, kappa)
    for row in range(videos):
        for table, places, vectors in zip(phrases, found[2:], found[:2], strict=True):
            expected = slow_nearest(seen[row], table, count)
            assert places[row].tolist() == expected
            assert torch.equal(vectors[row], table[expected])


def test_equal_phrases_stand_in_the_order_of_the_dictionary() -> None:
    up, right = torch.eye(2)
    assert select(up[None], torch.stack([right, up, up, up]), up[None].expand(4, 2), 3).entity_places.tolist() == [
        [1, 2, 3]
    ]


def test_nothing_learns_through_selection_and_autocast_leaves_it_alone() -> None:
    seen = unit(3, 8).float().requires_grad_()
    tables = unit(50, 8, seed=1).float(), unit(40, 8, seed=2).float()
    plain = select(seen, *tables, 5)
    assert not plain.entities.requires_grad
    with torch.autocast("cpu", torch.bfloat16):
        for one, other in zip(select(seen, *tables, 5), plain, strict=True):
            assert torch.equal(one, other)


@given(seed=st.integers(0, 999), kappa=st.integers(1, 5))
def test_balance_as_equation_4_says(seed: int, kappa: int) -> None:
    entities, activities = 2 * unit(3, kappa, 4, seed=seed), unit(3, kappa, 4, seed=seed + 1)
    found = balance(entities, activities)
    for row in range(3):
        best = [max(cosine(one, other) for other in entities[row]) for one in activities[row]]
        assert found[row].item() == pytest.approx(1 - sum(best) / kappa, abs=1e-12)
        assert -1e-12 <= found[row] <= 2 + 1e-12


def test_like_elements_count_once_unlike_ones_twice_opposite_ones_for_nothing() -> None:
    """The hand-worked cases: g of 0, 1 and 2."""
    same = torch.eye(4).double()[None, :2]
    across = torch.eye(4).double()[None, 2:]
    opposite = -same[:, :1]
    for entities, activities, g in ((same, same, 0.0), (across, same, 1.0), (opposite, same[:, :1], 2.0)):
        assert balance(entities, activities).tolist() == [g]
        torch.testing.assert_close(aggregate(chosen(entities, activities)), activities + g * entities)


def test_elements_of_one_kind_and_with_a_fixed_weight() -> None:
    entities, activities = unit(2, 3, 4), unit(2, 3, 4, seed=1)
    none = entities[:, :0]
    assert torch.equal(aggregate(chosen(entities, none)), entities)
    assert torch.equal(aggregate(chosen(none, activities)), activities)
    for g in (0.0, 0.5, 1.0):
        torch.testing.assert_close(aggregate(chosen(entities, activities), g), activities + g * entities)


# The bias of words: its distribution, and draws that repeat


def bias(captions: int = 3, words: int = 4, dimension: int = 6) -> Gaussian:
    make = torch.Generator().manual_seed(0)
    return Gaussian(*torch.randn(2, captions, words, dimension, generator=make).double())


IDS = ("one", "two", "three")


def test_a_variance_stays_a_number() -> None:
    head = disturb(BiasHead(6, dropout=0.0), size=1e4)
    found = head(torch.randn(50, 6)).log_variance
    assert found.abs().max() == LARGEST_LOG_VARIANCE


def test_a_draw_is_its_mean_and_noise_of_its_spread() -> None:
    own = bias()
    torch.manual_seed(5)
    drawn = own.draw()
    torch.manual_seed(5)
    noise = torch.randn(3, 4, 6, dtype=torch.float64)
    torch.testing.assert_close(drawn, own.mu + (own.log_variance / 2).exp() * noise)


def test_draws_are_the_caption_s_own() -> None:
    """Whatever captions stand beside it, in whatever order, and however far they are padded."""
    own = bias()
    drawn = mean_draw(own, IDS, draws=3, seed=1)
    turned = mean_draw(Gaussian(*(tensor.flip(0) for tensor in own)), IDS[::-1], 3, 1)
    assert torch.equal(turned.flip(0), drawn)
    short = mean_draw(Gaussian(*(tensor[1:2, :2] for tensor in own)), IDS[1:2], 3, 1)
    assert torch.equal(short[0], drawn[1, :2])
    assert not torch.equal(mean_draw(own, IDS, 3, 2), drawn)
    noise = (drawn - own.mu) / own.sigma
    assert not torch.isclose(noise[0], noise[1]).any()


@pytest.mark.parametrize("draws", [1, 9])
def test_the_mean_of_n_draws_is_n_times_less_noisy(draws: int) -> None:
    plain = Gaussian(torch.zeros(1, 40, 50), torch.zeros(1, 40, 50))
    noise = mean_draw(plain, ("one",), draws, seed=0)
    assert noise.mean().abs() < 0.1
    assert noise.var().item() == pytest.approx(1 / draws, rel=0.1)


# Captions as numbers: which words, in which order, and where they end


def test_the_vocabulary_is_that_of_the_captions_by_frequency() -> None:
    captions = ["A dog runs.", "a cat, a dog", "Runs"]
    assert vocabulary_of(captions, most=9) == ("a", "dog", "runs", ",", ".", "cat")
    assert vocabulary_of(captions, most=9, least=2) == ("a", "dog", "runs")
    assert vocabulary_of(captions, most=2) == ("a", "dog")
    assert vocabulary_of([], most=2) == ()


def test_captions_begin_and_end() -> None:
    words = CaptionWords(("a", "dog"))
    written = words.written(["A DOG", "", "a red dog!"], most=9)
    a, dog = SPECIAL, SPECIAL + 1
    assert written.words[0][written.mask[0]].tolist() == [a, dog, END]
    assert written.before[0][written.mask[0]].tolist() == [BEGIN, a, dog]
    assert written.words[1][written.mask[1]].tolist() == [END]
    assert written.words[2][written.mask[2]].tolist() == [a, UNKNOWN, dog, UNKNOWN, END]
    assert len(words) == SPECIAL + 2


@given(st.lists(st.text("ab c.", max_size=12), min_size=1, max_size=4), st.integers(1, 8))
def test_what_is_written_is_the_caption(captions: list[str], most: int) -> None:
    """What follows each word is the next; a caption that is cut does not end."""
    vocabulary = vocabulary_of(captions, most=99)
    written = CaptionWords(vocabulary).written(captions, most)
    assert written.words.shape[1] <= most
    for row, caption in enumerate(captions):
        whole = [*(SPECIAL + vocabulary.index(word) for word in words_in(caption)), END]
        after, before = (tensor[row][written.mask[row]].tolist() for tensor in (written.words, written.before))
        assert after == whole[:most]
        assert before == [BEGIN, *whole][: len(after)]


# The decoder sees what was written before and all that it writes from, and no more


CAPTION_DECODER_SETTINGS = BimaSettings(max_words=6, heads=2)


@pytest.fixture(scope="module")
def decoder() -> Any:
    torch.manual_seed(0)
    return disturb(CaptionDecoder(DIMENSION, 9, CAPTION_DECODER_SETTINGS)).double().eval()


def source(seed: int = 0) -> tuple[Tensor, Tensor]:
    vectors = torch.randn(2, 3, DIMENSION, generator=torch.Generator().manual_seed(seed)).double()
    return vectors, torch.tensor([[True, True, True], [True, False, False]])


@torch.no_grad()
def test_a_later_word_changes_no_earlier_state(decoder: Any) -> None:
    before = torch.tensor([[0, 3, 4, 5], [0, 6, 7, 8]])
    states = decoder(before, *source())
    for place in range(1, 4):
        other = before.clone()
        other[:, place:] = 2
        changed = decoder(other, *source())
        torch.testing.assert_close(changed[:, :place], states[:, :place], atol=1e-12, rtol=0)
        assert (changed[:, place] - states[:, place]).abs().max() > 1e-3


@torch.no_grad()
def test_padding_of_the_source_takes_no_part(decoder: Any) -> None:
    before = torch.tensor([[0, 3], [0, 6]])
    vectors, mask = source()
    junk = torch.where(mask[..., None], vectors, 100.0)
    torch.testing.assert_close(decoder(before, junk, mask), decoder(before, vectors, mask), atol=1e-12, rtol=0)
    turned = vectors.clone()
    turned[0, 2] = -turned[0, 2]
    assert (decoder(before, turned, mask) - decoder(before, vectors, mask))[0].abs().max() > 1e-4


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@torch.no_grad()
def test_captions_word_by_word(decoder: Any, reduction: Reduction) -> None:
    """Each caption alone, cut after every word, without padding."""
    before, after = torch.tensor([[0, 3, 4], [0, 5, 1]]), torch.tensor([[3, 4, 1], [5, 1, 1]])
    lengths, (vectors, mask) = (3, 2), source()
    written = WrittenCaptions(before, after, torch.arange(3) < torch.tensor(lengths)[:, None])
    rows = []
    for row, length in enumerate(lengths):
        costs = []
        for place in range(length):
            seen = vectors[row : row + 1, mask[row]]
            state = decoder(before[row : row + 1, : place + 1], seen, torch.ones(seen.shape[:2], dtype=torch.bool))
            logits = decoder.words.weight @ state[0, -1]
            costs.append(math.log(sum(math.exp(float(one)) for one in logits)) - float(logits[after[row, place]]))
        rows.append(sum(costs) / (length if reduction == "mean" else 1))
    assert decoder.nll(written, vectors, mask, reduction).item() == pytest.approx(sum(rows) / 2, abs=1e-5)


def test_at_the_start_it_knows_next_to_nothing() -> None:
    """Nor does it write the word again that it has just read."""
    torch.manual_seed(0)
    fresh = CaptionDecoder(64, 50, BimaSettings(max_words=6))
    numbers = torch.randint(50, (8, 6))
    vectors, mask = torch.randn(8, 4, 64), torch.ones(8, 4, dtype=torch.bool)
    cost = fresh.nll(WrittenCaptions(numbers, numbers, torch.ones(8, 6, dtype=torch.bool)), vectors, mask, "mean")
    assert cost.item() == pytest.approx(math.log(50), abs=0.5)


# The divergence and the likelihood of words against loops over captions, tokens and numbers


lengths = st.lists(st.integers(1, 4), min_size=1, max_size=4)
reductions = st.sampled_from(["mean", "sum"])


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def real(counts: list[int], room: int = 1) -> Tensor:
    """A mask of so many tokens a row, and some room."""
    return torch.arange(max(counts) + room) < torch.tensor(counts)[:, None]


def by_loops(costs: list[list[float]], reduction: Reduction) -> float:
    rows = [sum(row) / (len(row) if reduction == "mean" else 1) for row in costs]
    return sum(rows) / len(rows)


@given(counts=lengths, seed=st.integers(0, 999), reduction=reductions, free=st.sampled_from([0.0, 3.0]))
def test_divergence_against_the_library_of_distributions(
    counts: list[int], seed: int, reduction: Reduction, free: float
) -> None:
    mask = real(counts)
    mu, log_variance = random(*mask.shape, 5, seed=seed), random(*mask.shape, 5, seed=seed + 1)
    own, prior = Normal(mu, (0.5 * log_variance).exp()), Normal(torch.zeros(5), torch.ones(5))
    each = kl_divergence(own, prior)
    costs = [[max(free, sum(each[row, token].tolist())) for token in range(count)] for row, count in enumerate(counts)]
    found = gaussian_kl(mu, log_variance, mask, reduction, free)
    assert found.item() == pytest.approx(by_loops(costs, reduction), rel=1e-5)


def test_what_is_free_has_no_slope() -> None:
    mu = torch.tensor([[[0.1, 0.0], [9.0, 0.0]]], requires_grad=True)
    gaussian_kl(mu, torch.zeros(1, 2, 2), real([2], 0), free_nats=1.0).backward()
    assert mu.grad is not None
    assert mu.grad.flatten().tolist() == [0.0, 0.0, 4.5, 0.0]


@given(counts=lengths, seed=st.integers(0, 99), least=st.sampled_from([0.01, 1.0]))
def test_active_numbers_against_a_loop(counts: list[int], seed: int, least: float) -> None:
    mask = real(counts)
    mu = random(*mask.shape, 6, seed=seed) * torch.linspace(0, 2, 6)
    mu[~mask] = 1e3
    columns = torch.stack([mu[row, place] for row, count in enumerate(counts) for place in range(count)]).T.tolist()
    assert active_units(mu, mask, least).item() == sum(pvariance(column) > least for column in columns)


def slow_nll(states: Tensor, words: Tensor, targets: Tensor, counts: list[int]) -> list[list[float]]:
    def cost(state: Tensor, target: int) -> float:
        raised = [math.exp(float(state @ word)) for word in words]
        return -math.log(raised[target] / sum(raised))

    return [
        [cost(states[row, place], int(targets[row, place])) for place in range(count)]
        for row, count in enumerate(counts)
    ]


@given(counts=lengths, seed=st.integers(0, 999), reduction=reductions)
def test_likelihood_against_loops(counts: list[int], seed: int, reduction: Reduction) -> None:
    mask = real(counts)
    states, words = random(*mask.shape, 5, seed=seed), random(7, 5, seed=seed + 1)
    targets = torch.randint(7, mask.shape, generator=torch.Generator().manual_seed(seed))
    expected = by_loops(slow_nll(states, words, targets, counts), reduction)
    assert token_nll(states, words, targets, mask, reduction).item() == pytest.approx(expected, rel=1e-4)
    states[~mask] = 1e30
    assert token_nll(states, words, targets, mask, reduction).item() == pytest.approx(expected, rel=1e-4)


def test_chunks_give_the_value_and_the_slopes_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    mask, targets = real([4, 2, 3]), torch.arange(15).view(3, 5) % 7
    results = []
    for most in (bima.LOGIT_BYTES, 2 * 4 * 7):  # all at once, and two tokens at a time
        monkeypatch.setattr(bima, "LOGIT_BYTES", most)
        states, words = (random(*shape, seed=1).requires_grad_() for shape in ((3, 5, 4), (7, 4)))
        cost = token_nll(states, words, targets, mask)
        results.append((cost.detach(), *torch.autograd.grad(cost, (states, words))))
    for whole, parts in zip(*results, strict=True):
        torch.testing.assert_close(parts, whole)
    assert not results[0][1][~mask].any()


@given(counts=lengths, seed=st.integers(0, 999))
def test_overlap_against_a_loop_over_words(counts: list[int], seed: int) -> None:
    mask = real(counts)
    content, bias = (random(*mask.shape, 5, seed=seed + one) for one in (0, 1))
    said, held = (rows[mask].double().numpy() for rows in (content, bias))
    squares = []
    for one, other in zip(said - said.mean(0), held - held.mean(0), strict=True):
        lengths_of = float((one @ one) * (other @ other)) ** 0.5
        squares.append((float(one @ other) / lengths_of) ** 2 if lengths_of > 1e-9 else 0.0)
    assert overlap(content, bias, mask).item() == pytest.approx(sum(squares) / len(squares), abs=1e-5)


def test_overlap_begins_where_there_is_no_bias_yet() -> None:
    """The head of the bias begins at zero, and its first step has a gradient that is a number."""
    content, bias = random(2, 3, 4, seed=0), torch.zeros(2, 3, 4, requires_grad=True)
    overlap(content, bias, torch.ones(2, 3, dtype=torch.bool)).backward()
    assert bias.grad is not None
    assert bias.grad.isfinite().all()
