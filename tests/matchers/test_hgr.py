"""HGR against loops over captions, words, phrases and frames, and the sizes that are published of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.language.role_graphs import ROLES
from evenreel.losses import ranking_hinge
from evenreel.matchers import MATCHERS, TextBatch, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.hgr import (
    Hgr,
    HgrSettings,
    PhraseTexts,
    PhraseVideos,
    attended_cosines,
    frames_of,
    graph_tensors,
    phrase_similarity,
    with_vocabulary,
)
from evenreel.matchers.matcher import LearnedFrom
from evenreel.similarity import interaction
from evenreel.similarity.tiles import mapped
from evenreel.types import RoleGraph, RoleNode
from tests.matchers.examples import DIMENSION, KNOWN, SETTINGS, captions, disturb, pairs, scores_of, small, videos

PARTS = [("ARG0", (0, 1)), ("V", (2,)), ("ARG1", (3, 4, 5)), ("ARGM-DIR", (7,)), ("V", (9,)), ("NOUN", (8,))]
DOG = RoleGraph(
    ("a", "dog", "throws", "a", "red", "ball", "to", "dog", "and", "sleeps"),
    tuple(RoleNode(*part) for part in PARTS),
    ((1, 0), (1, 2), (1, 3), (4, 0)),
)
"""Two verbs that share a noun, a noun of none, and a word that nobody knows."""

GRAPHS = (DOG, RoleGraph(("red", "ball"), (RoleNode("NOUN", (0, 1)),)), RoleGraph(("unheard",)))


def built(dtype: torch.dtype = torch.float64, **settings: Any) -> Any:
    torch.manual_seed(0)
    return disturb(build_matcher("hgr", DIMENSION, {**SETTINGS["hgr"], **settings}), 0.3).to(dtype).eval()


def texts(*graphs: RoleGraph) -> TextBatch:
    """Captions that no tower has read: their words have no features."""
    count = len(graphs)
    real = torch.ones(count, 1, dtype=torch.bool)
    return TextBatch(tuple(map(str, range(count))), torch.zeros(count, 1, 0), real, torch.zeros(count, 0), graphs)


# The sizes


def test_as_many_parameters_as_published() -> None:
    """The frame-length paper's table 5: 3.15 and 10.25 million, without the vectors of words and roles."""
    with torch.device("meta"):
        matcher = Hgr(1024, HgrSettings())
    counts = {name: parameter.numel() for name, parameter in matcher.named_parameters()}
    assert sum(count for name, count in counts.items() if name.startswith("videos.")) == 3_149_825
    of_vectors = counts.pop("texts.words.weight"), counts.pop("texts.roles.weight")
    assert of_vectors == (300, 16 * 1024)
    assert sum(count for name, count in counts.items() if name.startswith("texts.")) == 10_248_193


# Captions


def slow_text(matcher: Any, graph: RoleGraph) -> dict[str, Tensor]:
    """Sentence and phrases by their place in the graph, one node after the other."""
    own, known = matcher.texts, {word: place for place, word in enumerate(KNOWN, start=1)}
    words = own.words.weight[[known.get(word, 0) for word in graph.words]]
    hidden = sum(own.recurrent(words[None])[0][0].chunk(2, dim=-1)) / 2
    raised = [math.exp(own.attention(word).item()) for word in hidden]
    nodes = {"event": sum(weight / sum(raised) * word for weight, word in zip(raised, hidden, strict=True))}
    for place, node in enumerate(graph.nodes):
        largest = [max(float(hidden[word][entry]) for word in node.words) for entry in range(hidden.shape[1])]
        nodes[str(place)] = torch.tensor(largest, dtype=hidden.dtype) * own.roles.weight[ROLES.index(node.role)]
    seen: dict[str, list[str]] = {name: [] for name in nodes}
    for place, node in enumerate(graph.nodes):
        seen[str(place)] += ["event"] if node.is_verb else []
    for verb, noun in graph.edges:
        seen[str(verb)].append(str(noun))
        seen[str(noun)].append(str(verb))
    return {name: slow_node(own.graph, node, [nodes[other] for other in seen[name]]) for name, node in nodes.items()}


