"""A model of random weights through MTEB's own harness, beside the same embeddings measured here."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import mteb
import numpy as np
import pytest
import torch

from evenreel.encoders import load_encoder
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, evaluate
from evenreel.integrations.mteb import MtebModel, load_predictions, read_results, task_corpus
from evenreel.types import Encoder, Scores
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
    for name, word in METRICS.items():
        # MTEB rounds some of them to five decimals before anyone sees them.
        assert theirs[name] in (
            pytest.approx(ours[word].value / 100, abs=1e-6),
            pytest.approx(round(ours[word].value / 100, 5), abs=1e-9),
        ), name
    assert 0 < ours["MRR"].value < 100
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
