"""Encoders and matchers of random weights through MTEB's own harness, beside the same vectors and pairs here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import mteb
import numpy as np
import pytest
import torch

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, save_pretrained
from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.towers import load_towers
from evenreel.errors import MediaError, ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, evaluate
from evenreel.integrations.mteb import MtebMatcher, MtebModel, load_model, load_predictions, read_results, task_corpus
from evenreel.matchers import TextBatch, VideoBatch
from evenreel.types import Encoder, Scores
from tests.checkpoint.conftest import trained
from tests.matchers.examples import SETTINGS
from tests.media_files import Film, Picture, numbered_picture, steady, write_film
from tests.tiny_checkpoints import tiny_clip

COUNT = 9
METRICS = {
    "hit_rate_at_1": "R@1",
    "hit_rate_at_3": "R@3",
    "ndcg_at_5": "nDCG@5",
    "map_at_10": "mAP",
    "mrr_at_10": "MRR",
}


FRAMES = (0, 2, 4)
"""The middles of three intervals of five frames."""


def pictures(film: int) -> list[Picture]:
    return [numbered_picture(20 * film + place) for place in range(5)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return load_encoder(str(tiny_clip(tmp_path_factory.mktemp("tiny") / "clip")), device="cpu")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("films")
    return [
        write_film(folder / f"{n}.mkv", Film(steady(5), codec="ffv1", pix_fmt="bgr0"), pictures(n))
        for n in range(COUNT)
    ]


def task_of(direction: str, films: list[Path]) -> Any:
    """Search between nine videos and a text each, in memory; half of the videos are files and half bytes."""
    from mteb.mocks.mock_tasks import retrieval

    task = (retrieval.MockVideoRetrievalT2V if direction == "t2v" else retrieval.MockVideoRetrievalV2T)()
    words = [f"a {'bag of dogs'[n:]} {n}" for n in range(COUNT)]
    texts = datasets.Dataset.from_dict({"id": [f"c{n}" for n in range(COUNT)], "text": words})
    videos = [
        {"path": str(path), "bytes": None} if n % 2 else {"path": None, "bytes": path.read_bytes()}
        for n, path in enumerate(films)
    ]
    kinds = datasets.Features({"id": datasets.Value("string"), "video": datasets.Video(decode=False)})
    clips = datasets.Dataset.from_dict({"id": [f"v{n}" for n in range(COUNT)], "video": videos}, features=kinds)
    asking, found = ("c", "v") if direction == "t2v" else ("v", "c")
    task.dataset = {
        "default": {
            "test": {
                "queries": texts if direction == "t2v" else clips,
                "corpus": clips if direction == "t2v" else texts,
                "relevant_docs": {f"{asking}{n}": {f"{found}{n}": 1} for n in range(COUNT)},
                "top_ranked": None,
            }
        }
    }
    task.data_loaded = True
    return task


def check_alike(theirs: dict[str, float], ours: dict[str, Any]) -> None:
    """Figures of MTEB are ours, to 1e-6; it rounds some of them to five decimals before anyone sees them."""
    for name, word in METRICS.items():
        assert theirs[name] in (
            pytest.approx(ours[word].value / 100, abs=1e-6),
            pytest.approx(round(ours[word].value / 100, 5), abs=1e-9),
        ), name
    assert 0 < ours["MRR"].value < 100


@pytest.mark.parametrize("direction", ["t2v", "v2t"])
def test_mteb_s_harness_gives_the_scores_that_evaluate_gives(
    direction: str, encoder: Encoder, films: list[Path], tmp_path: Path
) -> None:
    task = task_of(direction, films)
    done = mteb.evaluate(
        MtebModel(encoder, frames=3),
        task,
        cache=None,
        prediction_folder=tmp_path,
        co2_tracker=False,
        show_progress_bar=False,
    )
    theirs = done.task_results[0].scores["test"][0]
    corpus = task_corpus(task)
    texts = encoder.encode_text(corpus.captions["text"].to_list()).sentence
    stacks = [np.stack(pictures(n))[[0, 2, 4]].transpose(0, 3, 1, 2) for n in range(COUNT)]
    frames = [encoder.encode_windows(stack[:, None]).mean(axis=0) for stack in stacks]
    vectors = np.stack([one / np.linalg.norm(one) for one in frames])
    scores = Scores(texts @ vectors.T, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())
    settings = EvaluationSettings(tuple(METRICS.values()), directions=(direction,))  # type: ignore[arg-type]
    ours = evaluate(scores, corpus, settings).directions[direction].summary  # type: ignore[index]
    check_alike(theirs, ours)
    (path,) = tmp_path.glob("**/*_predictions.json")
    predicted = load_predictions(path, corpus)
    every = predicted.block(slice(0, COUNT), slice(0, COUNT))
    np.testing.assert_allclose(every, scores.block(slice(0, COUNT), slice(0, COUNT)), atol=1e-6)
    read = evaluate(predicted, corpus, settings).directions[direction].summary  # type: ignore[index]
    for word, figure in ours.items():
        assert (read[word].value, read[word].low) == pytest.approx((figure.value, figure.low), abs=1e-6), word


def test_a_result_file_reads_back_to_what_it_prints(encoder: Encoder, films: list[Path], tmp_path: Path) -> None:
    done = mteb.evaluate(
        MtebModel(encoder), task_of("t2v", films), cache=None, co2_tracker=False, show_progress_bar=False
    )
    done.task_results[0].to_disk(tmp_path / "task.json")
    table = read_results(tmp_path / "task.json")
    printed = json.loads((tmp_path / "task.json").read_text())["scores"]["test"][0]
    row = table.filter(metric="ndcg_at_10", split="test").row(0, named=True)
    assert (row["value"], row["task"]) == (printed["ndcg_at_10"], "MockVideoRetrievalT2V")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "holds no table of names"),
        ("{", "cannot be read as JSON"),
        ('{"mteb_model_meta": {}, "en": {"dev": {}}}', "has no predictions of default/test; it has: en/dev"),
        ('{"default": {"test": {}}}', "lists nothing for default/test"),
        ('{"default": {"test": {"c0": {"elsewhere": 1}}}}', "names 'elsewhere'"),
    ],
)
def test_hazard_185_a_file_that_mteb_did_not_write_is_refused(
    text: str, sentence: str, films: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(ScoresError, match=sentence):
        load_predictions(tmp_path / "p.json", task_corpus(task_of("t2v", films)))


class Decoder:
    """Frames as a decoder of torchcodec gives them."""

    def __init__(self, frames: list[Picture]) -> None:
        self.frames = torch.as_tensor(np.stack(frames).transpose(0, 3, 1, 2))

    def __len__(self) -> int:
        return len(self.frames)

    def get_frames_at(self, indices: list[int]) -> SimpleNamespace:
        return SimpleNamespace(data=self.frames[indices])


def test_a_video_has_one_vector_in_whatever_form_it_comes(encoder: Encoder, films: list[Path]) -> None:
    raw = torch.as_tensor(np.stack(pictures(1)).transpose(0, 3, 1, 2))
    forms = [films[1], str(films[1]), {"path": str(films[1]), "bytes": None}, Decoder(pictures(1)), raw, raw.numpy()]
    vectors = MtebModel(encoder, frames=3).encode([{"video": forms[:2]}, {"video": forms[2:]}])
    assert vectors.shape == (6, encoder.dimension)
    np.testing.assert_allclose(vectors, vectors[:1].repeat(6, axis=0), atol=1e-6)
    other = MtebModel(encoder, frames=3).encode([{"video": [films[2]]}])
    assert np.abs(other - vectors[0]).max() > 1e-4


def test_a_batch_of_another_kind_is_refused(encoder: Encoder) -> None:
    model = MtebModel(encoder)
    with pytest.raises(UsageError, match="text, image or video alone"):
        model.encode([{"text": ["a"], "image": [None]}])
    with pytest.raises(UsageError, match="of the shape"):
        model.encode([{"video": [np.zeros((2, 8, 8, 3), np.uint8)]}])


def matcher_of(name: str, encoder: Encoder) -> Pretrained:
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    about = About(note, Inputs(frames=12, words=32, rule="3 midpoints"))
    return trained(MatcherSpec(name, SETTINGS.get(name, {})), about)


def one_by_one(
    pretrained: Pretrained, encoder: Encoder, texts: list[str], before: Encoder | None = None
) -> np.ndarray[Any, Any]:
    """Scores of each text with each film: a batch of one each, from features as they are stored, in float16."""

    def stored(values: np.ndarray[Any, Any]) -> torch.Tensor:
        return torch.as_tensor(values.astype(np.float16).astype(np.float32))

    matcher, scores = pretrained.matcher, np.zeros((len(texts), COUNT))
    read = encoder.encode_text(texts)
    for row in range(len(texts)):
        words = stored(read.words[row][read.word_mask[row]])[None]
        mask = torch.ones(words.shape[:2], dtype=torch.bool)
        asked = TextBatch(("c",), words, mask, stored(read.sentence[row])[None])
        for film in range(COUNT):
            stack = np.stack(pictures(film))[list(FRAMES)].transpose(0, 3, 1, 2)
            frames = stored(encoder.encode_windows(stack[:, None]))[None]
            mean = None if before is None else stored(before.encode_windows(stack[:, None])).mean(0, keepdim=True)
            times = torch.tensor([[0.1, 0.5, 0.9]])
            shown = VideoBatch(("v",), frames, torch.ones(1, 3, dtype=torch.bool), times, pretrained_mean=mean)
            with torch.inference_mode():
                scores[row, film] = float(matcher.score(matcher.encode_text(asked), matcher.encode_video(shown)))
    return scores


@pytest.mark.parametrize(("direction", "name"), [("t2v", "x_pool"), ("v2t", "wti")])
def test_a_matcher_in_mteb_has_its_true_scores(
    direction: str, name: str, encoder: Encoder, films: list[Path], tmp_path: Path
) -> None:
    pretrained = matcher_of(name, encoder)
    save_pretrained(tmp_path / "checkpoint", pretrained)
    model = load_model(tmp_path / "checkpoint", device="cpu", folder=tmp_path / "features")
    task = task_of(direction, films)
    done = mteb.evaluate(
        model, task, cache=None, prediction_folder=tmp_path, co2_tracker=False, show_progress_bar=False
    )
    theirs = done.task_results[0].scores["test"][0]
    corpus = task_corpus(task)
    texts = corpus.captions["text"].to_list()
    values = one_by_one(pretrained, encoder, texts)
    assert np.abs(values - np.stack([values.mean(axis=0)] * COUNT)).max() > 1e-3  # texts differ
    scores = Scores(values, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())
    settings = EvaluationSettings(tuple(METRICS.values()), directions=(direction,))  # type: ignore[arg-type]
    ours = evaluate(scores, corpus, settings).directions[direction].summary  # type: ignore[index]
    check_alike(theirs, ours)
    (path,) = tmp_path.glob("**/*_predictions.json")
    predicted = load_predictions(path, corpus)
    np.testing.assert_allclose(predicted.block(slice(0, COUNT), slice(0, COUNT)), values, atol=1e-6)


def test_a_matcher_lists_so_many_and_chooses_from_what_it_is_given(encoder: Encoder, films: list[Path]) -> None:
    pretrained = matcher_of("x_pool", encoder)
    model, task = MtebMatcher(pretrained, encoder), task_of("t2v", films)
    data = task.dataset["default"]["test"]
    model.index(data["corpus"], task_metadata=task.metadata)
    scores = one_by_one(pretrained, encoder, list(data["queries"]["text"]))
    found = model.search(data["queries"], task_metadata=task.metadata, top_k=4)
    for row in range(COUNT):
        best = np.argsort(-scores[row])[:4]
        assert list(found[f"c{row}"]) == [f"v{film}" for film in best]
    chosen = {f"c{row}": ["v8", "v0", "v5"] for row in range(COUNT - 1)}
    found = model.search(data["queries"], task_metadata=task.metadata, top_k=2, top_ranked=chosen)
    for row in range(COUNT - 1):
        assert list(found[f"c{row}"]) == [f"v{film}" for film in sorted((8, 0, 5), key=lambda f: -scores[row, f])[:2]]
    assert found[f"c{COUNT - 1}"] == {}


def test_a_matcher_comes_with_the_towers_that_were_trained_with_it(
    encoder: Encoder, films: list[Path], tmp_path: Path
) -> None:
    towers = load_towers(open_checkpoint(Path(encoder.encoder_id)), torch.device("cpu"), "float32")
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in towers.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    saved = save_pretrained(tmp_path / "checkpoint", matcher_of("bima", encoder), towers)
    assert saved.needs_pretrained_means
    model, task = MtebMatcher.from_checkpoint(tmp_path / "checkpoint", device="cpu"), task_of("v2t", films)
    data = task.dataset["default"]["test"]
    model.index(data["corpus"], task_metadata=task.metadata)
    found = model.search(data["queries"], task_metadata=task.metadata, top_k=COUNT)
    own = load_encoder(str(tmp_path / "checkpoint" / "encoder"), device="cpu")
    scores = one_by_one(saved, own, list(data["corpus"]["text"]), encoder)
    listed = [[found[f"v{film}"][f"c{row}"] for film in range(COUNT)] for row in range(COUNT)]
    np.testing.assert_allclose(listed, scores, atol=1e-5)
    assert np.abs(one_by_one(saved, own, list(data["corpus"]["text"])) - scores).max() > 1e-4
    with pytest.raises(UsageError, match=r"give that encoder too \(before=\)"):
        MtebMatcher(saved, own)


def test_hazard_194_a_video_of_a_task_that_cannot_be_read_ends_the_search(
    encoder: Encoder, films: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "broken.mkv").write_bytes(films[0].read_bytes()[:200])
    model, task = (
        MtebMatcher(matcher_of("wti", encoder), encoder),
        task_of("t2v", [tmp_path / "broken.mkv", *films[1:]]),
    )
    data = task.dataset["default"]["test"]
    model.index(data["corpus"], task_metadata=task.metadata)
    with pytest.raises(
        MediaError, match=r"The video v0 of the task cannot be used .* would not be those of the task\."
    ):
        model.search(data["queries"], task_metadata=task.metadata, top_k=4, num_proc=1)


def test_hazard_195_a_search_that_a_matcher_cannot_answer_is_refused(encoder: Encoder) -> None:
    from mteb.mocks.mock_tasks import retrieval

    model = MtebMatcher(matcher_of("wti", encoder), encoder)
    for task in (retrieval.MockVideoAudioRetrievalVA2T, retrieval.MockVideoAudioRetrievalT2VA):
        model.index([], task_metadata=task.metadata)  # the sound beside a video is left out
    for task in (retrieval.MockVideoAudioTextRetrievalVAT2T, retrieval.MockRetrievalTask):
        with pytest.raises(UsageError, match="takes texts alone on one side and videos on the other"):
            model.index([], task_metadata=task.metadata)


def test_hazard_196_a_matcher_of_other_features_than_the_encoder_s_is_refused(encoder: Encoder) -> None:
    fitting = matcher_of("wti", encoder)
    for about, why in (
        (About(EncoderNote("org/other", "00" * 32, encoder.dimension)), "has other weights"),
        (About(EncoderNote("stored:i3d", "00" * 32, encoder.dimension)), "features that others computed"),
        (replace(fitting.about, inputs=Inputs(windows=12, words_from="corpus")), "words on screen that a corpus ships"),
    ):
        with pytest.raises(UsageError, match=why):
            MtebMatcher(replace(fitting, about=about), encoder)


def test_a_text_of_a_task_may_answer_several_videos(films: list[Path]) -> None:
    task = task_of("v2t", films)
    task.dataset["default"]["test"]["relevant_docs"] |= {"v3": {"c3": 1, "c0": 2}, "v4": {"c4": 0, "c0": 1}}
    captions = task_corpus(task).captions
    assert captions.filter(caption_id="c0").select("clip_id", "other_clips").row(0) == ("v0", ["v3", "v4"])
    assert captions.height == COUNT - 1  # c4 answers nothing any more
    assert "other_clips" not in task_corpus(task_of("v2t", films)).captions.columns


def test_a_part_of_a_task_that_is_not_there_is_refused(films: list[Path]) -> None:
    task = task_of("t2v", films)
    with pytest.raises(UsageError, match="has no default/dev; it has: default/test"):
        task_corpus(task, split="dev")
    task.data_loaded = False
    with pytest.raises(UsageError, match="is not loaded"):
        task_corpus(task)