def slow_node(layer: Any, node: Tensor, others: list[Tensor]) -> Tensor:
    query, keys = layer.query(node), [layer.key(other) for other in others]
    raised = [math.exp(float(query @ key) / math.sqrt(len(query))) for key in keys]
    taken = sum((weight / sum(raised) * other for weight, other in zip(raised, others, strict=True)), 0 * node)
    moved = node + layer.context.weight @ taken
    centred = moved - moved.mean()
    level = centred / (centred.square().mean() + layer.norm.eps).sqrt() * layer.norm.weight + layer.norm.bias
    return level / level.norm()


@torch.no_grad()
def test_captions_as_the_formulas_say() -> None:
    matcher = built()
    state = matcher.encode_text(texts(*GRAPHS))
    for row, graph in enumerate(GRAPHS):
        expected = slow_text(matcher, graph)
        torch.testing.assert_close(state.sentence[row], expected["event"], atol=1e-12, rtol=0)
        for level, mask, wanted in ((state.verbs, state.verb_mask, True), (state.nouns, state.noun_mask, False)):
            own = [expected[str(place)] for place, node in enumerate(graph.nodes) if node.is_verb == wanted]
            assert int(mask[row].sum()) == len(own)
            for found, one in zip(level[row][mask[row]], own, strict=True):
                torch.testing.assert_close(found, one, atol=1e-12, rtol=0)
            assert not level[row][~mask[row]].any()


@torch.no_grad()
def test_videos_as_the_formulas_say() -> None:
    matcher, video = built(), videos(dtype=torch.float64)
    state, own = matcher.encode_video(video), matcher.videos
    for row in range(len(video.ids)):
        frames = video.frames[row][video.frame_mask[row]] * math.sqrt(DIMENSION)
        raised = [math.exp(own.attention(own.event(frame)).item()) for frame in frames]
        pooled = sum(weight * own.event(frame) for weight, frame in zip(raised, frames, strict=True))
        torch.testing.assert_close(state.video[row], pooled / pooled.norm(), atol=1e-12, rtol=0)
        for level, found in ((own.verbs, state.verbs), (own.nouns, state.nouns)):
            seen = (found.unit * found.lengths[..., None])[row][: len(frames)]
            torch.testing.assert_close(seen, level(frames), atol=1e-12, rtol=0)


def test_the_length_of_features_counts_for_nothing() -> None:
    matcher, video = built(torch.float32), videos()
    longer = replace(video, frames=video.frames * torch.arange(1, 6)[:, None, None])
    torch.testing.assert_close(scores_of(matcher, texts(*GRAPHS), longer), scores_of(matcher, texts(*GRAPHS), video))


def test_what_is_past_the_limits_is_cut_off() -> None:
    """Words, verbs and nouns; a phrase none of whose words is read is left out, and its place given to the next."""
    matcher = built(torch.float32, max_words=8, max_verbs=1, max_nouns=2)
    kept = RoleGraph(DOG.words[:8], DOG.nodes[:3], ((1, 0), (1, 2)))
    for found, expected in zip(matcher.encode_text(texts(DOG)), matcher.encode_text(texts(kept)), strict=True):
        torch.testing.assert_close(found, expected)
    late = RoleGraph(DOG.words, (RoleNode("V", (9,)), *DOG.nodes[:3]), ((2, 1), (2, 3)))
    for found, expected in zip(matcher.encode_text(texts(late)), matcher.encode_text(texts(kept)), strict=True):
        torch.testing.assert_close(found, expected)
    partly = replace(kept, nodes=(*DOG.nodes[:2], RoleNode("ARG1", (3, 4, 5, 9))))
    for found, expected in zip(matcher.encode_text(texts(partly)), matcher.encode_text(texts(kept)), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_role_of_another_set_is_that_of_a_noun() -> None:
    strange = RoleGraph(("red", "ball"), (RoleNode("ARGM-CAU", (0, 1)),))
    assert graph_tensors([strange], {}, HgrSettings()).roles.tolist() == [[ROLES.index("NOUN")]]


def test_captions_without_graphs_are_refused() -> None:
    with pytest.raises(UsageError, match="hgr reads captions as role graphs, and these have none; make them with"):
        built().encode_text(replace(captions(), graphs=None))


def test_an_adapter_leaves_captions_alone() -> None:
    """They have no features that it could map."""
    adapted = disturb(Adapted(small("hgr"), DIMENSION, AdapterSettings())).eval()
    state = adapted.encode_text(texts(*GRAPHS))
    torch.testing.assert_close(state.sentence, adapted.matcher.encode_text(texts(*GRAPHS)).sentence)


# Words


def test_the_vocabulary_is_that_of_the_captions_by_frequency() -> None:
    graphs = [DOG, RoleGraph(("dog", "sleeps"))]
    found = with_vocabulary({"words_at_least": 2}, LearnedFrom(graphs))
    assert found == {"words_at_least": 2, "vocabulary": ("dog", "a", "sleeps")}
    assert with_vocabulary(found, LearnedFrom(GRAPHS)) == found
    assert build_matcher("hgr", DIMENSION, {**found, "size": 4}).texts.words.num_embeddings == 4  # type: ignore[attr-defined]


def test_words_that_are_not_in_it_share_a_vector() -> None:
    matcher = built(torch.float32)
    one, other = (RoleGraph((word, "dog"), (RoleNode("V", (0,)),)) for word in ("hops", "skips"))
    state = matcher.encode_text(texts(one, other, RoleGraph(("throws", "dog"), (RoleNode("V", (0,)),))))
    assert torch.equal(state.verbs[0], state.verbs[1])
    assert not torch.equal(state.verbs[0], state.verbs[2])


def test_word_vectors_of_a_file_are_what_it_begins_with(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("dog 1 2 3 4 5 6\nnobody 0 0 0 0 0 0\nto 7 8 9 10 11 12\n")
    matcher, fresh = (build_matcher("hgr", DIMENSION, {**SETTINGS["hgr"], "vectors": str(path)}) for _ in range(2))
    assert isinstance(matcher, Hgr)
    matcher.load_state_dict(fresh.state_dict())  # type: ignore[attr-defined]
    before = matcher.texts.words.weight.detach().clone()
    matcher.read_start()
    after = matcher.texts.words.weight
    dog, to = 1 + KNOWN.index("dog"), 1 + KNOWN.index("to")
    assert after[[dog, to]].tolist() == [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]
    others = [row for row in range(len(after)) if row not in (dog, to)]
    assert torch.equal(after[others], before[others])
    assert after.requires_grad


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("dog 1 2", r"have 2 numbers, and word_size is 3; set word_size=2\."),
        ("Dog 1 2 3", "None of the 2 words of the captions has a vector in .*vectors.txt; give"),
    ],
)
def test_word_vectors_that_do_not_fit_are_refused(line: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"{line}\n")
    matcher = Hgr(DIMENSION, HgrSettings(size=4, word_size=3, vectors=str(path), vocabulary=("dog", "runs")))
    with pytest.raises(UsageError, match=sentence):
        matcher.read_start()


# Training


@pytest.mark.parametrize("mining", ["hardest", "all", "ran", "ranp"])
def test_the_loss_is_that_of_its_scores(mining: str) -> None:
    matcher = built(torch.float32, mining=mining, margin=0.5)
    relevance = torch.rand(5, 5, generator=torch.Generator().manual_seed(0))
    batch = replace(pairs(captions(), videos()), relevance=relevance)
    expected = ranking_hinge(scores_of(matcher, batch.text, batch.video), batch.same, matcher.settings, relevance)
    found = matcher.loss(batch)
    assert found.keys() == expected.keys()
    assert sum(found.values()) > 0
    for name, term in found.items():
        torch.testing.assert_close(term, expected[name])


def test_it_learns_what_captions_say() -> None:
    """Four captions of two words find their videos, whose frames point one way for each word."""
    torch.manual_seed(0)
    graphs = [
        RoleGraph((verb, noun), (RoleNode("V", (0,)), RoleNode("ARG1", (1,))), ((0, 1),))
        for verb in ("cut", "take")
        for noun in ("tomato", "plate")
    ]
    directions = torch.eye(DIMENSION)[:4]
    frames = torch.stack([directions[verb] + directions[2 + noun] for verb in range(2) for noun in range(2)])
    video = replace(videos((2,) * 4), frames=F.normalize(frames, dim=-1)[:, None].expand(-1, 2, -1))
    settings = {"size": 16, "word_size": 8, **with_vocabulary({}, LearnedFrom(graphs))}
    matcher: Any = build_matcher("hgr", DIMENSION, settings)
    optimiser = torch.optim.Adam(matcher.parameters(), lr=0.02)
    batch = pairs(texts(*graphs), video)
    for _ in range(30):
        optimiser.zero_grad()
        torch.stack(list(matcher.loss(batch).values())).sum().backward()
        optimiser.step()
    scores = scores_of(matcher.eval(), batch.text, batch.video)
    assert scores.argmax(1).tolist() == scores.argmax(0).tolist() == [0, 1, 2, 3]


def test_the_registry_says_who_reads_graphs() -> None:
    for name, entry in MATCHERS.items():
        with torch.device("meta"):
            matcher: Any = build_matcher(name, DIMENSION, SETTINGS.get(name))
        assert matcher.limits.graphs == entry.graphs
        assert isinstance(matcher, nn.Module)


# Three levels of similarity against the definition, phrase by phrase and frame by frame


LENGTH, SHARPNESS = 6, 4.0

counts = st.lists(st.integers(0, 3), min_size=5, max_size=5)


def texts_of_phrases(verbs: list[int], nouns: list[int], seed: int = 0) -> PhraseTexts:
    """Captions with so many verbs and nouns, in any of four places."""
    make = torch.Generator().manual_seed(seed)
    (verb_vectors, verb_mask), (noun_vectors, noun_mask) = (phrases(level, make) for level in (verbs, nouns))
    sentence = F.normalize(torch.randn(len(verbs), LENGTH, generator=make, dtype=torch.float64), dim=-1)
    return PhraseTexts(sentence, verb_vectors, verb_mask, noun_vectors, noun_mask)


def phrases(real: list[int], make: torch.Generator) -> tuple[Tensor, Tensor]:
    mask = torch.arange(4) < torch.tensor(real)[:, None]
    mask = torch.stack([row[torch.randperm(4, generator=make)] for row in mask])
    vectors = F.normalize(torch.randn(*mask.shape, LENGTH, generator=make, dtype=torch.float64), dim=-1)
    return vectors.masked_fill(~mask[..., None], 0.0), mask


def videos_of_phrases(lengths: list[int], seed: int = 1) -> tuple[PhraseVideos, Tensor, Tensor]:
    """Videos of so many frames, and the vectors of the two levels, with numbers that count for nothing as padding."""
    make = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    levels = 3 * torch.randn(2, *mask.shape, LENGTH, generator=make, dtype=torch.float64)
    video = F.normalize(torch.randn(len(lengths), LENGTH, generator=make, dtype=torch.float64), dim=-1)
    return PhraseVideos(video, mask, frames_of(levels[0], mask), frames_of(levels[1], mask)), levels[0], levels[1]


def slow(text: PhraseTexts, video: PhraseVideos, *levels: Tensor) -> Tensor:
    """The definition with loops over captions, videos, phrases and frames."""
    table = torch.zeros(len(text.sentence), len(video.video), dtype=torch.float64)
    for q in range(len(table)):
        own = [text.verbs[q][text.verb_mask[q]], text.nouns[q][text.noun_mask[q]]]
        for v in range(table.shape[1]):
            frames = [[list(map(float, frame)) for frame in level[v][video.frame_mask[v]]] for level in levels]
            scores = [float(text.sentence[q] @ video.video[v])]
            for level in range(2):
                found = [slow_phrase(list(map(float, phrase)), frames[level]) for phrase in own[level]]
                scores.append(sum(found) / len(found) if found else 0.0)
            table[q, v] = sum(scores) / 3
    return table


def slow_phrase(phrase: list[float], frames: list[list[float]]) -> float:
    positive = [max(0.0, cosine(phrase, frame)) for frame in frames]
    norm = math.sqrt(sum(one * one for one in positive)) or 1.0
    raised = [math.exp(SHARPNESS * one / norm) for one in positive]
    attended = [
        sum(weight / sum(raised) * frame[place] for weight, frame in zip(raised, frames, strict=True))
        for place in range(len(phrase))
    ]
    return cosine(phrase, attended)


def cosine(one: list[float], other: list[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


@given(counts, counts, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99))
@settings(max_examples=8)
def test_as_the_definition_says(verbs: list[int], nouns: list[int], lengths: list[int], seed: int) -> None:
    text, (video, *levels) = texts_of_phrases(verbs, nouns, seed), videos_of_phrases(lengths, seed + 1)
    scores = phrase_similarity(text, video, SHARPNESS)
    torch.testing.assert_close(scores, slow(text, video, *levels), atol=1e-12, rtol=0)


def test_where_all_is_unlike() -> None:
    """No cosine is positive, so that attention is equal, and none of it goes to the padding, whose product is 0."""
    text, (video, *_) = texts_of_phrases([2, 1], [1, 3]), videos_of_phrases([2, 4])
    levels = -(0.3 + torch.rand(2, 2, 4, LENGTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))
    text = text._replace(verbs=text.verbs.abs(), nouns=text.nouns.abs())
    away = (frames_of(level, video.frame_mask) for level in levels)
    video = PhraseVideos(video.video, video.frame_mask, *away)
    scores = phrase_similarity(text, video, SHARPNESS)
    torch.testing.assert_close(scores, slow(text, video, *levels), atol=1e-12, rtol=0)
    assert (3 * scores - text.sentence @ video.video.T < -0.5).all()


def test_a_caption_without_phrases_has_a_third_of_its_sentence() -> None:
    text, (video, *_) = texts_of_phrases([0, 0], [0, 0]), videos_of_phrases([2, 1])
    expected = text.sentence @ video.video.T / 3
    torch.testing.assert_close(phrase_similarity(text, video, SHARPNESS), expected)
    none = text._replace(verbs=text.verbs[:, :0], verb_mask=text.verb_mask[:, :0])
    torch.testing.assert_close(phrase_similarity(none, video, SHARPNESS), expected)


def test_chunks_of_any_size_give_the_table_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    text, (video, *_) = texts_of_phrases([1, 0, 3, 2, 0], [2, 0, 3, 1, 1]), videos_of_phrases([3, 1, 4, 2])
    whole = phrase_similarity(text, video, SHARPNESS)
    monkeypatch.setattr(interaction, "chunk_tokens", lambda _: 5)
    torch.testing.assert_close(phrase_similarity(text, video, SHARPNESS), whole, atol=1e-12, rtol=0)


def test_gradients_are_finite_and_those_of_the_definition() -> None:
    """Also of attention at equal weights, where a norm is 0, and of padding."""
    text, (video, verbs, nouns) = texts_of_phrases([2, 0], [1, 1]), videos_of_phrases([1, 3])
    verbs[0, 0] = -4 * text.verbs[0, int(text.verb_mask[0].int().argmax())]

    def of(verbs: Tensor, nouns: Tensor) -> Tensor:
        levels = frames_of(verbs, video.frame_mask), frames_of(nouns, video.frame_mask)
        return phrase_similarity(text, PhraseVideos(video.video, video.frame_mask, *levels), SHARPNESS)

    inputs = [level.requires_grad_() for level in (verbs, nouns)]
    assert torch.autograd.gradcheck(of, inputs, atol=1e-6)
    of(*inputs).sum().backward()
    for level in inputs:
        assert level.grad is not None
        assert level.grad.isfinite().all()
        assert not level.grad[~video.frame_mask].any()


def test_single_precision_is_enough_where_frames_are_next_to_equal() -> None:
    """The length of a sum that the Gram matrix gives loses nothing where nothing cancels."""
    make = torch.Generator().manual_seed(0)
    text, (video, *_) = texts_of_phrases([3] * 5, [3] * 5), videos_of_phrases([20] * 4)
    shape = (2, 4, 20, LENGTH)
    levels = torch.randn(2, 1, 1, LENGTH, generator=make, dtype=torch.float64) + 1e-3 * torch.randn(
        shape, generator=make, dtype=torch.float64
    )
    seen = PhraseVideos(*video[:2], *(frames_of(level, video.frame_mask) for level in levels))
    rough = phrase_similarity(single(text), single(seen), SHARPNESS)
    torch.testing.assert_close(rough.double(), phrase_similarity(text, seen, SHARPNESS), atol=1e-6, rtol=0)


def test_frames_that_cancel_out_are_like_nothing_and_have_gentle_slopes() -> None:
    """Each of them is followed by its opposite but for some rounding, and the phrase looks at all alike."""
    make = torch.Generator().manual_seed(0)
    frames = torch.randn(40, 1, LENGTH, generator=make)
    opposite = -frames * (1 + 1e-7 * torch.randn(frames.shape, generator=make))
    vectors = torch.cat([frames, opposite], dim=1).requires_grad_()
    phrase = F.normalize(torch.randn(3, LENGTH, generator=make), dim=-1)
    real = torch.ones(40, 2, dtype=torch.bool)
    found = attended_cosines(phrase, frames_of(vectors, real), real, sharpness=0.0)
    found.sum().backward()
    assert found.abs().max() < 0.01
    assert vectors.grad is not None
    assert vectors.grad.abs().max() < 1e5


def single(state: Any) -> Any:
    return mapped(state, lambda tensor: tensor if tensor.dtype == torch.bool else tensor.float())
